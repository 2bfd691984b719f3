#pragma once

// The pool of one logical device, with what is told of it: errors a person can act on, and samples
// of its fragmentation in a bounded ring.
//
// Threads: all functions by any thread. allocate() adds one relaxed load to the pool's own cost; a
// sample is taken when the pool has asked for more from the driver, or refused.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "config/fault.h"
#include "pool/memory_pool.h"
#include "vram/config.h"

namespace vram::config {

// Sits between a pool and its budget, if it has one, and notices that the pool grows.
class GrowthWatch : public pool::Budget {
 public:
  explicit GrowthWatch(std::shared_ptr<pool::Budget> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] bool take(std::uint64_t bytes) override;
  void give(std::uint64_t bytes) override;
  // Whether it grew since the last question.
  [[nodiscard]] bool grew();
  // Whether the budget refused since the last question.
  [[nodiscard]] bool refused() { return refused_.exchange(false, std::memory_order_relaxed); }

 private:
  std::shared_ptr<pool::Budget> inner_;  // may be null
  std::atomic<bool> grew_{false};
  std::atomic<bool> refused_{false};
};

class Memory {
 public:
  // Enough for a sample a minute over a working day.
  static constexpr std::size_t kSamples = 512;

  Memory(std::string name, std::unique_ptr<pool::MemoryPool> pool,
         std::shared_ptr<GrowthWatch> watch, std::function<std::uint64_t()> now_ms)
      : name_(std::move(name)),
        pool_(std::move(pool)),
        watch_(std::move(watch)),
        now_ms_(std::move(now_ms)) {}

  Result<CUdeviceptr> allocate(std::uint64_t bytes, CUstream stream);
  [[nodiscard]] Outcome free(CUdeviceptr address, CUstream stream);
  [[nodiscard]] Outcome record_use(CUdeviceptr address, CUstream stream);
  std::uint64_t trim(std::uint64_t keep) { return pool_->trim(keep); }
  [[nodiscard]] MemoryInfo info() const;
  void reset_stats() { pool_->reset_peaks(); }

  FragmentationSample sample();
  [[nodiscard]] std::vector<FragmentationSample> history() const;

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[nodiscard]] std::string out_of_memory(const pool::Failure& failure);

  const std::string name_;  // "/device:GPU:0"
  const std::unique_ptr<pool::MemoryPool> pool_;
  const std::shared_ptr<GrowthWatch> watch_;
  const std::function<std::uint64_t()> now_ms_;

  mutable std::mutex history_mutex_;
  std::vector<FragmentationSample> ring_;
  std::size_t oldest_ = 0;  // once the ring is full
};

}  // namespace vram::config
