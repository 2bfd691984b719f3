#pragma once

// Blocks that were freed on a stream whose work may still use them, until it does not.
//
// Model. While one stream alone uses a pool, its order protects it, and nothing is late. From the
// second stream on every free is late: it takes effect when the stream has passed the ticket that
// was issued for it (streams.h). Frees of one stream take effect in their order.
//
// Threads: the pool's lock is held over every call.

#include <deque>
#include <functional>
#include <map>
#include <unordered_set>

#include "pool/streams.h"

namespace vram::pool {

class LateFrees {
 public:
  // Once. The table outlives this.
  [[nodiscard]] CUresult open(const DriverCalls& driver, CUcontext context);
  void close();

  // To be told of every stream that is about to allocate or free. With the second one it waits once
  // for the first one's work: what that has freed was free at once.
  void meet(CUstream stream);
  [[nodiscard]] bool needed() const { return several_; }

  void add(CUdeviceptr address, std::uint64_t bytes, CUstream stream);
  [[nodiscard]] bool contains(CUdeviceptr address) const { return addresses_.contains(address); }
  [[nodiscard]] bool empty() const { return addresses_.empty(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // Hands over the blocks that no work uses any more, and asks the streams of the others to tell.
  // How many.
  std::size_t settle(const std::function<void(CUdeviceptr)>& release);

  // To be called before a stream is destroyed.
  void forget(CUstream stream);

 private:
  struct Late {
    CUdeviceptr address;
    std::uint64_t bytes;
    std::uint64_t ticket;
  };

  void wait_for(CUstream stream);

  const DriverCalls* driver_ = nullptr;
  CUcontext context_ = nullptr;
  Streams streams_;
  bool met_ = false;
  bool several_ = false;
  StreamId first_ = 0;
  CUstream first_handle_ = nullptr;
  std::map<StreamId, std::deque<Late>> waiting_;
  std::unordered_set<CUdeviceptr> addresses_;
  std::uint64_t bytes_ = 0;
};

}  // namespace vram::pool
