// RMM's pool over cudaMalloc, on the default stream or the one given.

#include <rmm/cuda_stream_view.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include <memory>
#include <optional>

#include "peer.h"

namespace {

using Pool = rmm::mr::pool_memory_resource;
std::unique_ptr<Pool> pool;
std::size_t peak = 0;

}  // namespace

extern "C" {

const char* peer_name() { return "RMM pool"; }

int peer_open(std::size_t limit) {
  try {
    peak = 0;
    pool = std::make_unique<Pool>(
        rmm::mr::cuda_memory_resource{}, 0,
        limit == 0 ? std::nullopt : std::optional<std::size_t>(limit / 256 * 256));
    return 0;
  } catch (...) {
    return 1;
  }
}

void* peer_allocate(std::size_t bytes, void* stream) {
  try {
    return pool->allocate(rmm::cuda_stream_view{static_cast<cudaStream_t>(stream)}, bytes, 256);
  } catch (...) {
    return nullptr;
  }
}

void peer_free(void* block, std::size_t bytes, void* stream) {
  pool->deallocate(rmm::cuda_stream_view{static_cast<cudaStream_t>(stream)}, block, bytes, 256);
}

std::size_t peer_reserved() { return pool->pool_size(); }
std::size_t peer_peak_reserved() { return pool->pool_size(); }
void peer_trim() {}
void peer_close() { pool.reset(); }
}
