// The addresses of the simulated cards in this process, and the bytes behind them.
//
// Model. Two ranges of device addresses, each with a shadow of the same size at a fixed distance:
// nothing may be accessed in the range, the bytes are in the shadow. The heap's shadow maps one
// anonymous file from its beginning, so that memory of the heap needs no mapping of its own and can
// be opened by another process; the shadow of the virtual range is mapped piece by piece.
// All pieces are multiples of 2 MiB. A page of the file exists once it is written.
//
// Threads: each function locks for itself. Nothing here is ever unmapped while the process lives.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace vram::sim {

// Free address ranges, by first fit: addresses are plenty, and the lowest keep mappings together.
class RangeAllocator {
 public:
  void add(uint64_t base, uint64_t bytes);
  // Returns 0 when nothing fits. `alignment` is a power of two.
  [[nodiscard]] uint64_t allocate(uint64_t bytes, uint64_t alignment);
  // Exactly there, false when it is not free.
  [[nodiscard]] bool allocate_at(uint64_t base, uint64_t bytes);
  void release(uint64_t base, uint64_t bytes);

 private:
  std::map<uint64_t, uint64_t> free_;  // base -> bytes, no two adjacent
};

class AddressSpace {
 public:
  // The process's own; null when the ranges could not be had.
  [[nodiscard]] static AddressSpace* get();

  // Heap: addresses with bytes. 0 when the range is used up.
  [[nodiscard]] CUdeviceptr allocate(uint64_t bytes);
  // Gives addresses and bytes back.
  void release(CUdeviceptr base, uint64_t bytes);
  // Gives the bytes back, not the addresses.
  void discard(CUdeviceptr base, uint64_t bytes);
  [[nodiscard]] uint64_t file_offset(CUdeviceptr heap_address) const {
    return heap_address - heap_;
  }
  [[nodiscard]] int file() const { return file_; }

  // Virtual range: addresses alone. `at` 0 leaves the choice; a taken one is ignored.
  [[nodiscard]] CUdeviceptr reserve(uint64_t bytes, uint64_t alignment, CUdeviceptr at);
  void unreserve(CUdeviceptr base, uint64_t bytes);
  [[nodiscard]] bool map(CUdeviceptr at, uint64_t bytes, int file, uint64_t offset);
  void unmap(CUdeviceptr at, uint64_t bytes);

  // Room in the process's file for physical memory that is not the heap's.
  [[nodiscard]] uint64_t allocate_physical(uint64_t bytes);
  void release_physical(uint64_t offset, uint64_t bytes);

  [[nodiscard]] bool contains(CUdeviceptr address) const {
    return address - heap_ < bytes_ || address - virtual_ < bytes_;
  }
  // Where the bytes of a device address are; only for contained ones.
  [[nodiscard]] void* shadow(CUdeviceptr address) const {
    return reinterpret_cast<void*>(address - heap_ < bytes_ ? address - heap_ + heap_shadow_
                                                            : address - virtual_ + virtual_shadow_);
  }

 private:
  AddressSpace() = default;
  [[nodiscard]] bool initialise(uint64_t bytes);

  uint64_t bytes_ = 0;  // of each of the four ranges
  CUdeviceptr heap_ = 0;
  CUdeviceptr virtual_ = 0;
  uintptr_t heap_shadow_ = 0;
  uintptr_t virtual_shadow_ = 0;
  int file_ = -1;
  std::mutex mutex_;
  RangeAllocator heap_free_;
  RangeAllocator virtual_free_;
  RangeAllocator physical_free_;
};

}  // namespace vram::sim
