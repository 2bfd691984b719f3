// The driver's own stream-ordered pool as a MemoryPool. TensorFlow's cuda_malloc_async uses the
// device's default pool, with the limit as a release threshold only, so that the pool may hold
// more; here each pool is one of its own and the limit also caps what is in use, unless that very
// behaviour is asked for.

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "pool/current.h"
#include "pool/pools.h"

namespace vram::pool {
namespace {

class DriverAsyncPool final : public MemoryPool {
 public:
  DriverAsyncPool(std::unique_ptr<Card> card, const Options& options)
      : card_(std::move(card)),
        driver_(card_->driver()),
        shared_(options.limit_is_threshold),
        limit_(options.limit) {}

  ~DriverAsyncPool() override {
    if (handle_ == nullptr || shared_) return;
    const Current current(driver_, card_->context());
    (void)driver_.async_pool_destroy(handle_);
  }

  [[nodiscard]] CUresult open() {
    const Current current(driver_, card_->context());
    if (shared_) {
      const CUresult found = driver_.async_pool_default(&handle_, card_->device());
      if (found == CUDA_SUCCESS) set_threshold();
      return found;
    }
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = card_->device();
    const CUresult made = driver_.async_pool_create(&handle_, &properties);
    if (made == CUDA_SUCCESS) set_threshold();
    return made;
  }

  base::Expected<CUdeviceptr, Failure> allocate(std::uint64_t bytes, CUstream stream) override {
    if (bytes == 0) return CUdeviceptr{0};
    const std::uint64_t rounded = (bytes + kRounding - 1) / kRounding * kRounding;
    {
      const std::lock_guard<std::mutex> hold(lock_);
      if (!shared_ && (rounded > limit_ || in_use_ > limit_ - rounded)) {
        ++failures_;
      } else {
        in_use_ += rounded;
        peak_in_use_ = std::max(peak_in_use_, in_use_);
        largest_ = std::max(largest_, bytes);
        ++allocations_;
        return take(bytes, rounded, stream);
      }
    }
    return Failure{CUDA_ERROR_OUT_OF_MEMORY, refusal(info(), bytes, CUDA_ERROR_OUT_OF_MEMORY)};
  }

  bool free(CUdeviceptr address, CUstream stream) override {
    if (address == 0) return true;
    std::uint64_t bytes = 0;
    {
      const std::lock_guard<std::mutex> hold(lock_);
      const auto block = blocks_.find(address);
      if (block == blocks_.end()) return false;
      bytes = block->second;
      blocks_.erase(block);
    }
    const Current current(driver_, card_->context());
    (void)driver_.async_free(address, stream);
    const std::lock_guard<std::mutex> hold(lock_);
    in_use_ -= bytes;
    return true;
  }

  // The driver's pool knows one stream only, the one of the free: the use must be over by then.
  bool record_use(CUdeviceptr address, CUstream stream) override {
    {
      const std::lock_guard<std::mutex> hold(lock_);
      if (blocks_.find(address) == blocks_.end()) return false;
    }
    const Current current(driver_, card_->context());
    return driver_.stream_synchronize(stream) == CUDA_SUCCESS;
  }

  // The driver's pool keeps its own order.
  void forget_stream(CUstream /*stream*/) override {}

  std::uint64_t trim(std::uint64_t keep) override {
    const Current current(driver_, card_->context());
    const std::uint64_t before = reading(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    (void)driver_.context_synchronize();
    (void)driver_.async_pool_trim(handle_, keep);
    const std::uint64_t after = reading(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    return before > after ? before - after : 0;
  }

  void set_limit(std::uint64_t bytes) override {
    {
      const std::lock_guard<std::mutex> hold(lock_);
      limit_ = bytes;
    }
    set_threshold();
  }

  Info info() const override {
    const std::lock_guard<std::mutex> hold(lock_);
    Info info{};
    info.limit = limit_;
    info.in_use = in_use_;
    info.peak_in_use = peak_in_use_;
    info.reserved = reading(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    info.peak_reserved = reading(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
    info.live_blocks = blocks_.size();
    info.allocations = allocations_;
    info.failures = failures_;
    info.largest_request = largest_;
    return info;
  }

  void reset_peaks() override {
    cuuint64_t zero = 0;
    (void)driver_.async_pool_set(handle_, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero);
    const std::lock_guard<std::mutex> hold(lock_);
    peak_in_use_ = in_use_;
  }

  // The driver does not tell its holes.
  double fragmentation() const override { return 0; }
  std::string report(std::uint64_t wanted) const override { return report_of(info(), wanted); }

 private:
  // The driver's own, for small blocks.
  static constexpr std::uint64_t kRounding = 512;

  base::Expected<CUdeviceptr, Failure> take(std::uint64_t bytes, std::uint64_t rounded,
                                            CUstream stream) {
    const Current current(driver_, card_->context());
    CUdeviceptr address = 0;
    CUresult result = driver_.async_alloc(&address, bytes, handle_, stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      // Frees that are not done yet hold memory: as TensorFlow, wait for the stream once.
      (void)driver_.stream_synchronize(stream);
      result = driver_.async_alloc(&address, bytes, handle_, stream);
    }
    if (result == CUDA_SUCCESS) {
      blocks_[address] = rounded;
      return address;
    }
    in_use_ -= rounded;
    ++failures_;
    return Failure{result,
                   "vram: out of memory: " + in_words(bytes) + " asked for, " + in_words(in_use_) +
                       " in use; the card has no more: `vram ps` shows who holds its memory"};
  }

  void set_threshold() {
    cuuint64_t threshold = limit_;
    (void)driver_.async_pool_set(handle_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  }

  std::uint64_t reading(CUmemPool_attribute attribute) const {
    cuuint64_t value = 0;
    return driver_.async_pool_get(handle_, attribute, &value) == CUDA_SUCCESS ? value : 0;
  }

  std::unique_ptr<Card> card_;
  const DriverCalls& driver_;
  const bool shared_;  // with the whole process: the device's default pool, not capped
  CUmemoryPool handle_ = nullptr;
  mutable std::mutex lock_;
  std::unordered_map<CUdeviceptr, std::uint64_t> blocks_;
  std::uint64_t limit_;
  std::uint64_t in_use_ = 0;
  std::uint64_t peak_in_use_ = 0;
  std::uint64_t allocations_ = 0;
  std::uint64_t failures_ = 0;
  std::uint64_t largest_ = 0;
};

}  // namespace

MadePool make_driver_async_pool(std::unique_ptr<Card> card, const Options& options) {
  auto pool = std::make_unique<DriverAsyncPool>(std::move(card), options);
  if (const CUresult opened = pool->open(); opened != CUDA_SUCCESS) {
    return Failure{opened, "vram: this card or driver has no stream-ordered pools (error " +
                               std::to_string(static_cast<int>(opened)) + ")"};
  }
  return std::unique_ptr<MemoryPool>(std::move(pool));
}

}  // namespace vram::pool
