#pragma once

// Device memory of one logical device, as the library's users see it: whatever the pool is made of,
// it allocates, frees, tells and gives back in the same way.
//
// Streams. A block is ready for work on the stream it was asked for. free() says on which stream
// its last use is ordered: on that stream it may be handed out again at once, on another only when
// the work before the free is done. A block used on further streams is told to record_use() before.
//
// Threads: every function may be called by any thread, also during the calls of others.
// Context: the device's primary context is made current for the time of a call where one is needed.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/expected.h"
#include "pool/driver_calls.h"

namespace vram::pool {

enum class Kind : std::uint8_t {
  kSegments,  // the default: reserved addresses, mapped pages, thread caches, gives back
  // TensorFlow's allocator over cuMemAlloc: one block, or growing regions. For one stream, as
  // there: more are safe, but what they free is free only when they have passed it.
  kBfc,
  kDriverAsync,  // the driver's own stream-ordered pool
  kHost,         // pinned host memory, in growing regions
};

inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

// A budget several pools of one card share (an elastic split). take() may make other members give
// idle memory back before it answers. Called without any lock of the asking pool held.
class Budget {
 public:
  virtual ~Budget() = default;
  [[nodiscard]] virtual bool take(std::uint64_t bytes) = 0;  // false: not now
  virtual void give(std::uint64_t bytes) = 0;
};

struct Options {
  Kind kind = Kind::kSegments;
  int ordinal = 0;                 // CUDA's, after CUDA_VISIBLE_DEVICES
  std::uint64_t limit = kNoLimit;  // bytes the pool may hold from the driver
  // kBfc only.
  bool growth = true;              // false: the whole limit at the first allocation
  bool garbage_collection = true;  // free regions go back when an allocation would fail
  bool managed = false;            // cuMemAllocManaged: the limit may exceed the card
  double fragmentation_fraction = 0;
  // kBfc: how long an allocation that fails waits for frees. TensorFlow: 10,000.
  std::uint32_t wait_ms = 0;
  // kDriverAsync: the limit is only a release threshold, as in TensorFlow.
  bool limit_is_threshold = false;
  // kSegments: memory idle for one to two times this long goes back to the driver by itself; 0:
  // only by trim().
  std::uint32_t decay_ms = 1000;
  std::shared_ptr<Budget> budget;  // null: the limit alone counts
};

// Bytes everywhere. Of pools that cannot tell: 0.
struct Info {
  std::uint64_t limit;
  std::uint64_t in_use;  // live blocks, as they were rounded
  std::uint64_t peak_in_use;
  std::uint64_t reserved;  // held from the driver
  std::uint64_t peak_reserved;
  std::uint64_t largest_free;  // the largest request that needs nothing from the driver
  std::uint64_t live_blocks;
  std::uint64_t allocations;  // ever
  std::uint64_t failures;     // ever
  std::uint64_t largest_request;
};

struct Failure {
  CUresult code;
  std::string message;  // one line: the thing, the limit, the next step
};

class MemoryPool {
 public:
  virtual ~MemoryPool() = default;

  // At least `bytes` bytes, aligned to 256; 0 bytes: address 0. CUDA_ERROR_OUT_OF_MEMORY when the
  // limit, the budget or the driver refuses.
  [[nodiscard]] virtual base::Expected<CUdeviceptr, Failure> allocate(std::uint64_t bytes,
                                                                      CUstream stream) = 0;
  // Address 0: nothing. False: not a live block of this pool; nothing was done.
  [[nodiscard]] virtual bool free(CUdeviceptr address, CUstream stream) = 0;
  // The block is also used by work that is already on this stream.
  [[nodiscard]] virtual bool record_use(CUdeviceptr address, CUstream stream) = 0;

  // To be called before a stream that the pool has seen is destroyed: its handle may come back as
  // another stream.
  virtual void forget_stream(CUstream stream) = 0;

  // Around a capture of the stream into a graph: begin before it begins, end after it has ended.
  // What is allocated in between is the graph's: it is handed out again outside of this capture
  // only after release_capture(), which is for when the graph is gone and its launches are done.
  // False: this kind of pool cannot, or too many captures are held.
  [[nodiscard]] virtual bool begin_capture(CUstream /*stream*/, std::uint32_t* /*capture*/) {
    return false;
  }
  // False: no such capture, or not in this order.
  [[nodiscard]] virtual bool end_capture(std::uint32_t /*capture*/) { return false; }
  [[nodiscard]] virtual bool release_capture(std::uint32_t /*capture*/) { return false; }

  // Gives memory that is not in use back to the driver until at most `keep` bytes are reserved.
  // Returns the bytes given back.
  virtual std::uint64_t trim(std::uint64_t keep) = 0;
  // Below what is reserved: what is idle is given back, the rest counts against the next requests.
  virtual void set_limit(std::uint64_t bytes) = 0;

  [[nodiscard]] virtual Info info() const = 0;
  virtual void reset_peaks() = 0;  // to the present values
  // Free bytes of the pool that are not in its largest hole, of all its free bytes; 0 when none.
  [[nodiscard]] virtual double fragmentation() const = 0;
  // What is held, for a person: sizes, holes, and what would have made `wanted` bytes fit.
  [[nodiscard]] virtual std::string report(std::uint64_t wanted) const = 0;
};

[[nodiscard]] base::Expected<std::unique_ptr<MemoryPool>, Failure> make_pool(
    const DriverCalls& driver, const Options& options);

// The driver of this process: libcuda.so.1, as the dynamic linker finds it. Loaded once; the table
// lives until the process ends. The failure says what is missing.
[[nodiscard]] base::Expected<const DriverCalls*, Failure> open_driver();
// A function of that driver which no pool needs; null when it has none of the name, or was not
// opened.
[[nodiscard]] void* driver_symbol(const char* name);

}  // namespace vram::pool
