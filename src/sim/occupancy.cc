#include "sim/occupancy.h"

#include <algorithm>
#include <cstdint>

namespace vram::sim {
namespace {

// Compute capability 9.0: what one multiprocessor has, and in which portions it gives it out.
constexpr int kBlocks = 32;
constexpr int kThreads = 2048;
constexpr int kWarp = 32;
constexpr uint64_t kRegisters = 65536;
constexpr uint64_t kRegistersPerWarpUnit = 256;
constexpr uint64_t kSharedBytes = 233472;
constexpr uint64_t kReservedSharedBytes = 1024;  // of each block
constexpr uint64_t kSharedUnit = 128;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

int blocks_per_multiprocessor(const KernelInfo& info, int threads, size_t dynamic_shared_bytes) {
  if (threads <= 0 || static_cast<unsigned>(threads) > info.max_threads) return 0;
  const int warps = (threads + kWarp - 1) / kWarp;
  const uint64_t registers =
      round_up(uint64_t{std::max(info.registers, 1u)} * kWarp, kRegistersPerWarpUnit) *
      static_cast<uint64_t>(warps);
  const uint64_t shared =
      round_up(info.shared_bytes + dynamic_shared_bytes + kReservedSharedBytes, kSharedUnit);
  const int by_threads = kThreads / (warps * kWarp);
  const int by_registers = static_cast<int>(kRegisters / registers);
  const int by_shared = static_cast<int>(kSharedBytes / shared);
  return std::min({kBlocks, by_threads, by_registers, by_shared});
}

}  // namespace vram::sim
