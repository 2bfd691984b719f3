#pragma once

// A pool of GPU memory of one's own, in C++: vram/vram.h with types, exceptions and a destructor.
// Needs nothing of the configuration in vram/config.h, which makes pools for a whole process.
//
// Errors are thrown (vram/error.h): ResourceExhausted when the limit or the driver refuses,
// ValueError for what cannot be meant and for an address that is no live block, InvalidArgument for
// a device or a feature that the machine has not, UnknownError for other answers of the driver,
// InternalError for no host memory.
//
// Threads: any function by any thread at any time, but moving and destroying.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "vram/error.h"
#include "vram/size.h"
#include "vram/vram.h"

struct CUstream_st;  // CUstream and cudaStream_t point to it

namespace vram {

namespace detail {

inline void check(vram_status status) {
  switch (status) {
    case VRAM_OK:
      return;
    case VRAM_OUT_OF_MEMORY:
      throw ResourceExhausted(vram_last_error());
    case VRAM_INVALID_ARGUMENT:
    case VRAM_NOT_A_BLOCK:
      throw ValueError(vram_last_error());
    case VRAM_NO_DEVICE:
    case VRAM_NOT_SUPPORTED:
      throw InvalidArgument(vram_last_error());
    case VRAM_DRIVER_ERROR:
      throw UnknownError(vram_last_error());
    case VRAM_INTERNAL_ERROR:
      break;
  }
  throw InternalError(vram_last_error());
}

}  // namespace detail

enum class PoolKind : std::uint8_t {
  kSegments = VRAM_POOL_SEGMENTS,  // see vram_pool_kind for each
  kBfc = VRAM_POOL_BFC,
  kDriverAsync = VRAM_POOL_DRIVER_ASYNC,
  kHost = VRAM_POOL_HOST,
};

struct PoolOptions {
  PoolKind kind = PoolKind::kSegments;
  int device = 0;              // CUDA's number, after CUDA_VISIBLE_DEVICES
  std::optional<Bytes> limit;  // none: the card is the limit
  // kBfc only.
  bool greedy = false;        // the whole limit at the first allocation
  bool keep_regions = false;  // free regions do not go back to make room
  bool managed = false;       // managed memory; the limit may exceed the card
  std::uint32_t wait_ms = 0;  // how long a request waits for frees before it fails
  double fragmentation_fraction = 0;
  // kSegments only: memory idle for one to two times this long goes back; 0: only by trim().
  std::uint32_t decay_ms = 1000;
};

class Pool {
 public:
  explicit Pool(const PoolOptions& options = {}) {
    vram_pool_options c = VRAM_POOL_OPTIONS_INIT;
    c.kind = static_cast<std::int32_t>(options.kind);
    c.device = options.device;
    if (options.limit) c.limit = options.limit->count();
    c.flags = (options.greedy ? VRAM_POOL_GREEDY : 0) |
              (options.keep_regions ? VRAM_POOL_KEEP_REGIONS : 0) |
              (options.managed ? VRAM_POOL_MANAGED : 0);
    c.wait_ms = options.wait_ms;
    c.decay_ms = options.decay_ms;
    c.fragmentation_fraction = options.fragmentation_fraction;
    detail::check(vram_pool_create(&c, &pool_));
  }
  // Gives everything back, live blocks too: all work on them is done.
  ~Pool() { vram_pool_destroy(pool_); }
  Pool(Pool&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}
  Pool& operator=(Pool&& other) noexcept {
    std::swap(pool_, other.pool_);
    return *this;
  }

  // Aligned to 256 bytes, ready for work on `stream`; null for 0 bytes.
  [[nodiscard]] void* allocate(Bytes bytes, CUstream_st* stream = nullptr) {
    void* address = nullptr;
    detail::check(vram_pool_allocate(pool_, bytes.count(), stream, &address));
    return address;
  }
  // The block's last use is what is on `stream` now. Null: nothing.
  void deallocate(void* address, CUstream_st* stream = nullptr) {
    detail::check(vram_pool_free(pool_, address, stream));
  }
  // The block is also used by work that is already on `stream`.
  void record_use(void* address, CUstream_st* stream) {
    detail::check(vram_pool_record_use(pool_, address, stream));
  }
  // `stream` is about to be destroyed.
  void forget_stream(CUstream_st* stream) { detail::check(vram_pool_forget_stream(pool_, stream)); }

  // Captures into graphs, as in vram.h.
  [[nodiscard]] std::uint32_t begin_capture(CUstream_st* stream) {
    std::uint32_t capture = 0;
    detail::check(vram_pool_begin_capture(pool_, stream, &capture));
    return capture;
  }
  void end_capture(std::uint32_t capture) { detail::check(vram_pool_end_capture(pool_, capture)); }
  void release_capture(std::uint32_t capture) {
    detail::check(vram_pool_release_capture(pool_, capture));
  }

  // Gives idle memory back until `keep` is held; returns what was given back.
  Bytes trim(Bytes keep = Bytes()) {
    std::uint64_t bytes = 0;
    detail::check(vram_pool_trim(pool_, keep.count(), &bytes));
    return Bytes::of(bytes);
  }
  void set_limit(Bytes limit) { detail::check(vram_pool_set_limit(pool_, limit.count())); }

  [[nodiscard]] vram_pool_info info() const {
    vram_pool_info info = VRAM_POOL_INFO_INIT;
    detail::check(vram_pool_get_info(pool_, &info));
    return info;
  }
  void reset_peaks() { detail::check(vram_pool_reset_peaks(pool_)); }
  // What is held, for a person, and what would have made `wanted` fit.
  [[nodiscard]] std::string report(Bytes wanted = Bytes()) const {
    std::string text(vram_pool_report(pool_, wanted.count(), nullptr, 0), '\0');
    // It may have grown or shrunk meanwhile.
    const std::size_t length =
        vram_pool_report(pool_, wanted.count(), text.data(), text.size() + 1);
    if (length < text.size()) text.resize(length);
    return text;
  }

  [[nodiscard]] vram_pool* handle() const { return pool_; }

 private:
  vram_pool* pool_ = nullptr;
};

}  // namespace vram
