// cuLibrary… and cuKernel…
#include <cuda.h>

#include <string>

#include "sim/image_file.h"
#include "sim/launch.h"
#include "sim/memory.h"
#include "sim/module.h"
#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

CUresult load_data(CUlibrary* out, const void* data, CUjit_option* jit, void** jit_values,
                   unsigned jit_count, CUlibraryOption*, void**, unsigned) {
  if (out == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_initialized());
  std::shared_ptr<const Image> image;
  VRAM_SIM_TRY(read_image(data, &image));
  if (jit != nullptr && jit_values != nullptr) clear_jit_logs(jit_count, jit, jit_values);
  *out = load_library(std::move(image))->handle();
  return CUDA_SUCCESS;
}

CUresult load_file(CUlibrary* out, const char* path, CUjit_option* jit, void** jit_values,
                   unsigned jit_count, CUlibraryOption* options, void** values, unsigned count) {
  if (out == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string content;
  VRAM_SIM_TRY(read_image_file(path, &content));
  return load_data(out, content.c_str(), jit, jit_values, jit_count, options, values, count);
}

CUresult unload(CUlibrary handle) {
  VRAM_SIM_TRY(require_initialized());
  return unload_library(handle);
}

CUresult require_library(CUlibrary handle, std::shared_ptr<Library>* out) {
  VRAM_SIM_TRY(require_initialized());
  *out = find_library(handle);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult require_kernel(CUkernel handle, std::shared_ptr<Kernel>* out) {
  VRAM_SIM_TRY(require_initialized());
  *out = find_kernel(handle);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// The library's module in the thread's context.
CUresult require_module(CUlibrary handle, std::shared_ptr<Module>* out) {
  std::shared_ptr<Library> library;
  VRAM_SIM_TRY(require_library(handle, &library));
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  return module_of(*library, *context, out);
}

CUresult kernel_of(CUkernel* out, CUlibrary handle, const char* name) {
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Library> library;
  VRAM_SIM_TRY(require_library(handle, &library));
  std::shared_ptr<Kernel> kernel;
  VRAM_SIM_TRY(get_kernel(*library, name, &kernel));
  *out = kernel->handle();
  return CUDA_SUCCESS;
}

CUresult kernel_count(unsigned* out, CUlibrary handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Library> library;
  VRAM_SIM_TRY(require_library(handle, &library));
  *out = static_cast<unsigned>(library->image->kernels.size());
  return CUDA_SUCCESS;
}

CUresult enumerate_kernels(CUkernel* out, unsigned count, CUlibrary handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Library> library;
  VRAM_SIM_TRY(require_library(handle, &library));
  for (const KernelInfo& info : library->image->kernels) {
    if (count-- == 0) break;
    std::shared_ptr<Kernel> kernel;
    VRAM_SIM_TRY(get_kernel(*library, info.name, &kernel));
    *out++ = kernel->handle();
  }
  return CUDA_SUCCESS;
}

CUresult module_handle(CUmodule* out, CUlibrary handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  VRAM_SIM_TRY(require_module(handle, &module));
  *out = module->handle();
  return CUDA_SUCCESS;
}

CUresult global_of(CUdeviceptr* address, size_t* bytes, CUlibrary handle, const char* name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  VRAM_SIM_TRY(require_module(handle, &module));
  const auto found = module->globals.find(name);
  if (found == module->globals.end()) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = found->second.first;
  if (bytes != nullptr) *bytes = found->second.second;
  return CUDA_SUCCESS;
}

CUresult unified_function(void** out, CUlibrary handle, const char* symbol) {
  if (out == nullptr || symbol == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Library> library;
  VRAM_SIM_TRY(require_library(handle, &library));
  return CUDA_ERROR_NOT_FOUND;
}

CUresult function_of(CUfunction* out, CUkernel handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel> kernel;
  VRAM_SIM_TRY(require_kernel(handle, &kernel));
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(find_function(reinterpret_cast<CUfunction>(handle), *context, &function));
  *out = function->handle();
  return CUDA_SUCCESS;
}

CUresult library_of(CUlibrary* out, CUkernel handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel> kernel;
  VRAM_SIM_TRY(require_kernel(handle, &kernel));
  const std::shared_ptr<Library> library = kernel->library.lock();
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  *out = library->handle();
  return CUDA_SUCCESS;
}

CUresult get_attribute(int* out, CUfunction_attribute attribute, CUkernel handle, CUdevice device) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel> kernel;
  VRAM_SIM_TRY(require_kernel(handle, &kernel));
  VRAM_SIM_TRY(require_device(device));
  *out = kernel_attribute(*kernel, device, attribute);
  return CUDA_SUCCESS;
}

CUresult set_attribute(CUfunction_attribute attribute, int value, CUkernel handle,
                       CUdevice device) {
  std::shared_ptr<Kernel> kernel;
  VRAM_SIM_TRY(require_kernel(handle, &kernel));
  VRAM_SIM_TRY(require_device(device));
  return set_kernel_attribute(*kernel, device, attribute, value);
}

CUresult set_cache_config(CUkernel handle, CUfunc_cache, CUdevice device) {
  std::shared_ptr<Kernel> kernel;
  VRAM_SIM_TRY(require_kernel(handle, &kernel));
  return require_device(device);
}

CUresult name_of(const char** out, CUkernel handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel> kernel;
  VRAM_SIM_TRY(require_kernel(handle, &kernel));
  *out = kernel->info.name.c_str();
  return CUDA_SUCCESS;
}

CUresult parameter_info(CUkernel handle, size_t index, size_t* offset, size_t* bytes) {
  if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel> kernel;
  VRAM_SIM_TRY(require_kernel(handle, &kernel));
  return parameter_of(kernel->info, index, offset, bytes);
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

VRAM_SIM_ONE(cuLibraryLoadData, load_data,
             (CUlibrary * library, const void* code, CUjit_option* jit, void** jit_values,
              unsigned jit_count, CUlibraryOption* options, void** values, unsigned count),
             (library, code, jit, jit_values, jit_count, options, values, count))
VRAM_SIM_ONE(cuLibraryLoadFromFile, load_file,
             (CUlibrary * library, const char* path, CUjit_option* jit, void** jit_values,
              unsigned jit_count, CUlibraryOption* options, void** values, unsigned count),
             (library, path, jit, jit_values, jit_count, options, values, count))
VRAM_SIM_ONE(cuLibraryUnload, unload, (CUlibrary library), (library))
VRAM_SIM_ONE(cuLibraryGetKernel, kernel_of,
             (CUkernel * kernel, CUlibrary library, const char* name), (kernel, library, name))
VRAM_SIM_ONE(cuLibraryGetKernelCount, kernel_count, (unsigned* count, CUlibrary library),
             (count, library))
VRAM_SIM_ONE(cuLibraryEnumerateKernels, enumerate_kernels,
             (CUkernel * kernels, unsigned count, CUlibrary library), (kernels, count, library))
VRAM_SIM_ONE(cuLibraryGetModule, module_handle, (CUmodule * module, CUlibrary library),
             (module, library))
VRAM_SIM_ONE(cuLibraryGetGlobal, global_of,
             (CUdeviceptr * address, size_t* bytes, CUlibrary library, const char* name),
             (address, bytes, library, name))
VRAM_SIM_ONE(cuLibraryGetManaged, global_of,
             (CUdeviceptr * address, size_t* bytes, CUlibrary library, const char* name),
             (address, bytes, library, name))
VRAM_SIM_ONE(cuLibraryGetUnifiedFunction, unified_function,
             (void** function, CUlibrary library, const char* symbol), (function, library, symbol))
VRAM_SIM_ONE(cuKernelGetFunction, function_of, (CUfunction * function, CUkernel kernel),
             (function, kernel))
VRAM_SIM_ONE(cuKernelGetLibrary, library_of, (CUlibrary * library, CUkernel kernel),
             (library, kernel))
VRAM_SIM_ONE(cuKernelGetAttribute, get_attribute,
             (int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device),
             (value, attribute, kernel, device))
VRAM_SIM_ONE(cuKernelSetAttribute, set_attribute,
             (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),
             (attribute, value, kernel, device))
VRAM_SIM_ONE(cuKernelSetCacheConfig, set_cache_config,
             (CUkernel kernel, CUfunc_cache config, CUdevice device), (kernel, config, device))
VRAM_SIM_ONE(cuKernelGetName, name_of, (const char** name, CUkernel kernel), (name, kernel))
VRAM_SIM_ONE(cuKernelGetParamInfo, parameter_info,
             (CUkernel kernel, size_t index, size_t* offset, size_t* bytes),
             (kernel, index, offset, bytes))

}  // extern "C"
