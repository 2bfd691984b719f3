#include "sim/address_space.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>

#include "base/sanitized.h"
#include "sim/identity.h"

namespace vram::sim {
namespace {

// Enough for 64 cards of 141 GiB; four such ranges are half of what a process can address. The
// thread sanitizer leaves a program about 1.5 TiB.
constexpr uint64_t kLargestRange = base::kThreadSanitizer ? 256ull << 30 : 16ull << 40;
constexpr uint64_t kSmallestRange = 64ull << 30;
constexpr int kDescriptorFloor = 700;

// The plain system call: a sanitizer's interceptor would prepare bookkeeping for every byte.
void* map_range(void* at, uint64_t bytes, int protection, int flags, int file, uint64_t offset) {
  return reinterpret_cast<void*>(
      ::syscall(SYS_mmap, at, bytes, protection, flags, file, static_cast<off_t>(offset)));
}

bool failed(const void* address) {
  return reinterpret_cast<uintptr_t>(address) >= static_cast<uintptr_t>(-4096);
}

constexpr int kNothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Inaccessible, aligned to 2 MiB; 0 on failure.
uintptr_t reserve_range(uint64_t bytes) {
  void* const range = map_range(nullptr, bytes + kPieceBytes, PROT_NONE, kNothing, -1, 0);
  if (failed(range)) return 0;
  return (reinterpret_cast<uintptr_t>(range) + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
}

}  // namespace

void RangeAllocator::add(uint64_t base, uint64_t bytes) { free_[base] = bytes; }

uint64_t RangeAllocator::allocate(uint64_t bytes, uint64_t alignment) {
  for (const auto& [base, size] : free_) {
    const uint64_t aligned = (base + alignment - 1) & ~(alignment - 1);
    if (aligned - base > size || size - (aligned - base) < bytes) continue;
    return allocate_at(aligned, bytes) ? aligned : 0;
  }
  return 0;
}

bool RangeAllocator::allocate_at(uint64_t base, uint64_t bytes) {
  auto range = free_.upper_bound(base);
  if (range == free_.begin()) return false;
  --range;
  const uint64_t start = range->first;
  const uint64_t end = range->first + range->second;
  if (base >= end || end - base < bytes) return false;
  free_.erase(range);
  if (base > start) free_[start] = base - start;
  if (base + bytes < end) free_[base + bytes] = end - (base + bytes);
  return true;
}

void RangeAllocator::release(uint64_t base, uint64_t bytes) {
  auto next = free_.lower_bound(base);
  if (next != free_.end() && next->first == base + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == base) {
      previous->second += bytes;
      return;
    }
  }
  free_[base] = bytes;
}

AddressSpace* AddressSpace::get() {
  static AddressSpace* const instance = [] {
    auto* space = new AddressSpace;
    for (uint64_t bytes = kLargestRange; bytes >= kSmallestRange; bytes /= 2) {
      if (space->initialise(bytes)) return space;
    }
    delete space;
    return static_cast<AddressSpace*>(nullptr);
  }();
  return instance;
}

bool AddressSpace::initialise(uint64_t bytes) {
  const uintptr_t ranges = reserve_range(4 * bytes);
  if (ranges == 0) return false;
  const int low = ::memfd_create("vram-sim-memory", MFD_CLOEXEC);
  if (low < 0) return false;
  const int high = ::fcntl(low, F_DUPFD_CLOEXEC, kDescriptorFloor);
  if (high >= 0) ::close(low);
  file_ = high >= 0 ? high : low;
  // The first half backs the heap, the second what is created for virtual memory.
  const uint64_t file_bytes = 2 * bytes;
  const bool usable =
      ::ftruncate(file_, static_cast<off_t>(file_bytes)) == 0 &&
      !failed(map_range(reinterpret_cast<void*>(ranges + bytes), bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file_, 0));
  if (!usable) {
    ::close(file_);
    ::munmap(reinterpret_cast<void*>(ranges), 4 * bytes);
    return false;
  }
  // A core file of 16 TiB helps nobody.
  ::madvise(reinterpret_cast<void*>(ranges), 4 * bytes, MADV_DONTDUMP);
  bytes_ = bytes;
  heap_ = ranges;
  heap_shadow_ = ranges + bytes;
  virtual_ = ranges + 2 * bytes;
  virtual_shadow_ = ranges + 3 * bytes;
  heap_free_.add(heap_, bytes);
  virtual_free_.add(virtual_, bytes);
  physical_free_.add(bytes, file_bytes - bytes);
  return true;
}

CUdeviceptr AddressSpace::allocate(uint64_t bytes) {
  const std::lock_guard held(mutex_);
  return heap_free_.allocate(bytes, kPieceBytes);
}

void AddressSpace::release(CUdeviceptr base, uint64_t bytes) {
  discard(base, bytes);
  const std::lock_guard held(mutex_);
  heap_free_.release(base, bytes);
}

void AddressSpace::discard(CUdeviceptr base, uint64_t bytes) {
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(file_offset(base)), static_cast<off_t>(bytes));
}

CUdeviceptr AddressSpace::reserve(uint64_t bytes, uint64_t alignment, CUdeviceptr at) {
  const std::lock_guard held(mutex_);
  if (at != 0 && at % alignment == 0 && virtual_free_.allocate_at(at, bytes)) return at;
  return virtual_free_.allocate(bytes, alignment);
}

void AddressSpace::unreserve(CUdeviceptr base, uint64_t bytes) {
  const std::lock_guard held(mutex_);
  virtual_free_.release(base, bytes);
}

bool AddressSpace::map(CUdeviceptr at, uint64_t bytes, int file, uint64_t offset) {
  if (failed(map_range(shadow(at), bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, offset))) {
    return false;
  }
  ::madvise(shadow(at), bytes, MADV_DONTDUMP);
  return true;
}

void AddressSpace::unmap(CUdeviceptr at, uint64_t bytes) {
  map_range(shadow(at), bytes, PROT_NONE, kNothing | MAP_FIXED, -1, 0);
  ::madvise(shadow(at), bytes, MADV_DONTDUMP);
}

uint64_t AddressSpace::allocate_physical(uint64_t bytes) {
  const std::lock_guard held(mutex_);
  return physical_free_.allocate(bytes, kPieceBytes);
}

void AddressSpace::release_physical(uint64_t offset, uint64_t bytes) {
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
  const std::lock_guard held(mutex_);
  physical_free_.release(offset, bytes);
}

}  // namespace vram::sim
