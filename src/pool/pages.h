#pragma once

// The memory behind a pool's pages: physical handles of the driver, and which page each one backs.
//
// Model. Every page of one space has the same size, and one handle backs one page. A handle whose
// page was taken away is spare until another page needs it or it goes back to the driver. All
// handles, spare or not, are reserved: they count against the limit and against the grant.
//
// Threads: the caller holds the pool's growth lock over every call but the readings.

#include <atomic>
#include <cstdint>

#include "arena/growing_array.h"
#include "pool/driver_calls.h"

namespace vram::pool {

inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

// Who else must agree before memory is taken from the driver, and hears of every step: a
// reservation is followed by commit or roll_back once the driver has answered, and end_release
// follows begin_release when the driver has taken memory back, keep when it has not. A null
// function: nobody.
struct Grant {
  bool (*reserve)(void* owner, std::uint64_t bytes) = nullptr;
  void (*commit)(void* owner, std::uint64_t bytes) = nullptr;
  void (*roll_back)(void* owner, std::uint64_t bytes) = nullptr;
  void (*begin_release)(void* owner, std::uint64_t bytes) = nullptr;
  void (*end_release)(void* owner, std::uint64_t bytes) = nullptr;
  void (*keep)(void* owner, std::uint64_t bytes) = nullptr;
  void* owner = nullptr;
};

// The bytes a pool holds from the driver, over all its zones.
class Holding {
 public:
  void set_grant(const Grant& grant) { grant_ = grant; }  // before anything else

  // False: over the limit, or the grant refuses.
  [[nodiscard]] bool reserve(std::uint64_t bytes);
  void commit(std::uint64_t bytes);
  void roll_back(std::uint64_t bytes);
  void begin_release(std::uint64_t bytes);
  void end_release(std::uint64_t bytes);
  void keep(std::uint64_t bytes);

  void set_limit(std::uint64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  void reset_peak() { peak_.store(bytes(), std::memory_order_relaxed); }

 private:
  Grant grant_{};
  std::atomic<std::uint64_t> limit_{kUnlimited};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> peak_{0};
};

class Pages {
 public:
  // With the context current: reserves `span` bytes of addresses. May be tried again with fewer
  // when the driver has no more.
  [[nodiscard]] CUresult open(const DriverCalls& driver, Holding* holding, CUdevice device,
                              std::uint64_t span, std::uint64_t page);
  // Opens all pages, those backed now and later, to another card.
  [[nodiscard]] CUresult allow(CUdevice other);
  // Gives everything back; all work on the memory is done.
  void close();

  // Backs a run of pages, with spare handles first. On failure nothing is changed:
  // CUDA_ERROR_OUT_OF_MEMORY when limit, grant or driver refuse.
  [[nodiscard]] CUresult back(std::uint64_t first, std::uint64_t count);
  // Takes their memory away; no work touches it any more. The handles become spare. On failure
  // nothing is changed.
  [[nodiscard]] CUresult unback(std::uint64_t first, std::uint64_t count);
  // The same, for pages that must go: what cannot be unmapped now is unmapped later.
  void drop(std::uint64_t first, std::uint64_t count);
  // Takes away what an earlier unback() could not.
  void sweep();
  // Gives up to `count` spare handles back to the driver; how many.
  std::uint64_t release_spare(std::uint64_t count);

  [[nodiscard]] CUdeviceptr base() const { return base_; }
  [[nodiscard]] std::uint64_t span() const { return span_; }
  [[nodiscard]] std::uint64_t page() const { return page_; }
  [[nodiscard]] std::uint64_t spare() const { return spare_count_; }

 private:
  void recover(std::uint64_t page);
  [[nodiscard]] CUresult obtain(CUmemGenericAllocationHandle* handle);
  [[nodiscard]] CUdeviceptr address(std::uint64_t page) const { return base_ + page * page_; }

  const DriverCalls* driver_ = nullptr;
  Holding* holding_ = nullptr;
  static constexpr unsigned kMostCards = 64;

  CUmemAllocationProp properties_{};
  CUmemAccessDesc access_[kMostCards] = {};  // the own card's first
  unsigned cards_ = 0;
  CUdeviceptr base_ = 0;
  std::uint64_t span_ = 0;
  std::uint64_t page_ = 0;
  std::uint64_t spare_count_ = 0;
  arena::GrowingArray<CUmemGenericAllocationHandle> handle_of_;  // by page; 0: none
  arena::GrowingArray<CUmemGenericAllocationHandle> spare_;
  arena::GrowingArray<std::uint64_t> stranded_;  // pages that drop() could not unmap
  std::uint64_t stranded_count_ = 0;
};

}  // namespace vram::pool
