#include "library/framework_pools.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "base/size.h"
#include "pool/memory_pool.h"
#include "vram/frameworks.h"

namespace vram::library {
namespace {

using Limit = base::Expected<std::uint64_t, std::string>;

constexpr const char* kLimit = "VRAM_POOL_LIMIT";
constexpr const char* kMib = "PER_PROCESS_GPU_MEMORY";

std::atomic<vram_pool*> pools[kMostDevices];
std::mutex making;

std::string meaningless(const char* variable, const char* value, const char* valid) {
  return std::string("vram: ") + variable + "='" + value + "' means nothing; write " + valid +
         ", or unset it";
}

std::uint64_t total_of(int device) {
  const base::Expected<const pool::DriverCalls*, pool::Failure> driver = pool::open_driver();
  CUdevice handle = 0;
  std::size_t total = 0;
  if (!driver || (*driver)->device_get(&handle, device) != CUDA_SUCCESS ||
      (*driver)->device_total(&total, handle) != CUDA_SUCCESS) {
    return 0;
  }
  return total;
}

// total * permille / 1000 without overflow, in whole bytes.
std::uint64_t share(std::uint64_t total, std::uint64_t permille) {
  return total / 1000 * permille + total % 1000 * permille / 1000;
}

Limit limit_from_environment(int device) {
  std::uint64_t limit = pool::kNoLimit;
  if (const char* value = std::getenv(kLimit)) {
    base::Size size;
    if (base::parse_size(value, &size) != base::SizeError::kNone) {
      return meaningless(kLimit, value, "4GiB or 40%");
    }
    const bool bytes = size.kind == base::Size::Kind::kBytes;
    limit = bytes ? size.amount : share(total_of(device), size.amount);
  }
  if (const char* value = std::getenv(kMib)) {
    std::uint64_t bytes = 0;
    if (base::parse_mib(value, &bytes) != base::SizeError::kNone) {
      return meaningless(kMib, value, "a whole number of MiB, 4096 for 4GiB");
    }
    limit = std::min(limit, bytes);
  }
  return limit;
}

vram_status make(int device, vram_pool** pool) {
  const Limit limit = limit_from_environment(device);
  if (!limit) return fail(VRAM_INVALID_ARGUMENT, limit.error());
  pool::Options options;
  options.ordinal = device;
  options.limit = *limit;
  return create(options, pool);
}

}  // namespace

vram_pool* framework_pool_if_made(int device) {
  return pools[device].load(std::memory_order_acquire);
}

vram_status framework_pool(int device, vram_pool** pool) {
  if (device < 0 || device >= kMostDevices) {
    return fail(VRAM_NO_DEVICE, "vram: there is no device " + std::to_string(device) +
                                    "; `vram devices` lists what there is");
  }
  vram_pool* made = framework_pool_if_made(device);
  if (made == nullptr) {
    const std::lock_guard<std::mutex> hold(making);
    made = framework_pool_if_made(device);
    if (made == nullptr) {
      const vram_status status = make(device, &made);
      if (status != VRAM_OK) return status;
      pools[device].store(made, std::memory_order_release);
    }
  }
  *pool = made;
  return VRAM_OK;
}

void limit_framework_pool(int device, double fraction) {
  vram_pool* pool = nullptr;
  if (!(fraction > 0 && fraction <= 1) || framework_pool(device, &pool) != VRAM_OK) return;
  const Limit most = limit_from_environment(device);
  const auto bytes = static_cast<std::uint64_t>(fraction * static_cast<double>(total_of(device)));
  if (bytes != 0) pool->pool->set_limit(most ? std::min(bytes, *most) : bytes);
}

}  // namespace vram::library

extern "C" vram_status vram_framework_pool(int device, vram_pool** pool) {
  return vram::library::guarded([&] {
    if (pool == nullptr) {
      return vram::library::fail(VRAM_INVALID_ARGUMENT, "vram: pool is a null pointer");
    }
    return vram::library::framework_pool(device, pool);
  });
}
