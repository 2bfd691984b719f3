// The moving of what was chosen, and back.

#include <algorithm>

#include "base/hold.h"
#include "residency/elastic_memory.h"

namespace vram::residency {
namespace {

using base::Hold;
using wire::Refusal;

// A step that failed for the moment only need not undo all that was done before it.
constexpr int kAttempts = 3;

template <typename Call>
CUresult insist(Call call) {
  CUresult result = call();
  for (int made = 1; made < kAttempts && result != CUDA_SUCCESS; ++made) result = call();
  return result;
}

}  // namespace

ElasticMemory::Batch ElasticMemory::next_batch(std::uint32_t first) const {
  Batch batch{first, first, 0};
  while (batch.end < ordered_ && (batch.bytes == 0 || batch.bytes < batch_)) {
    batch.bytes += backing_[order_[batch.end++]].bytes;
  }
  return batch;
}

bool ElasticMemory::open_lanes() {
  for (std::uint32_t i = 0; i < ordered_; ++i) {
    const unsigned card = card_of(backing_[order_[i]]);
    Lane& lane = lane_[card];
    if (lane.context != nullptr) continue;
    lane.context = driver_.context_of(static_cast<CUdevice>(card));
    const InContext current(driver_, lane.context);
    if (!current) return false;
    for (CUstream& stream : lane.stream) {
      if (driver_.stream_create(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
        stream = nullptr;
        return false;
      }
    }
  }
  return true;
}

void ElasticMemory::close_lanes() {
  for (Lane& lane : lane_) {
    if (lane.context == nullptr) continue;
    const InContext current(driver_, lane.context);
    for (const CUstream stream : lane.stream) {
      if (stream != nullptr) (void)driver_.stream_destroy(stream);
    }
    lane = {};
  }
}

// Copies of batches with this turn are done.
bool ElasticMemory::wait_for_lanes(unsigned turn) {
  bool done = true;
  for (const Lane& lane : lane_) {
    if (lane.context == nullptr || lane.stream[turn] == nullptr) continue;
    const InContext current(driver_, lane.context);
    done = driver_.stream_synchronize(lane.stream[turn]) == CUDA_SUCCESS && done;
  }
  return done;
}

// Calls copy_run(run, stream) for each piece of the batch that lies together on its card and on the
// host.
template <typename Copy>
bool ElasticMemory::copy(const Batch& batch, unsigned turn, Copy copy_run) {
  Run run{};
  bool fine = true;
  const auto flush = [&] {
    if (run.bytes == 0) return;
    const Lane& lane = lane_[run.card];
    const InContext current(driver_, lane.context);
    fine = fine && current && copy_run(run, lane.stream[turn]) == CUDA_SUCCESS;
    run.bytes = 0;
  };
  for (std::uint32_t i = batch.first; i < batch.end && fine; ++i) {
    const Backing& backing = backing_[order_[i]];
    for (std::uint64_t done = 0; done < backing.bytes && fine;) {
      const CUdeviceptr from = mapping_[backing.first_mapping].address + done;
      const std::uint64_t to = backing.host_offset + done;
      const std::uint64_t left_in_piece = HostStore::kPiece - to % HostStore::kPiece;
      const std::uint64_t bytes = std::min(left_in_piece, backing.bytes - done);
      const bool joins = run.bytes != 0 && run.card == card_of(backing) &&
                         run.address + run.bytes == from && run.host_offset + run.bytes == to &&
                         to % HostStore::kPiece != 0;
      if (!joins) {
        flush();
        run = {from, 0, to, card_of(backing)};
      }
      run.bytes += bytes;
      done += bytes;
    }
  }
  flush();
  return fine;
}

// Its bytes are on the host. False: the driver kept some of it, which is tried again another time.
bool ElasticMemory::take_off_card(Backing& backing) {
  bool gone = true;
  for (Index at = backing.first_mapping; at != 0; at = mapping_[at].next_of_backing) {
    Mapping& mapping = mapping_[at];
    const auto unmap = [&] { return driver_.unmap(mapping.address, mapping.bytes); };
    mapping.absent = mapping.absent || insist(unmap) == CUDA_SUCCESS;
    gone = gone && mapping.absent;
  }
  const auto release = [&] { return driver_.release(backing.real); };
  if (gone && backing.real != 0 && insist(release) == CUDA_SUCCESS) {
    backing.real = 0;
    count(away_, backing, 1);
  }
  return gone && backing.real == 0;
}

// The batch has been copied. False: the driver kept some of it.
bool ElasticMemory::give_up(const Batch& batch) {
  for (std::uint32_t i = batch.first; i < batch.end; ++i) {
    Backing& backing = backing_[order_[i]];
    backing.on_host = true;
    parked_.store(true, std::memory_order_release);
    if (!take_off_card(backing)) return false;
  }
  return true;
}

bool ElasticMemory::give_up_what_was_kept() {
  bool gone = true;
  for (Index index = 1; index <= backings_used_; ++index) {
    if (is_kept(backing_[index])) gone = take_off_card(backing_[index]) && gone;
  }
  return gone;
}

Refusal ElasticMemory::copy_out_and_give_up(std::atomic<std::uint64_t>* moved) {
  // Batches are copied in order; those before `complete` are on the host, and those before `given`
  // nowhere else.
  Batch last{0, 0, 0};
  std::uint32_t given = 0;
  unsigned turn = 0;
  for (Batch batch = next_batch(0); batch.first < ordered_; batch = next_batch(batch.end)) {
    turn ^= 1;
    const bool copied = copy(batch, turn, [&](const Run& run, CUstream stream) {
      host_.wait_for(run.host_offset);
      return driver_.copy_out(host_.at(run.host_offset), run.address, run.bytes, stream);
    });
    if (!copied) return Refusal::kDriver;
    // The batch before, while this one is copied.
    if (!wait_for_lanes(turn ^ 1)) return Refusal::kDriver;
    moved->fetch_add(last.bytes, std::memory_order_relaxed);
    if (host_.all_ready()) {
      if (!give_up({given, last.end, 0})) return Refusal::kDriver;
      given = last.end;
    }
    last = batch;
  }
  if (!wait_for_lanes(turn)) return Refusal::kDriver;
  moved->fetch_add(last.bytes, std::memory_order_relaxed);
  return give_up({given, ordered_, 0}) ? Refusal::kNone : Refusal::kDriver;
}

Refusal ElasticMemory::park(std::atomic<std::uint64_t>* moved) {
  const Hold hold(lock_);
  if (!give_up_what_was_kept()) return Refusal::kDriver;
  if (ordered_ == 0) return Refusal::kNone;
  const CUcontext context = driver_.context_of(static_cast<CUdevice>(card_of(backing_[order_[0]])));
  Refusal refusal = Refusal::kNone;
  if (!open_lanes()) {
    refusal = Refusal::kDriver;
  } else if (!is_parked() && !host_.reserve(all_bytes())) {
    refusal = Refusal::kHostMemory;
  } else if (!host_.begin(driver_, context, host_end_)) {
    refusal = Refusal::kHostMemory;
  } else {
    refusal = copy_out_and_give_up(moved);
    if (refusal != Refusal::kNone) {
      (void)wait_for_lanes(0);
      (void)wait_for_lanes(1);
    }
    host_.finish();
  }
  close_lanes();
  ordered_ = 0;
  return refusal;
}

CUresult ElasticMemory::allow(const Mapping& mapping) {
  CUmemAccessDesc access[kMostCards];
  std::size_t count = 0;
  for (unsigned card = 0; card < kMostCards; ++card) {
    const std::uint64_t bit = std::uint64_t{1} << card;
    if ((mapping.readable & bit) == 0) continue;
    access[count].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[count].location.id = static_cast<int>(card);
    access[count++].flags = (mapping.writable & bit) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                          : CU_MEM_ACCESS_FLAGS_PROT_READ;
  }
  return count == 0 ? CUDA_SUCCESS
                    : driver_.set_access(mapping.address, mapping.bytes, access, count);
}

// Memory where it was: new, or what the driver would not take.
CUresult ElasticMemory::map_again(Backing& backing) {
  if (backing.real == 0) {
    const CUresult made =
        driver_.create(&backing.real, backing.bytes, &backing.prop, backing.flags);
    if (made != CUDA_SUCCESS) {
      backing.real = 0;
      return made;
    }
    count(away_, backing, -1);
  }
  for (Index at = backing.first_mapping; at != 0; at = mapping_[at].next_of_backing) {
    Mapping& mapping = mapping_[at];
    if (mapping.absent) {
      const CUresult mapped = insist([&] {
        return driver_.map(mapping.address, mapping.bytes, 0, backing.real, mapping.flags);
      });
      if (mapped != CUDA_SUCCESS) return mapped;
      mapping.absent = false;
    }
    const CUresult allowed = insist([&] { return allow(mapping); });
    if (allowed != CUDA_SUCCESS) return allowed;
  }
  return CUDA_SUCCESS;
}

Refusal ElasticMemory::restore(std::atomic<std::uint64_t>* moved) {
  const Hold hold(lock_);
  if (!is_parked()) return Refusal::kNone;
  ordered_ = 0;
  for (Index index = 1; index <= backings_used_; ++index) {
    if (backing_[index].bytes != 0 && backing_[index].on_host) order_[ordered_++] = index;
  }
  sort_by_address();
  CUresult result = open_lanes() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  std::uint32_t back = 0;
  unsigned turn = 0;
  for (Batch batch = next_batch(0); result == CUDA_SUCCESS && batch.first < ordered_;
       batch = next_batch(batch.end)) {
    turn ^= 1;
    for (; back < batch.end && result == CUDA_SUCCESS; ++back) {
      result = map_again(backing_[order_[back]]);
    }
    if (result == CUDA_SUCCESS && !copy(batch, turn, [&](const Run& run, CUstream stream) {
          return driver_.copy_in(run.address, host_.at(run.host_offset), run.bytes, stream);
        })) {
      result = CUDA_ERROR_UNKNOWN;
    }
    if (result == CUDA_SUCCESS) moved->fetch_add(batch.bytes, std::memory_order_relaxed);
  }
  const bool first = wait_for_lanes(0);
  const bool second = wait_for_lanes(1);
  if (result == CUDA_SUCCESS && !(first && second)) result = CUDA_ERROR_UNKNOWN;
  if (result != CUDA_SUCCESS) {
    for (std::uint32_t i = 0; i < back; ++i) (void)take_off_card(backing_[order_[i]]);
  } else {
    for (std::uint32_t i = 0; i < ordered_; ++i) backing_[order_[i]].on_host = false;
    parked_.store(false, std::memory_order_release);
  }
  close_lanes();
  ordered_ = 0;
  if (result == CUDA_SUCCESS) return Refusal::kNone;
  return result == CUDA_ERROR_OUT_OF_MEMORY ? Refusal::kCardMemory : Refusal::kDriver;
}

void ElasticMemory::give_back_host_memory() {
  const Hold hold(lock_);
  if (!is_parked()) host_.give_back();
}

}  // namespace vram::residency
