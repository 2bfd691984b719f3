// vram's pools and the bare driver, measured as peers are.
#pragma once

#include <memory>
#include <string>

#include "pool/memory_pool.h"

namespace vram::bench {

// What is measured: one allocator. Virtual calls cost each of them the same.
class Allocator {
 public:
  virtual ~Allocator() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  // `limit` as in peers/peer.h.
  [[nodiscard]] virtual bool open(std::size_t limit) = 0;
  virtual void* allocate(std::size_t bytes, void* stream) = 0;
  virtual void free(void* block, std::size_t bytes, void* stream) = 0;
  [[nodiscard]] virtual std::size_t reserved() = 0;
  [[nodiscard]] virtual std::size_t peak_reserved() = 0;
  virtual void trim() = 0;
  virtual void close() = 0;
};

// vram's segments: called as the C interface calls them, without the MemoryPool wrapper.
std::unique_ptr<Allocator> segments(const pool::DriverCalls& driver);
// vram's TensorFlow allocator; one that does not open where make_pool() knows none.
std::unique_ptr<Allocator> bfc(const pool::DriverCalls& driver);
// The driver's: cuMemAllocAsync in a pool that keeps everything, and cuMemAlloc.
std::unique_ptr<Allocator> driver_async(const pool::DriverCalls& driver);
std::unique_ptr<Allocator> driver_alloc(const pool::DriverCalls& driver);
// Null: it cannot be loaded; the reason is on the error stream.
std::unique_ptr<Allocator> peer(const std::string& library);

}  // namespace vram::bench
