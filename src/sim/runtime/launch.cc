// Launching and asking about kernels.
#include <cstring>

#include "sim/runtime/runtime.h"

namespace vram::sim::runtime {
namespace {

CUfunction as_function(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

CUresult function_of(const void* host_function, CUfunction* out) {
  CUkernel kernel = nullptr;
  VRAM_RT_TRY(kernel_of(host_function, &kernel));
  return cuKernelGetFunction(out, kernel);
}

CUresult launch(CUfunction function, dim3 grid, dim3 block, void** arguments, size_t shared,
                cudaStream_t stream) {
  return cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                        static_cast<unsigned>(shared), stream, arguments, nullptr);
}

CUresult fill_attributes(CUfunction function, cudaFuncAttributes* out) {
  const auto get = [&](CUfunction_attribute attribute) {
    int value = 0;
    static_cast<void>(cuFuncGetAttribute(&value, attribute, function));
    return value;
  };
  cudaFuncAttributes attributes{};
  attributes.sharedSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  attributes.constSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  attributes.localSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  attributes.maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  attributes.numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  attributes.ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  attributes.binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  attributes.maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  attributes.preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  *out = attributes;
  return CUDA_SUCCESS;
}

// The attributes have the same numbers and values in both interfaces.
CUlaunchConfig as_driver(const cudaLaunchConfig_t& in) {
  CUlaunchConfig out{};
  out.gridDimX = in.gridDim.x;
  out.gridDimY = in.gridDim.y;
  out.gridDimZ = in.gridDim.z;
  out.blockDimX = in.blockDim.x;
  out.blockDimY = in.blockDim.y;
  out.blockDimZ = in.blockDim.z;
  out.sharedMemBytes = static_cast<unsigned>(in.dynamicSmemBytes);
  out.hStream = in.stream;
  out.attrs = reinterpret_cast<CUlaunchAttribute*>(in.attrs);
  out.numAttrs = in.numAttrs;
  return out;
}
static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));

}  // namespace
}  // namespace vram::sim::runtime

using namespace vram::sim::runtime;

extern "C" {

VRAM_RT_STREAM(cudaLaunchKernel,
               (const void* host_function, dim3 grid, dim3 block, void** arguments, size_t shared,
                cudaStream_t stream),
               (host_function, grid, block, arguments, shared, stream), {
                 CUkernel kernel = nullptr;
                 VRAM_RT_TRY(kernel_of(host_function, &kernel));
                 return launch(as_function(kernel), grid, block, arguments, shared, stream);
               })
VRAM_RT_STREAM(__cudaLaunchKernel,
               (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                cudaStream_t stream),
               (kernel, grid, block, arguments, shared, stream), {
                 return launch(reinterpret_cast<CUfunction>(kernel), grid, block, arguments, shared,
                               stream);
               })
VRAM_RT_STREAM(cudaLaunchCooperativeKernel,
               (const void* host_function, dim3 grid, dim3 block, void** arguments, size_t shared,
                cudaStream_t stream),
               (host_function, grid, block, arguments, shared, stream), {
                 CUkernel kernel = nullptr;
                 VRAM_RT_TRY(kernel_of(host_function, &kernel));
                 return cuLaunchCooperativeKernel(as_function(kernel), grid.x, grid.y, grid.z,
                                                  block.x, block.y, block.z,
                                                  static_cast<unsigned>(shared), stream, arguments);
               })

VRAM_RT(cudaLaunchKernelExC,
        (const cudaLaunchConfig_t* config, const void* host_function, void** arguments), {
          if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
          CUkernel kernel = nullptr;
          VRAM_RT_TRY(kernel_of(host_function, &kernel));
          const CUlaunchConfig driver_config = as_driver(*config);
          return cuLaunchKernelEx(&driver_config, as_function(kernel), arguments, nullptr);
        })
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* host_function,
                                     void** arguments) {
  if (config == nullptr) return finish(cudaErrorInvalidValue);
  cudaLaunchConfig_t own = *config;
  if (own.stream == nullptr) own.stream = cudaStreamPerThread;
  return cudaLaunchKernelExC(&own, host_function, arguments);
}
VRAM_RT_STREAM(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void* argument),
               (stream, function, argument),
               { return cuLaunchHostFunc(stream, function, argument); })

VRAM_RT(cudaGetKernel, (cudaKernel_t * out, const void* host_function),
        { return kernel_of(host_function, reinterpret_cast<CUkernel*>(out)); })
VRAM_RT(cudaGetFuncBySymbol, (cudaFunction_t * out, const void* host_function),
        { return function_of(host_function, reinterpret_cast<CUfunction*>(out)); })
VRAM_RT(cudaFuncGetName, (const char** name, const void* host_function), {
  CUkernel kernel = nullptr;
  VRAM_RT_TRY(kernel_of(host_function, &kernel));
  return cuKernelGetName(name, kernel);
})
VRAM_RT(cudaFuncGetAttributes, (cudaFuncAttributes * attributes, const void* host_function), {
  if (attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUfunction function = nullptr;
  VRAM_RT_TRY(function_of(host_function, &function));
  return fill_attributes(function, attributes);
})
VRAM_RT(cudaFuncSetAttribute, (const void* host_function, cudaFuncAttribute attribute, int value), {
  CUfunction function = nullptr;
  VRAM_RT_TRY(function_of(host_function, &function));
  return cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(attribute), value);
})
VRAM_RT(cudaFuncSetCacheConfig, (const void* host_function, cudaFuncCache config), {
  CUfunction function = nullptr;
  VRAM_RT_TRY(function_of(host_function, &function));
  return cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(config));
})
VRAM_RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int* blocks, const void* host_function, int threads, size_t shared, unsigned flags), {
          CUfunction function = nullptr;
          VRAM_RT_TRY(function_of(host_function, &function));
          return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                      shared, flags);
        })
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host_function,
                                                          int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host_function, threads,
                                                                shared, 0);
}
VRAM_RT(cudaOccupancyAvailableDynamicSMemPerBlock,
        (size_t * bytes, const void* host_function, int blocks, int threads), {
          CUfunction function = nullptr;
          VRAM_RT_TRY(function_of(host_function, &function));
          return cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads);
        })

}  // extern "C"
