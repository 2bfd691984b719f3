// The moving.

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

// Whether all can be moved, in which order, and where on the host it will lie: neighbours in
// addresses are neighbours there.
Refusal ElasticMemory::lay_out(std::uint64_t* total) {
  ordered_ = 0;
  *total = 0;
  for (Index index = 1; index <= backings_used_; ++index) {
    const Backing& backing = backing_[index];
    if (backing.bytes == 0) continue;
    if (backing.shared) return Refusal::kShared;
    if (backing.first_mapping == 0) return Refusal::kUnmapped;
    for (Index at = backing.first_mapping; at != 0; at = mapping_[at].next_of_backing) {
      if (mapping_[at].odd) return Refusal::kShared;
    }
    order_[ordered_++] = index;
  }
  if (ordered_ == 0) return Refusal::kNothing;
  std::sort(&order_[0], &order_[0] + ordered_, [this](Index a, Index b) {
    return mapping_[backing_[a].first_mapping].address <
           mapping_[backing_[b].first_mapping].address;
  });
  for (std::uint32_t i = 0; i < ordered_; ++i) {
    Backing& backing = backing_[order_[i]];
    // Nobody may read it: then nobody may copy it either, until somebody may.
    if (((mapping_[backing.first_mapping].readable >> card_of(backing)) & 1) == 0) {
      return Refusal::kUnmapped;
    }
    backing.host_offset = *total;
    *total += backing.bytes;
  }
  return Refusal::kNone;
}

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
  if (gone && backing.real != 0 && insist(release) == CUDA_SUCCESS) backing.real = 0;
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
  if (is_parked()) return Refusal::kNone;
  std::uint64_t total = 0;
  Refusal refusal = lay_out(&total);
  if (refusal != Refusal::kNone) return refusal;
  const CUcontext context = driver_.context_of(static_cast<CUdevice>(card_of(backing_[order_[0]])));
  if (!open_lanes()) {
    refusal = Refusal::kDriver;
  } else if (!host_.begin(driver_, context, total)) {
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
  // What a parking that failed half-way did not come to is not in the order any more.
  std::uint32_t missing = 0;
  for (std::uint32_t i = 0; i < ordered_; ++i) {
    if (backing_[order_[i]].on_host) order_[missing++] = order_[i];
  }
  ordered_ = missing;
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
  if (result == CUDA_SUCCESS) return Refusal::kNone;
  return result == CUDA_ERROR_OUT_OF_MEMORY ? Refusal::kCardMemory : Refusal::kDriver;
}

void ElasticMemory::give_back_host_memory() {
  const Hold hold(lock_);
  if (!is_parked()) host_.give_back();
}

}  // namespace vram::residency
