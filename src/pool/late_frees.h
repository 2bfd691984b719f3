#pragma once

// Blocks that were freed on a stream whose work may still use them, until it does not.
//
// Model. While one stream alone uses a pool, its order protects it, and nothing is late. When a
// second one comes, all that is free then is late, and from then on every free: it takes effect
// when the stream has passed the ticket that was issued for it (streams.h). Frees of one stream
// take effect in their order. Nothing here waits for a stream but where there are too many of them.
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

  // To be told of every stream that is about to allocate or free. True: it is the second one, and
  // what is free now must be added with add_of_only().
  [[nodiscard]] bool meet(CUstream stream);
  [[nodiscard]] bool needed() const { return several_; }
  [[nodiscard]] bool is_only(CUstream stream) const {
    return met_ && !several_ && stream == only_handle_;
  }

  // Freed by the stream that was the only one.
  void add_of_only(CUdeviceptr address);
  void add(CUdeviceptr address, CUstream stream);
  [[nodiscard]] bool contains(CUdeviceptr address) const { return addresses_.contains(address); }
  [[nodiscard]] bool empty() const { return addresses_.empty(); }

  // Hands over the blocks that no work uses any more, and asks the streams of the others to tell.
  // How many.
  std::size_t settle(const std::function<void(CUdeviceptr)>& release);

  // To be called before a stream is destroyed; of the only one, what is free was added before.
  void forget(CUstream stream);

 private:
  struct Late {
    CUdeviceptr address;
    std::uint64_t ticket;
  };

  void wait_for(CUstream stream);
  void enter(StreamId id, CUdeviceptr address, std::uint64_t ticket);

  const DriverCalls* driver_ = nullptr;
  CUcontext context_ = nullptr;
  Streams streams_;
  bool met_ = false;
  bool several_ = false;
  StreamId only_ = 0;
  CUstream only_handle_ = nullptr;
  std::map<StreamId, std::deque<Late>> waiting_;
  std::unordered_set<CUdeviceptr> addresses_;
};

}  // namespace vram::pool
