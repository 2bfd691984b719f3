// cuFunc… and cuOccupancy…
#include <cuda.h>

#include <algorithm>

#include "sim/identity.h"
#include "sim/launch.h"
#include "sim/module.h"
#include "sim/occupancy.h"
#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

// The largest cluster that runs on every card of the generation.
constexpr int kPortableCluster = 8;

CUresult require_function(CUfunction handle, std::shared_ptr<Function>* out) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  return find_function(handle, *context, out);
}

CUresult get_attribute(int* out, CUfunction_attribute attribute, CUfunction handle) {
  if (out == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(require_function(handle, &function));
  *out = function_attribute(*function, attribute);
  return CUDA_SUCCESS;
}

CUresult set_attribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(require_function(handle, &function));
  return set_function_attribute(*function, attribute, value);
}

CUresult set_cache_config(CUfunction handle, CUfunc_cache) {
  std::shared_ptr<Function> function;
  return require_function(handle, &function);
}

CUresult set_shared_config(CUfunction handle, CUsharedconfig) {
  std::shared_ptr<Function> function;
  return require_function(handle, &function);
}

CUresult module_of_function(CUmodule* out, CUfunction handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(require_function(handle, &function));
  const std::shared_ptr<Module> module = function->module.lock();
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  *out = module->handle();
  return CUDA_SUCCESS;
}

CUresult name_of(const char** out, CUfunction handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(require_function(handle, &function));
  *out = function->info.name.c_str();
  return CUDA_SUCCESS;
}

CUresult parameter_info(CUfunction handle, size_t index, size_t* offset, size_t* bytes) {
  if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(require_function(handle, &function));
  return parameter_of(function->info, index, offset, bytes);
}

// A function that has a handle is loaded.
CUresult is_loaded(CUfunctionLoadingState* out, CUfunction handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(require_function(handle, &function));
  *out = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult load(CUfunction handle) {
  std::shared_ptr<Function> function;
  return require_function(handle, &function);
}

CUresult active_blocks(int* out, CUfunction handle, int threads, size_t shared, unsigned) {
  if (out == nullptr || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(require_function(handle, &function));
  *out = blocks_per_multiprocessor(function->info, threads, shared);
  return CUDA_SUCCESS;
}

CUresult potential_block(int* grid, int* block, CUfunction handle, CUoccupancyB2DSize shared_of,
                         size_t shared, int limit, unsigned) {
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(require_function(handle, &function));
  const int most = static_cast<int>(function->info.max_threads);
  int best_threads = 0;
  int best_blocks = 0;
  for (int threads = limit > 0 ? std::min(limit, most) : most; threads > 0; threads -= 32) {
    const size_t bytes = shared_of != nullptr ? shared_of(threads) : shared;
    const int blocks = blocks_per_multiprocessor(function->info, threads, bytes);
    if (blocks * threads <= best_blocks * best_threads) continue;
    best_blocks = blocks;
    best_threads = threads;
  }
  if (best_threads == 0) return CUDA_ERROR_INVALID_VALUE;
  *block = best_threads;
  *grid = best_blocks * kMultiprocessors;
  return CUDA_SUCCESS;
}

CUresult potential_block_plain(int* grid, int* block, CUfunction handle,
                               CUoccupancyB2DSize shared_of, size_t shared, int limit) {
  return potential_block(grid, block, handle, shared_of, shared, limit, 0);
}

CUresult available_shared(size_t* out, CUfunction handle, int blocks, int threads) {
  if (out == nullptr || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(require_function(handle, &function));
  size_t bytes = kMaxSharedBytes;
  while (bytes > 0 && blocks_per_multiprocessor(function->info, threads, bytes) < blocks) {
    bytes -= std::min<size_t>(bytes, 128);
  }
  *out = bytes;
  return CUDA_SUCCESS;
}

CUresult potential_cluster(int* out, CUfunction handle, const CUlaunchConfig* config) {
  if (out == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(require_function(handle, &function));
  *out = kPortableCluster;
  return CUDA_SUCCESS;
}

CUresult active_clusters(int* out, CUfunction handle, const CUlaunchConfig* config) {
  if (out == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(require_function(handle, &function));
  int blocks_of_cluster = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& dimension = config->attrs[i].value.clusterDim;
    blocks_of_cluster = static_cast<int>(dimension.x * dimension.y * dimension.z);
  }
  const int threads = static_cast<int>(config->blockDimX * config->blockDimY * config->blockDimZ);
  const int blocks = blocks_per_multiprocessor(function->info, threads, config->sharedMemBytes);
  *out = blocks * kMultiprocessors / std::max(blocks_of_cluster, 1);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

VRAM_SIM_ONE(cuFuncGetAttribute, get_attribute,
             (int* value, CUfunction_attribute attribute, CUfunction function),
             (value, attribute, function))
VRAM_SIM_ONE(cuFuncSetAttribute, set_attribute,
             (CUfunction function, CUfunction_attribute attribute, int value),
             (function, attribute, value))
VRAM_SIM_ONE(cuFuncSetCacheConfig, set_cache_config, (CUfunction function, CUfunc_cache config),
             (function, config))
VRAM_SIM_ONE(cuFuncSetSharedMemConfig, set_shared_config,
             (CUfunction function, CUsharedconfig config), (function, config))
VRAM_SIM_ONE(cuFuncGetModule, module_of_function, (CUmodule * module, CUfunction function),
             (module, function))
VRAM_SIM_ONE(cuFuncGetName, name_of, (const char** name, CUfunction function), (name, function))
VRAM_SIM_ONE(cuFuncGetParamInfo, parameter_info,
             (CUfunction function, size_t index, size_t* offset, size_t* bytes),
             (function, index, offset, bytes))
VRAM_SIM_ONE(cuFuncIsLoaded, is_loaded, (CUfunctionLoadingState * state, CUfunction function),
             (state, function))
VRAM_SIM_ONE(cuFuncLoad, load, (CUfunction function), (function))

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                     size_t shared) {
  VRAM_SIM_ENTER();
  return active_blocks(blocks, function, threads, shared, 0);
}
VRAM_SIM_ONE(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, active_blocks,
             (int* blocks, CUfunction function, int threads, size_t shared, unsigned flags),
             (blocks, function, threads, shared, flags))
VRAM_SIM_ONE(cuOccupancyMaxPotentialBlockSize, potential_block_plain,
             (int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
              size_t shared, int limit),
             (grid, block, function, shared_of, shared, limit))
VRAM_SIM_ONE(cuOccupancyMaxPotentialBlockSizeWithFlags, potential_block,
             (int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
              size_t shared, int limit, unsigned flags),
             (grid, block, function, shared_of, shared, limit, flags))
VRAM_SIM_ONE(cuOccupancyAvailableDynamicSMemPerBlock, available_shared,
             (size_t * bytes, CUfunction function, int blocks, int threads),
             (bytes, function, blocks, threads))
VRAM_SIM_ONE(cuOccupancyMaxPotentialClusterSize, potential_cluster,
             (int* size, CUfunction function, const CUlaunchConfig* config),
             (size, function, config))
VRAM_SIM_ONE(cuOccupancyMaxActiveClusters, active_clusters,
             (int* count, CUfunction function, const CUlaunchConfig* config),
             (count, function, config))

}  // extern "C"
