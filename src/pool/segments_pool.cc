// vram's own pool as a MemoryPool, with a thread that lets idle memory go.

#include <condition_variable>
#include <mutex>
#include <thread>

#include "pool/card.h"
#include "pool/pools.h"
#include "pool/segments.h"

namespace vram::pool {
namespace {

class SegmentsPool final : public MemoryPool {
 public:
  SegmentsPool(std::unique_ptr<Card> card, const Options& options)
      : card_(std::move(card)), options_(options) {}

  ~SegmentsPool() override {
    {
      const std::lock_guard<std::mutex> hold(lock_);
      ending_ = true;
    }
    wake_.notify_all();
    if (decay_.joinable()) decay_.join();
    segments_.close();
  }

  [[nodiscard]] CUresult open() {
    SegmentsOptions options;
    options.device = card_->device();
    options.context = card_->context();
    options.limit = options_.limit;
    if (options_.budget != nullptr) {
      options.grant.reserve = [](void* budget, std::uint64_t bytes) {
        return static_cast<Budget*>(budget)->take(bytes);
      };
      options.grant.roll_back = [](void* budget, std::uint64_t bytes) {
        static_cast<Budget*>(budget)->give(bytes);
      };
      options.grant.end_release = options.grant.roll_back;
      options.grant.owner = options_.budget.get();
    }
    const CUresult opened = segments_.open(card_->driver(), options);
    if (opened == CUDA_SUCCESS && options_.decay_ms > 0) {
      decay_ = std::thread([this] { let_idle_memory_go(); });
    }
    return opened;
  }

  base::Expected<CUdeviceptr, Failure> allocate(std::uint64_t bytes, CUstream stream) override {
    if (bytes == 0) return CUdeviceptr{0};
    CUdeviceptr address = 0;
    const CUresult result = segments_.allocate(&address, bytes, stream);
    if (result != CUDA_SUCCESS) return Failure{result, refusal(info(), bytes, result)};
    return address;
  }
  bool free(CUdeviceptr address, CUstream stream) override {
    return address == 0 || segments_.free(address, stream);
  }
  bool record_use(CUdeviceptr address, CUstream stream) override {
    return segments_.record_use(address, stream);
  }
  void forget_stream(CUstream stream) override { segments_.forget_stream(stream); }
  bool begin_capture(CUstream stream, std::uint32_t* capture) override {
    StreamId id = 0;
    const bool begun = segments_.begin_capture(stream, &id);
    *capture = id;
    return begun;
  }
  bool end_capture(std::uint32_t capture) override {
    return capture < arena::kMaxStreams && segments_.end_capture(static_cast<StreamId>(capture));
  }
  bool release_capture(std::uint32_t capture) override {
    return capture < arena::kMaxStreams &&
           segments_.release_capture(static_cast<StreamId>(capture));
  }
  std::uint64_t trim(std::uint64_t keep) override { return segments_.trim(keep); }
  void set_limit(std::uint64_t bytes) override { segments_.set_limit(bytes); }

  Info info() const override {
    const SegmentsInfo own = segments_.info();
    Info info{};
    info.limit = own.limit;
    info.in_use = own.in_use;
    info.peak_in_use = own.peak_in_use;
    info.reserved = own.reserved;
    info.peak_reserved = own.peak_reserved;
    info.largest_free = own.largest_free;
    info.live_blocks = own.live_blocks;
    info.allocations = own.allocations;
    info.failures = own.failures;
    info.largest_request = own.largest_request;
    return info;
  }
  void reset_peaks() override { segments_.reset_peaks(); }
  double fragmentation() const override { return fragmentation_of(info()); }
  std::string report(std::uint64_t wanted) const override { return report_of(info(), wanted); }

 private:
  void let_idle_memory_go() {
    std::unique_lock<std::mutex> hold(lock_);
    const auto pause = std::chrono::milliseconds(options_.decay_ms);
    while (!wake_.wait_for(hold, pause, [this] { return ending_; })) {
      hold.unlock();
      (void)segments_.decay();
      hold.lock();
    }
  }

  std::unique_ptr<Card> card_;
  Options options_;
  mutable Segments segments_;
  std::mutex lock_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread decay_;
};

}  // namespace

base::Expected<std::unique_ptr<MemoryPool>, Failure> make_segments_pool(std::unique_ptr<Card> card,
                                                                        const Options& options) {
  auto pool = std::make_unique<SegmentsPool>(std::move(card), options);
  if (const CUresult opened = pool->open(); opened != CUDA_SUCCESS) {
    return Failure{opened, "vram: no addresses for a pool (error " +
                               std::to_string(static_cast<int>(opened)) +
                               "); the driver may be out of host memory"};
  }
  return std::unique_ptr<MemoryPool>(std::move(pool));
}

}  // namespace vram::pool
