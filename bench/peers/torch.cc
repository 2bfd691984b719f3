// PyTorch's caching allocator, called from C++ as its tensors call it. Its settings come from
// PYTORCH_ALLOC_CONF: native, expandable_segments:True or backend:cudaMallocAsync.

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string>

#include "peer.h"

namespace allocator = c10::cuda::CUDACachingAllocator;

extern "C" {

const char* peer_name() {
  static const std::string name = [] {
    const char* settings = getenv("PYTORCH_ALLOC_CONF");
    return std::string("PyTorch ") + (settings == nullptr ? "native" : settings);
  }();
  return name.c_str();
}

int peer_open(std::size_t limit) {
  try {
    allocator::init(c10::cuda::device_count());
    std::size_t free = 0;
    std::size_t total = 0;
    cudaMemGetInfo(&free, &total);
    // It outlives peer_close(): without a limit it goes back to the whole card.
    allocator::setMemoryFraction(
        limit == 0 ? 1.0 : static_cast<double>(limit) / static_cast<double>(total), 0);
    allocator::resetPeakStats(0);
    return 0;
  } catch (...) {
    return 1;
  }
}

void* peer_allocate(std::size_t bytes, void* stream) {
  try {
    return allocator::raw_alloc_with_stream(bytes, static_cast<cudaStream_t>(stream));
  } catch (...) {
    return nullptr;
  }
}

void peer_free(void* block, std::size_t, void*) { allocator::raw_delete(block); }

std::size_t peer_reserved() {
  return static_cast<std::size_t>(allocator::getDeviceStats(0).reserved_bytes[0].current);
}

std::size_t peer_peak_reserved() {
  return static_cast<std::size_t>(allocator::getDeviceStats(0).reserved_bytes[0].peak);
}

void peer_trim() { allocator::emptyCache(); }

void peer_close() { allocator::emptyCache(); }
}
