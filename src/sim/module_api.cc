// cuModule… and cuLink…
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "sim/image_file.h"
#include "sim/module.h"
#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

CUresult load_data(CUmodule* out, const void* data) {
  if (out == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  std::shared_ptr<const Image> image;
  VRAM_SIM_TRY(read_image(data, &image));
  std::shared_ptr<Module> module;
  VRAM_SIM_TRY(load_module(*context, std::move(image), &module));
  *out = module->handle();
  return CUDA_SUCCESS;
}

CUresult load_with_options(CUmodule* out, const void* data, unsigned count, CUjit_option* options,
                           void** values) {
  if (count > 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(load_data(out, data));
  clear_jit_logs(count, options, values);
  return CUDA_SUCCESS;
}

CUresult load_file(CUmodule* out, const char* path) {
  if (out == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string content;
  VRAM_SIM_TRY(read_image_file(path, &content));
  return load_data(out, content.c_str());
}

CUresult unload(CUmodule handle) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  return unload_module(handle);
}

CUresult require_module(CUmodule handle, std::shared_ptr<Module>* out) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  *out = find_module(handle);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult function_of(CUfunction* out, CUmodule handle, const char* name) {
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  VRAM_SIM_TRY(require_module(handle, &module));
  std::shared_ptr<Function> function;
  VRAM_SIM_TRY(get_function(*module, name, &function));
  *out = function->handle();
  return CUDA_SUCCESS;
}

CUresult global_of(CUdeviceptr* address, size_t* bytes, CUmodule handle, const char* name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  VRAM_SIM_TRY(require_module(handle, &module));
  const auto found = module->globals.find(name);
  if (found == module->globals.end()) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = found->second.first;
  if (bytes != nullptr) *bytes = found->second.second;
  return CUDA_SUCCESS;
}

// A device address here never fits.
CUresult global_of_v1(CUdeviceptr_v1* address, unsigned* bytes, CUmodule handle, const char* name) {
  CUdeviceptr wide = 0;
  size_t wide_bytes = 0;
  VRAM_SIM_TRY(global_of(&wide, &wide_bytes, handle, name));
  if (address != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (bytes != nullptr) *bytes = static_cast<unsigned>(wide_bytes);
  return CUDA_SUCCESS;
}

CUresult loading_mode(CUmoduleLoadingMode* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_initialized());
  const char* mode = std::getenv("CUDA_MODULE_LOADING");
  const bool eager = mode != nullptr && std::strcmp(mode, "EAGER") == 0;
  *out = eager ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult function_count(unsigned* out, CUmodule handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  VRAM_SIM_TRY(require_module(handle, &module));
  *out = static_cast<unsigned>(module->image->kernels.size());
  return CUDA_SUCCESS;
}

CUresult enumerate_functions(CUfunction* out, unsigned count, CUmodule handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  VRAM_SIM_TRY(require_module(handle, &module));
  for (const KernelInfo& info : module->image->kernels) {
    if (count-- == 0) break;
    std::shared_ptr<Function> function;
    VRAM_SIM_TRY(get_function(*module, info.name, &function));
    *out++ = function->handle();
  }
  return CUDA_SUCCESS;
}

// Linking. What comes out must be fit for loading: several PTX texts are one after the other, of
// anything else only a single input can be handed through.
struct Link {
  std::string texts;
  std::string binary;
};

struct Links {
  std::mutex mutex;
  std::unordered_map<CUlinkState, std::unique_ptr<Link>> all;
};

Links& links() {
  static Links* const instance = new Links;
  return *instance;
}

CUresult link_create(unsigned, CUjit_option*, void**, CUlinkState* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  auto link = std::make_unique<Link>();
  const auto handle = reinterpret_cast<CUlinkState>(link.get());
  const std::lock_guard held(links().mutex);
  links().all[handle] = std::move(link);
  *out = handle;
  return CUDA_SUCCESS;
}

CUresult link_add(CUlinkState handle, CUjitInputType type, void* data, size_t bytes, const char*,
                  unsigned, CUjit_option*, void**) {
  if (data == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_initialized());
  const std::lock_guard held(links().mutex);
  const auto found = links().all.find(handle);
  if (found == links().all.end()) return CUDA_ERROR_INVALID_HANDLE;
  Link& link = *found->second;
  if (type == CU_JIT_INPUT_PTX) {
    const auto* text = static_cast<const char*>(data);
    link.texts.append(text, strnlen(text, bytes)).push_back('\n');
    return CUDA_SUCCESS;
  }
  if (type != CU_JIT_INPUT_CUBIN && type != CU_JIT_INPUT_FATBINARY) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (!link.binary.empty()) return CUDA_ERROR_NOT_SUPPORTED;
  link.binary.assign(static_cast<const char*>(data), bytes);
  return CUDA_SUCCESS;
}

CUresult link_add_file(CUlinkState handle, CUjitInputType type, const char* path, unsigned count,
                       CUjit_option* options, void** values) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string content;
  VRAM_SIM_TRY(read_image_file(path, &content));
  return link_add(handle, type, content.data(), content.size(), path, count, options, values);
}

CUresult link_complete(CUlinkState handle, void** out, size_t* bytes) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_initialized());
  const std::lock_guard held(links().mutex);
  const auto found = links().all.find(handle);
  if (found == links().all.end()) return CUDA_ERROR_INVALID_HANDLE;
  Link& link = *found->second;
  if (!link.texts.empty() && !link.binary.empty()) return CUDA_ERROR_NOT_SUPPORTED;
  std::string& image = link.texts.empty() ? link.binary : link.texts;
  *out = image.data();
  if (bytes != nullptr) *bytes = image.size() + (link.texts.empty() ? 0 : 1);
  return CUDA_SUCCESS;
}

CUresult link_destroy(CUlinkState handle) {
  VRAM_SIM_TRY(require_initialized());
  const std::lock_guard held(links().mutex);
  return links().all.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

VRAM_SIM_ONE(cuModuleLoad, load_file, (CUmodule * module, const char* path), (module, path))
VRAM_SIM_ONE(cuModuleLoadData, load_data, (CUmodule * module, const void* image), (module, image))
VRAM_SIM_ONE(cuModuleLoadDataEx, load_with_options,
             (CUmodule * module, const void* image, unsigned count, CUjit_option* options,
              void** values),
             (module, image, count, options, values))
VRAM_SIM_ONE(cuModuleLoadFatBinary, load_data, (CUmodule * module, const void* image),
             (module, image))
VRAM_SIM_ONE(cuModuleUnload, unload, (CUmodule module), (module))
VRAM_SIM_ONE(cuModuleGetLoadingMode, loading_mode, (CUmoduleLoadingMode * mode), (mode))
VRAM_SIM_ONE(cuModuleGetFunction, function_of,
             (CUfunction * function, CUmodule module, const char* name), (function, module, name))
VRAM_SIM_ONE(cuModuleGetFunctionCount, function_count, (unsigned* count, CUmodule module),
             (count, module))
VRAM_SIM_ONE(cuModuleEnumerateFunctions, enumerate_functions,
             (CUfunction * functions, unsigned count, CUmodule module), (functions, count, module))
VRAM_SIM_ONE(cuModuleGetGlobal, global_of_v1,
             (CUdeviceptr_v1 * address, unsigned* bytes, CUmodule module, const char* name),
             (address, bytes, module, name))
VRAM_SIM_ONE(cuModuleGetGlobal_v2, global_of,
             (CUdeviceptr * address, size_t* bytes, CUmodule module, const char* name),
             (address, bytes, module, name))

VRAM_SIM_ONE(cuLinkCreate, link_create,
             (unsigned count, CUjit_option* options, void** values, CUlinkState* state),
             (count, options, values, state))
VRAM_SIM_ONE(cuLinkCreate_v2, link_create,
             (unsigned count, CUjit_option* options, void** values, CUlinkState* state),
             (count, options, values, state))
VRAM_SIM_ONE(cuLinkAddData, link_add,
             (CUlinkState state, CUjitInputType type, void* data, size_t bytes, const char* name,
              unsigned count, CUjit_option* options, void** values),
             (state, type, data, bytes, name, count, options, values))
VRAM_SIM_ONE(cuLinkAddData_v2, link_add,
             (CUlinkState state, CUjitInputType type, void* data, size_t bytes, const char* name,
              unsigned count, CUjit_option* options, void** values),
             (state, type, data, bytes, name, count, options, values))
VRAM_SIM_ONE(cuLinkAddFile, link_add_file,
             (CUlinkState state, CUjitInputType type, const char* path, unsigned count,
              CUjit_option* options, void** values),
             (state, type, path, count, options, values))
VRAM_SIM_ONE(cuLinkAddFile_v2, link_add_file,
             (CUlinkState state, CUjitInputType type, const char* path, unsigned count,
              CUjit_option* options, void** values),
             (state, type, path, count, options, values))
VRAM_SIM_ONE(cuLinkComplete, link_complete, (CUlinkState state, void** image, size_t* bytes),
             (state, image, bytes))
VRAM_SIM_ONE(cuLinkDestroy, link_destroy, (CUlinkState state), (state))

}  // extern "C"
