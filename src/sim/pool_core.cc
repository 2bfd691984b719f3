#include "sim/pool_core.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "sim/address_space.h"
#include "sim/driver.h"
#include "sim/memory.h"
#include "sim/registry.h"
#include "sim/stream.h"

namespace vram::sim {
namespace {

constexpr uint64_t kPoolPiece = 32ull << 20;
constexpr uint64_t kBlockGranule = 512;

}  // namespace

Pool::Pool(int device, uint64_t max_bytes, CUmemAllocationHandleType handle_types)
    : device_(device), max_bytes_(round_up(max_bytes, kPoolPiece)), handle_types_(handle_types) {
  // Twice the card, for holes between blocks cost addresses; less where addresses are short.
  AddressSpace* const space = AddressSpace::get();
  const uint64_t card = driver().machine->card_bytes(card_of(device));
  for (range_bytes_ = round_up(2 * card, kPoolPiece); space != nullptr && range_bytes_ != 0;
       range_bytes_ = range_bytes_ / 2 / kPoolPiece * kPoolPiece) {
    base_ = space->allocate(range_bytes_);
    if (base_ != 0) break;
  }
  if (base_ == 0) range_bytes_ = 0;
  if (range_bytes_ != 0) add_hole(base_, {range_bytes_});
}

uint64_t Pool::threshold() const {
  const std::lock_guard held(mutex_);
  return threshold_;
}

void Pool::set_threshold(uint64_t bytes) {
  const std::lock_guard held(mutex_);
  threshold_ = bytes;
}

Pool::Usage Pool::usage() const {
  const std::lock_guard held(mutex_);
  return usage_;
}

void Pool::reset_reserved_high() {
  const std::lock_guard held(mutex_);
  usage_.reserved_high = usage_.reserved;
}

void Pool::reset_used_high() {
  const std::lock_guard held(mutex_);
  usage_.used_high = usage_.used;
}

uint64_t Pool::piece_of(CUdeviceptr address) const { return (address - base_) / kPoolPiece; }

uint64_t Pool::missing_pieces(CUdeviceptr base, uint64_t bytes) const {
  uint64_t missing = 0;
  for (uint64_t piece = piece_of(base); piece <= piece_of(base + bytes - 1); ++piece) {
    if (!committed_.contains(piece)) ++missing;
  }
  return missing;
}

bool Pool::has_memory(CUdeviceptr base, uint64_t bytes) const {
  const std::lock_guard held(mutex_);
  return bytes <= range_bytes_ - (base - base_) && missing_pieces(base, bytes) == 0;
}

// A plain hole that needs no card memory, the smallest but for a few that lie badly. Most requests
// end here, so that a pool of many holes need not be looked through.
bool Pool::find_committed_hole(uint64_t bytes, Run* out) const {
  constexpr int kTries = 8;
  auto candidate = plain_by_size_.lower_bound({bytes, 0});
  for (int i = 0; i < kTries && candidate != plain_by_size_.end(); ++i, ++candidate) {
    if (missing_pieces(candidate->second, bytes) != 0) continue;
    *out = {candidate->second, candidate->first};
    return true;
  }
  return false;
}

// The smallest run that needs no card memory, else the one that needs the least.
bool Pool::find_run(uint64_t bytes, uint64_t stream, Run* out) const {
  Run best;
  uint64_t best_missing = UINT64_MAX;
  for (auto hole = holes_.begin(); hole != holes_.end();) {
    if (hole->second.stream != 0 && hole->second.stream != stream) {
      ++hole;
      continue;
    }
    Run run{hole->first, 0};
    for (; hole != holes_.end() && hole->first == run.base + run.bytes &&
           (hole->second.stream == 0 || hole->second.stream == stream);
         ++hole) {
      run.bytes += hole->second.bytes;
    }
    if (run.bytes < bytes) continue;
    const uint64_t missing = missing_pieces(run.base, bytes);
    if (missing < best_missing || (missing == best_missing && run.bytes < best.bytes)) {
      best = run;
      best_missing = missing;
    }
  }
  *out = best;
  return best.base != 0;
}

bool Pool::commit(CUdeviceptr base, uint64_t bytes) {
  const uint64_t more = missing_pieces(base, bytes) * kPoolPiece;
  if (more == 0) return true;
  if (max_bytes_ != 0 && usage_.reserved + more > max_bytes_) return false;
  if (charge(device_, more) != CUDA_SUCCESS) return false;
  for (uint64_t piece = piece_of(base); piece <= piece_of(base + bytes - 1); ++piece) {
    committed_.insert(piece);
  }
  usage_.reserved += more;
  usage_.reserved_high = std::max(usage_.reserved_high, usage_.reserved);
  return true;
}

// Takes [base, base + bytes) out of the holes that cover it.
void Pool::consume(CUdeviceptr base, uint64_t bytes) {
  const CUdeviceptr end = base + bytes;
  for (auto hole = holes_.find(base); hole != holes_.end() && hole->first < end;) {
    const CUdeviceptr hole_end = hole->first + hole->second.bytes;
    Hole rest = hole->second;
    hole = remove_hole(hole);
    if (hole_end <= end) continue;
    rest.bytes = hole_end - end;
    add_hole(end, rest);
    return;
  }
}

void Pool::add_hole(CUdeviceptr base, const Hole& hole) {
  holes_[base] = hole;
  if (hole.stream == 0) {
    plain_by_size_.emplace(hole.bytes, base);
  } else {
    pending_[hole.stream].push_back({base, hole.number});
  }
}

Pool::Holes::iterator Pool::remove_hole(Holes::iterator hole) {
  if (hole->second.stream == 0) plain_by_size_.erase({hole->second.bytes, hole->first});
  return holes_.erase(hole);
}

CUresult Pool::allocate(uint64_t bytes, uint64_t stream, CUdeviceptr* out) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > range_bytes_) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t rounded = round_up(bytes, kBlockGranule);
  const std::lock_guard held(mutex_);
  settle_reached();
  Run run;
  if (!find_committed_hole(rounded, &run) && !find_run(rounded, stream, &run)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!commit(run.base, rounded)) {
    release_pieces(0);
    if (!commit(run.base, rounded)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  consume(run.base, rounded);
  blocks_[run.base] = rounded;
  usage_.used += rounded;
  usage_.used_high = std::max(usage_.used_high, usage_.used);
  *out = run.base;
  return CUDA_SUCCESS;
}

bool Pool::free(CUdeviceptr base, uint64_t stream, uint64_t number) {
  const std::lock_guard held(mutex_);
  const auto block = blocks_.find(base);
  if (block == blocks_.end()) return false;
  add_hole(base, {block->second, stream, number});
  usage_.used -= block->second;
  blocks_.erase(block);
  if (stream == 0) make_plain(holes_.find(base));
  return true;
}

// Joins the hole with its plain neighbours.
void Pool::make_plain(Holes::iterator hole) {
  CUdeviceptr base = hole->first;
  uint64_t bytes = hole->second.bytes;
  auto next = remove_hole(hole);
  if (next != holes_.end() && next->second.stream == 0 && next->first == base + bytes) {
    bytes += next->second.bytes;
    next = remove_hole(next);
  }
  if (next != holes_.begin()) {
    const auto previous = std::prev(next);
    if (previous->second.stream == 0 && previous->first + previous->second.bytes == base) {
      base = previous->first;
      bytes += previous->second.bytes;
      remove_hole(previous);
    }
  }
  add_hole(base, {bytes});
}

void Pool::settle_reached() {
  for (auto& [stream, frees] : pending_) {
    while (!frees.empty() && reached(stream, frees.front().number)) {
      const auto hole = holes_.find(frees.front().base);
      const bool current = hole != holes_.end() && hole->second.stream == stream &&
                           hole->second.number == frees.front().number;
      frees.pop_front();
      if (current) make_plain(hole);
    }
  }
  std::erase_if(pending_, [](const auto& entry) { return entry.second.empty(); });
}

// From the highest address down, so that what stays lies together.
void Pool::release_pieces(uint64_t keep) {
  std::vector<Run> holes;
  for (auto hole = plain_by_size_.lower_bound({kPoolPiece, 0}); hole != plain_by_size_.end();
       ++hole) {
    holes.push_back({hole->second, hole->first});
  }
  std::sort(holes.begin(), holes.end(),
            [](const Run& left, const Run& right) { return left.base > right.base; });
  for (const Run& hole : holes) release_pieces_of(hole, keep);
}

void Pool::release_pieces_of(Run hole, uint64_t keep) {
  const uint64_t first = round_up(hole.base - base_, kPoolPiece) / kPoolPiece;
  const uint64_t end = (hole.base + hole.bytes - base_) / kPoolPiece;
  auto piece = committed_.lower_bound(end);
  while (usage_.reserved > keep && piece != committed_.begin()) {
    if (*--piece < first) return;
    AddressSpace::get()->discard(base_ + *piece * kPoolPiece, kPoolPiece);
    uncharge(device_, kPoolPiece);
    usage_.reserved -= kPoolPiece;
    piece = committed_.erase(piece);
  }
}

void Pool::synchronised() {
  const std::lock_guard held(mutex_);
  settle_reached();
  if (usage_.reserved > threshold_) release_pieces(threshold_);
}

void Pool::trim(uint64_t keep) {
  const std::lock_guard held(mutex_);
  release_pieces(keep);
}

void Pool::retire() {
  const std::lock_guard held(mutex_);
  threshold_ = 0;
  release_pieces(0);
}

void Pool::free_all() {
  const std::lock_guard held(mutex_);
  for (const auto& [base, bytes] : blocks_) {
    Allocation allocation;
    (void)take_allocation(base, MemoryKind::kPool, &allocation);
  }
  blocks_.clear();
  pending_.clear();
  threshold_ = 0;
  usage_.used = 0;
  holes_.clear();
  plain_by_size_.clear();
  if (range_bytes_ != 0) add_hole(base_, {range_bytes_});
  release_pieces(0);
}

}  // namespace vram::sim
