#pragma once

// Where an arena's regions come from: one driver allocation each.
//
// Threads: the caller's lock is held over every call.

#include "arena/region_source.h"
#include "pool/driver_calls.h"

namespace vram::pool {

enum class Memory : std::uint8_t { kDevice, kManaged, kHost };

class DriverRegions final : public arena::RegionSource {
 public:
  // The table outlives this.
  DriverRegions(const DriverCalls& driver, CUcontext context, Memory memory)
      : driver_(driver), context_(context), memory_(memory) {}

  [[nodiscard]] std::optional<arena::Range> allocate(std::uint64_t alignment,
                                                     std::uint64_t bytes) override;
  void free(arena::Range range) override;
  // A block across two allocations could be neither exported nor freed as one.
  [[nodiscard]] bool supports_coalescing() const override { return false; }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t peak() const { return peak_; }
  void reset_peak() { peak_ = bytes_; }
  [[nodiscard]] std::uint64_t returned() const { return returned_; }  // bytes, ever
  // The driver's answer to the last request, if there was one since.
  void forget_answer() { answer_ = CUDA_SUCCESS; }
  [[nodiscard]] CUresult answer() const { return answer_; }

 private:
  [[nodiscard]] CUresult take(std::uint64_t* address, std::uint64_t bytes);

  const DriverCalls& driver_;
  CUcontext context_;
  Memory memory_;
  std::uint64_t bytes_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t returned_ = 0;
  CUresult answer_ = CUDA_SUCCESS;
};

}  // namespace vram::pool
