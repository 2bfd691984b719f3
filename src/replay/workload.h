#pragma once

// What a program asked of one card, ready to be run through any allocator: allocations and frees in
// order, nothing else. Made of a recorded trace (recorded.h) or, in tests, by hand.

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace vram::replay {

struct Step {
  std::uint64_t bytes;   // as the program asked for; 0: a free
  std::uint32_t slot;    // of the block, below Workload::slots; free again after the free
  std::uint32_t stream;  // below Workload::streams; 0: the legacy default stream
};

struct Workload {
  std::vector<Step> steps;
  std::uint32_t slots = 0;  // as many blocks as are ever alive at once
  std::uint32_t streams = 1;
  std::uint64_t allocations = 0;
  std::uint64_t peak_live = 0;  // bytes, as the program asked for
};

class WorkloadBuilder {
 public:
  // `id`: of no block that is alive. `stream`: any number; 0 is the legacy default stream.
  // Bytes above 0.
  void allocate(std::uint64_t id, std::uint64_t bytes, std::uint64_t stream);
  // On the stream of the allocation, or on another. False: no block of this ID is alive.
  bool free(std::uint64_t id);
  bool free(std::uint64_t id, std::uint64_t stream);

  [[nodiscard]] std::uint64_t live() const { return live_; }
  [[nodiscard]] const Workload& workload() const { return workload_; }
  Workload take() { return std::move(workload_); }

 private:
  struct Block {
    std::uint64_t bytes;
    std::uint32_t slot;
    std::uint32_t stream;
  };
  std::uint32_t number_of(std::uint64_t stream);
  void free_block(std::uint64_t id, const Block& block, std::uint32_t stream);

  Workload workload_;
  std::unordered_map<std::uint64_t, Block> alive_;
  std::unordered_map<std::uint64_t, std::uint32_t> streams_;
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t live_ = 0;
};

}  // namespace vram::replay
