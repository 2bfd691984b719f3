#include "sim/pool_core.h"

#include <algorithm>
#include <iterator>

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
  if (range_bytes_ != 0) holes_[base_] = {range_bytes_};
  committed_.resize(range_bytes_ / kPoolPiece);
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

size_t Pool::piece_of(CUdeviceptr address) const { return (address - base_) / kPoolPiece; }

uint64_t Pool::missing_pieces(CUdeviceptr base, uint64_t bytes) const {
  uint64_t missing = 0;
  for (size_t piece = piece_of(base); piece <= piece_of(base + bytes - 1); ++piece) {
    if (!committed_[piece]) ++missing;
  }
  return missing;
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
  for (size_t piece = piece_of(base); piece <= piece_of(base + bytes - 1); ++piece) {
    committed_[piece] = true;
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
    hole = holes_.erase(hole);
    if (hole_end > end) {
      rest.bytes = hole_end - end;
      hole = holes_.emplace(end, rest).first;
    } else if (rest.stream != 0) {
      --pending_;
    }
  }
}

CUresult Pool::allocate(uint64_t bytes, uint64_t stream, CUdeviceptr* out) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > range_bytes_) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t rounded = round_up(bytes, kBlockGranule);
  const std::lock_guard held(mutex_);
  settle_reached();
  Run run;
  if (!find_run(rounded, stream, &run)) return CUDA_ERROR_OUT_OF_MEMORY;
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
  const auto hole = holes_.emplace(base, Hole{block->second, stream, number}).first;
  usage_.used -= block->second;
  blocks_.erase(block);
  ++pending_;
  if (stream == 0) make_plain(hole);
  return true;
}

// Joins the hole with its plain neighbours.
void Pool::make_plain(Holes::iterator hole) {
  --pending_;
  hole->second.stream = 0;
  const auto next = std::next(hole);
  if (next != holes_.end() && next->second.stream == 0 &&
      next->first == hole->first + hole->second.bytes) {
    hole->second.bytes += next->second.bytes;
    holes_.erase(next);
  }
  if (hole == holes_.begin()) return;
  const auto previous = std::prev(hole);
  if (previous->second.stream == 0 && previous->first + previous->second.bytes == hole->first) {
    previous->second.bytes += hole->second.bytes;
    holes_.erase(hole);
  }
}

void Pool::settle_reached() {
  if (pending_ == 0) return;
  std::vector<CUdeviceptr> done;
  for (const auto& [base, hole] : holes_) {
    if (hole.stream != 0 && reached(hole.stream, hole.number)) done.push_back(base);
  }
  for (const CUdeviceptr base : done) make_plain(holes_.find(base));
}

void Pool::release_pieces(uint64_t keep) {
  for (auto hole = holes_.rbegin(); hole != holes_.rend() && usage_.reserved > keep; ++hole) {
    if (hole->second.stream != 0) continue;
    const uint64_t first = round_up(hole->first - base_, kPoolPiece) / kPoolPiece;
    const uint64_t end = (hole->first + hole->second.bytes - base_) / kPoolPiece;
    for (uint64_t piece = end; piece-- > first && usage_.reserved > keep;) {
      if (!committed_[piece]) continue;
      committed_[piece] = false;
      AddressSpace::get()->discard(base_ + piece * kPoolPiece, kPoolPiece);
      uncharge(device_, kPoolPiece);
      usage_.reserved -= kPoolPiece;
    }
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
  pending_ = 0;
  threshold_ = 0;
  usage_.used = 0;
  holes_.clear();
  if (range_bytes_ != 0) holes_[base_] = {range_bytes_};
  release_pieces(0);
}

}  // namespace vram::sim
