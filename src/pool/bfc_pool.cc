// TensorFlow's allocator as a MemoryPool: best fit with coalescing over regions of one driver
// allocation each, placement as in the original. Device memory, managed memory, or pinned memory of
// the host.
//
// It is for one stream, as TensorFlow uses it: what that stream frees is had again at once. More
// streams are safe, and dearer: a free then takes effect when the stream has passed it.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "arena/bfc.h"
#include "arena/bfc_report.h"
#include "pool/current.h"
#include "pool/driver_regions.h"
#include "pool/late_frees.h"
#include "pool/pools.h"

namespace vram::pool {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What work under way on other streams is given to end before a request is refused.
constexpr milliseconds kWaitForStreams{100};
// How often a request that waits looks at what nobody wakes it for.
constexpr std::chrono::microseconds kLook{100};
constexpr milliseconds kLookAtBudget{10};

class BfcPool final : public MemoryPool {
 public:
  BfcPool(std::unique_ptr<Card> card, const Options& options, Memory memory)
      : card_(std::move(card)),
        memory_(memory),
        wait_(options.wait_ms),
        budget_(options.budget),
        limit_(options.limit),
        regions_(card_->driver(), card_->context(), memory) {
    bfc_.emplace(regions_, arena_options(options));
  }

  ~BfcPool() override {
    late_.close();
    const std::uint64_t held = regions_.bytes();
    bfc_.reset();
    give(held);
  }

  [[nodiscard]] CUresult open() { return late_.open(card_->driver(), card_->context()); }

  base::Expected<CUdeviceptr, Failure> allocate(std::uint64_t bytes, CUstream stream) override {
    if (bytes == 0) return CUdeviceptr{0};
    std::optional<Clock::time_point> until;
    while (true) {
      const Try got = try_once(bytes, stream);
      if (got.address != 0) return got.address;
      if (!until) until = Clock::now() + patience();
      if (!got.again && !wait_for_frees(got.frees, *until)) return refuse(bytes, got.refusal);
    }
  }

  bool free(CUdeviceptr address, CUstream stream) override {
    if (address == 0) return true;
    {
      const std::lock_guard<std::mutex> hold(lock_);
      const std::uint64_t bytes = live_bytes(address);
      if (bytes == 0) return false;
      meet(stream);
      in_use_ -= bytes;
      --live_blocks_;
      ++frees_;
      if (late_.needed()) {
        late_.add(address, stream);
      } else {
        (void)bfc_->free(address);
      }
    }
    returned_.notify_all();
    return true;
  }

  // One address has one stream here: the other's work is waited for.
  bool record_use(CUdeviceptr address, CUstream stream) override {
    {
      const std::lock_guard<std::mutex> hold(lock_);
      if (live_bytes(address) == 0) return false;
    }
    const Current current(card_->driver(), card_->context());
    return card_->driver().stream_synchronize(stream) == CUDA_SUCCESS;
  }

  std::uint64_t trim(std::uint64_t keep) override {
    const Clock::time_point until = Clock::now() + kWaitForStreams;
    std::unique_lock<std::mutex> hold(lock_);
    settle();
    while (!late_.empty() && Clock::now() < until) {
      returned_.wait_for(hold, kLook);
      settle();
    }
    const std::uint64_t freed = bfc_->trim(keep);
    hold.unlock();
    give(freed);
    return freed;
  }

  void set_limit(std::uint64_t bytes) override {
    {
      const std::lock_guard<std::mutex> hold(lock_);
      limit_ = bytes;
      bfc_->set_limit(bytes);
      ++frees_;
    }
    returned_.notify_all();
    (void)trim(bytes);
  }

  void forget_stream(CUstream stream) override {
    const std::lock_guard<std::mutex> hold(lock_);
    if (late_.is_only(stream)) hold_what_is_free();
    late_.forget(stream);
  }

  Info info() const override {
    const std::lock_guard<std::mutex> hold(lock_);
    return locked_info();
  }

  void reset_peaks() override {
    const std::lock_guard<std::mutex> hold(lock_);
    peak_in_use_ = in_use_;
    regions_.reset_peak();
    bfc_->clear_stats();
  }

  double fragmentation() const override {
    const std::lock_guard<std::mutex> hold(lock_);
    return bfc_->fragmentation();
  }

  // The summary; with a request, also every chunk.
  std::string report(std::uint64_t wanted) const override {
    std::unique_lock<std::mutex> hold(lock_);
    const Info info = locked_info();
    const arena::BfcReport chunks = bfc_->report({.bytes = wanted});
    hold.unlock();
    std::string text =
        wanted == 0 ? "" : refusal(info, wanted, CUDA_ERROR_OUT_OF_MEMORY, terms(info)) + "\n";
    text += report_of(info, 0);
    if (wanted != 0) return text + arena::to_text(chunks, name(), "");
    return chunks.map.empty() ? text : text + chunks.map + "\n";
  }

 private:
  struct Try {
    CUdeviceptr address;
    std::uint64_t frees;  // before it
    bool again;           // regions went back: with their share of the budget it may do
    CUresult refusal;
  };

  static arena::BfcOptions arena_options(const Options& options) {
    arena::BfcOptions arena;
    arena.limit = options.limit;
    arena.growth = options.growth;
    arena.garbage_collection = options.garbage_collection;
    arena.internal_fragmentation_fraction = options.fragmentation_fraction;
    return arena;
  }

  const char* name() const { return memory_ == Memory::kHost ? "host" : "device"; }

  // A request comes on top of the regions, not of what is in use in them.
  Terms terms(const Info& info) const {
    return {info.reserved, memory_ == Memory::kHost
                               ? "the machine has no more to pin: `free` and `ulimit -l` show why"
                               : kCardIsFull};
  }

  milliseconds patience() const {
    const std::lock_guard<std::mutex> hold(lock_);
    return late_.empty() ? wait_ : std::max(wait_, kWaitForStreams);
  }

  // 0: no live block begins there.
  std::uint64_t live_bytes(CUdeviceptr address) const {
    if (late_.contains(address)) return 0;
    const std::optional<arena::BfcAllocation> block = bfc_->find(address);
    return block ? block->allocated : 0;
  }

  void meet(CUstream stream) {
    if (late_.meet(stream)) hold_what_is_free();
  }

  // Work of the stream that was the only one may still use what is free in the regions: nobody has
  // it before that is done. Each free chunk is taken whole; none comes from the driver for it.
  void hold_what_is_free() {
    while (const std::uint64_t bytes = bfc_->stats().largest_free_block_bytes) {
      const auto chunk = bfc_->allocate({.bytes = bytes, .largest_region = 0});
      if (!chunk) return;
      late_.add_of_only(*chunk);
    }
  }

  bool settle() {
    return !late_.empty() &&
           late_.settle([this](CUdeviceptr address) { (void)bfc_->free(address); }) != 0;
  }

  Try try_once(std::uint64_t bytes, CUstream stream) {
    std::unique_lock<std::mutex> hold(lock_);
    const std::uint64_t frees = frees_;
    meet(stream);
    (void)settle();
    arena::BfcRequest request{.bytes = bytes};
    if (budget_ != nullptr) {
      const std::uint64_t region = bfc_->region_for(request);
      hold.unlock();
      request.largest_region = take(region, bytes);
      hold.lock();
    }
    regions_.forget_answer();
    const std::uint64_t before = regions_.bytes();
    const std::uint64_t returned = regions_.returned();
    const base::Expected<std::uint64_t, arena::BfcError> got = bfc_->allocate(request);
    const std::uint64_t collected = regions_.returned() - returned;
    const std::uint64_t taken = regions_.bytes() + collected - before;
    if (got) hand_out(*got, bytes);
    const bool driver = regions_.answer() != CUDA_SUCCESS;
    const CUresult refusal = driver ? regions_.answer() : CUDA_ERROR_OUT_OF_MEMORY;
    hold.unlock();
    if (budget_ != nullptr) give(request.largest_region - taken + collected);
    return {got ? *got : 0, frees, !got && budget_ != nullptr && collected != 0, refusal};
  }

  void hand_out(CUdeviceptr address, std::uint64_t bytes) {
    in_use_ += live_bytes(address);
    peak_in_use_ = std::max(peak_in_use_, in_use_);
    largest_request_ = std::max(largest_request_, bytes);
    ++live_blocks_;
    ++allocations_;
  }

  // What the budget has of a region: all, or less as long as the request fits.
  std::uint64_t take(std::uint64_t region, std::uint64_t bytes) {
    constexpr std::uint64_t kGranule = arena::kBfcGranule;
    const std::uint64_t least = (bytes + kGranule - 1) / kGranule * kGranule;
    while (region >= least && region != 0) {
      if (budget_->take(region)) return region;
      if (region == least) break;
      region = std::max(least, region / 2 / kGranule * kGranule);
    }
    return 0;
  }

  void give(std::uint64_t bytes) {
    if (budget_ != nullptr && bytes != 0) budget_->give(bytes);
  }

  // True: memory came back since, or may have.
  bool wait_for_frees(std::uint64_t frees, Clock::time_point until) {
    std::unique_lock<std::mutex> hold(lock_);
    const Clock::time_point look = Clock::now() + kLookAtBudget;
    while (frees_ == frees && !settle()) {
      const Clock::time_point now = Clock::now();
      if (now >= until) return false;
      if (budget_ != nullptr && now >= look) return true;
      Clock::time_point next = budget_ != nullptr ? std::min(until, look) : until;
      if (!late_.empty()) next = std::min(next, now + kLook);
      returned_.wait_until(hold, next);
    }
    return true;
  }

  Failure refuse(std::uint64_t bytes, CUresult result) {
    const std::lock_guard<std::mutex> hold(lock_);
    ++failures_;
    const Info info = locked_info();
    std::string message = refusal(info, bytes, result, terms(info));
    if (info.reserved - info.in_use >= bytes) {
      message += "; enough is free, in pieces of at most " + in_words(info.largest_free) +
                 ": free larger blocks, or ask for smaller ones";
    }
    return {result, message};
  }

  Info locked_info() const {
    Info info{};
    info.limit = limit_;
    info.in_use = in_use_;
    info.peak_in_use = peak_in_use_;
    info.reserved = regions_.bytes();
    info.peak_reserved = regions_.peak();
    info.largest_free = bfc_->stats().largest_free_block_bytes;
    info.live_blocks = live_blocks_;
    info.allocations = allocations_;
    info.failures = failures_;
    info.largest_request = largest_request_;
    return info;
  }

  const std::unique_ptr<Card> card_;
  const Memory memory_;
  const milliseconds wait_;
  const std::shared_ptr<Budget> budget_;
  mutable std::mutex lock_;
  std::condition_variable returned_;
  std::uint64_t limit_;
  DriverRegions regions_;
  std::optional<arena::Bfc> bfc_;  // there until the end
  LateFrees late_;
  std::uint64_t frees_ = 0;  // ever, and whatever else may let a request through
  std::uint64_t in_use_ = 0;
  std::uint64_t peak_in_use_ = 0;
  std::uint64_t live_blocks_ = 0;
  std::uint64_t allocations_ = 0;
  std::uint64_t failures_ = 0;
  std::uint64_t largest_request_ = 0;
};

MadePool make(std::unique_ptr<Card> card, const Options& options, Memory memory) {
  auto pool = std::make_unique<BfcPool>(std::move(card), options, memory);
  if (const CUresult opened = pool->open(); opened != CUDA_SUCCESS) {
    return Failure{opened, "vram: no pinned memory for a pool's books (error " +
                               std::to_string(static_cast<int>(opened)) +
                               "); `free` and `ulimit -l` show what there is"};
  }
  return std::unique_ptr<MemoryPool>(std::move(pool));
}

}  // namespace

MadePool make_bfc_pool(std::unique_ptr<Card> card, const Options& options) {
  return make(std::move(card), options, options.managed ? Memory::kManaged : Memory::kDevice);
}

MadePool make_host_pool(std::unique_ptr<Card> card, const Options& options) {
  Options growing = options;
  growing.growth = true;
  return make(std::move(card), growing, Memory::kHost);
}

}  // namespace vram::pool
