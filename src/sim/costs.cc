#include "sim/costs.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <unordered_map>

namespace vram::sim {
namespace {

using Table = std::unordered_map<std::string, Cost>;

// Medians on one H200, driver 580.159.04: docs/design/driver-behaviour.md. The parts that grow with
// the bytes are straight lines between 2 MiB and 8 GiB.
Table h200() {
  return {
      {"cuCtxGetDevice", {11, 0}},
      {"cuCtxGetCurrent", {8, 0}},
      {"cuStreamGetCtx", {17, 0}},
      {"cuStreamGetDevice", {16, 0}},
      {"cuStreamIsCapturing", {15, 0}},
      {"cuMemGetInfo_v2", {4288, 0}},
      {"cuDeviceGetGraphMemAttribute", {10, 0}},
      {"cuMemPoolGetAttribute", {27, 0}},
      {"cuDeviceGetMemPool", {13, 0}},
      {"cuMemGetAddressRange_v2", {54, 0}},
      {"cuPointerGetAttribute", {38, 0}},
      {"cuDevicePrimaryCtxRetain", {50, 0}},
      {"cuStreamSynchronize", {329, 0}},
      {"cuMemAllocAsync", {260, 0}},
      {"cuMemFreeAsync", {390, 0}},
      {"cuMemAlloc_v2", {28000, 50}},
      {"cuMemFree_v2", {25000, 340}},
      {"cuLaunchKernel", {3848, 0}},
      {"cuMemAddressReserve", {400, 0}},
      {"cuMemCreate", {16600, 7}},
      {"cuMemMap", {700, 0}},
      {"cuMemSetAccess", {17900, 27}},
      {"cuMemUnmap", {13000, 9}},
      {"cuMemRelease", {7800, 310}},
      {"cuMemHostAlloc", {10000, 348000}},
      {"cuMemFreeHost", {10000, 91000}},
      {"cuMemHostRegister_v2", {10000, 17000}},
      {"cuMemHostUnregister", {10000, 14700}},
      {"card.kernel", {2000, 0}},  // an empty one, of which the launch hides most
      {"card.to_card", {1000, 18}},
      {"card.to_host", {1000, 18}},
  };
}

Table from_file(const char* path) {
  Table table;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line.substr(0, line.find('#')));
    std::string name;
    Cost cost;
    if (!(fields >> name >> cost.fixed_ns)) continue;
    fields >> cost.per_byte_ps;
    table[name] = cost;
  }
  return table;
}

const Table& table() {
  static const Table* const instance = [] {
    const char* choice = std::getenv("VRAM_SIM_COSTS");
    if (choice == nullptr || choice[0] == '\0') return new Table;
    return new Table(std::string(choice) == "h200" ? h200() : from_file(choice));
  }();
  return *instance;
}

}  // namespace

Cost cost_of(const char* name) {
  if (table().empty()) return {};
  const auto found = table().find(name);
  return found == table().end() ? Cost{} : found->second;
}

void spend_ns(uint64_t ns) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::nanoseconds(ns);
  while (Clock::now() < until) {
  }
}

void spend_bytes(const char* name, size_t bytes) {
  const uint64_t per_byte_ps = cost_of(name).per_byte_ps;
  if (per_byte_ps != 0) spend_ns(bytes / 1000 * per_byte_ps);
}

}  // namespace vram::sim
