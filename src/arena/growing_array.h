#pragma once

// An array that grows in place, for code that may not use the heap: address space for the largest
// size is reserved at once, memory comes when an element is first written. Elements are all-zero
// bytes until then and keep their address for ever.

#include <sys/mman.h>

#include <cstddef>
#include <type_traits>

namespace vram::arena {

template <typename T>
class GrowingArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  GrowingArray() = default;
  GrowingArray(const GrowingArray&) = delete;
  GrowingArray& operator=(const GrowingArray&) = delete;
  ~GrowingArray() {
    if (elements_ != nullptr) munmap(elements_, capacity_ * sizeof(T));
  }

  // Before anything else. A second call starts over: what was written is gone. False: no address
  // space, and all is as before.
  [[nodiscard]] bool reserve(std::size_t capacity) {
    void* at = mmap(nullptr, capacity * sizeof(T), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    if (elements_ != nullptr) munmap(elements_, capacity_ * sizeof(T));
    elements_ = static_cast<T*>(at);
    capacity_ = capacity;
    return true;
  }

  // Asks for large pages: for an array that is read at random by every allocation.
  void prefer_large_pages() { (void)madvise(elements_, capacity_ * sizeof(T), MADV_HUGEPAGE); }

  T& operator[](std::size_t index) { return elements_[index]; }
  const T& operator[](std::size_t index) const { return elements_[index]; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

 private:
  T* elements_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace vram::arena
