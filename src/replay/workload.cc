#include "replay/workload.h"

#include <algorithm>

namespace vram::replay {

std::uint32_t WorkloadBuilder::number_of(std::uint64_t stream) {
  if (stream == 0) return 0;
  const auto [known, is_new] = streams_.emplace(stream, workload_.streams);
  if (is_new) ++workload_.streams;
  return known->second;
}

void WorkloadBuilder::allocate(std::uint64_t id, std::uint64_t bytes, std::uint64_t stream) {
  std::uint32_t slot = workload_.slots;
  if (free_slots_.empty()) {
    ++workload_.slots;
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  const Block block{bytes, slot, number_of(stream)};
  alive_[id] = block;
  workload_.steps.push_back({bytes, slot, block.stream});
  ++workload_.allocations;
  live_ += bytes;
  workload_.peak_live = std::max(workload_.peak_live, live_);
}

bool WorkloadBuilder::free(std::uint64_t id) {
  const auto found = alive_.find(id);
  if (found == alive_.end()) return false;
  free_block(id, found->second, found->second.stream);
  return true;
}

bool WorkloadBuilder::free(std::uint64_t id, std::uint64_t stream) {
  const auto found = alive_.find(id);
  if (found == alive_.end()) return false;
  free_block(id, found->second, number_of(stream));
  return true;
}

void WorkloadBuilder::free_block(std::uint64_t id, const Block& block, std::uint32_t stream) {
  workload_.steps.push_back({0, block.slot, stream});
  free_slots_.push_back(block.slot);
  live_ -= block.bytes;
  alive_.erase(id);
}

}  // namespace vram::replay
