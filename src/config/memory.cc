#include "config/memory.h"

namespace vram::config {

bool GrowthWatch::take(std::uint64_t bytes) {
  if (inner_ != nullptr && !inner_->take(bytes)) {
    refused_.store(true, std::memory_order_relaxed);
    return false;
  }
  grew_.store(true, std::memory_order_relaxed);
  return true;
}

void GrowthWatch::give(std::uint64_t bytes) {
  if (inner_ != nullptr) inner_->give(bytes);
}

bool GrowthWatch::grew() {
  // A plain load on the path of every allocation; the exchange only when there is something.
  return grew_.load(std::memory_order_relaxed) && grew_.exchange(false, std::memory_order_relaxed);
}

Result<CUdeviceptr> Memory::allocate(std::uint64_t bytes, CUstream stream) {
  base::Expected<CUdeviceptr, pool::Failure> got = pool_->allocate(bytes, stream);
  if (watch_->grew() || !got) sample();
  if (got) return *got;
  if (got.error().code == CUDA_ERROR_OUT_OF_MEMORY) {
    return Fault{FaultKind::kResourceExhausted, out_of_memory(got.error())};
  }
  return Fault{FaultKind::kInternal, name_ + ": " + got.error().message};
}

std::string Memory::out_of_memory(const pool::Failure& failure) {
  std::string message = name_ + ": " + failure.message;
  // The pool knows its own limit; that others share the card is known here.
  if (watch_->refused()) {
    message +=
        "; the other logical devices of this card hold or reserve the rest: free memory there, or "
        "give this one a larger reserve";
  }
  message += "\n" + pool_->report(0);
  while (message.back() == '\n') message.pop_back();
  return message;
}

Outcome Memory::free(CUdeviceptr address, CUstream stream) {
  if (pool_->free(address, stream)) return Done{};
  return Fault{FaultKind::kValue,
               name_ +
                   ": the address is no live block of this device; free each block once, on the "
                   "device that allocated it"};
}

Outcome Memory::record_use(CUdeviceptr address, CUstream stream) {
  if (pool_->record_use(address, stream)) return Done{};
  return Fault{FaultKind::kValue, name_ +
                                      ": the address is no live block of this device; record "
                                      "uses before the block is freed"};
}

MemoryInfo Memory::info() const {
  const pool::Info from = pool_->info();
  MemoryInfo to;
  to.current = Bytes::of(from.in_use);
  to.peak = Bytes::of(from.peak_in_use);
  to.limit = Bytes::of(from.limit);
  to.reserved = Bytes::of(from.reserved);
  to.peak_reserved = Bytes::of(from.peak_reserved);
  to.largest_free = Bytes::of(from.largest_free);
  to.largest_request = Bytes::of(from.largest_request);
  to.live_blocks = from.live_blocks;
  to.allocations = from.allocations;
  to.failures = from.failures;
  to.fragmentation = pool_->fragmentation();
  return to;
}

FragmentationSample Memory::sample() {
  const std::scoped_lock lock(history_mutex_);  // before the clock: the history is in its order
  const pool::Info info = pool_->info();
  const FragmentationSample now{now_ms_(), pool_->fragmentation(), Bytes::of(info.in_use),
                                Bytes::of(info.reserved)};
  if (ring_.size() < kSamples) {
    ring_.push_back(now);
  } else {
    ring_[oldest_] = now;
    oldest_ = (oldest_ + 1) % kSamples;
  }
  return now;
}

std::vector<FragmentationSample> Memory::history() const {
  const std::scoped_lock lock(history_mutex_);
  std::vector<FragmentationSample> samples(ring_.begin() + static_cast<std::ptrdiff_t>(oldest_),
                                           ring_.end());
  samples.insert(samples.end(), ring_.begin(),
                 ring_.begin() + static_cast<std::ptrdiff_t>(oldest_));
  return samples;
}

}  // namespace vram::config
