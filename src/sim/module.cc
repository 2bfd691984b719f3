#include "sim/module.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "sim/memory.h"
#include "sim/stream.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

// The card places variables at no less than this.
constexpr size_t kGlobalAlignment = 256;

struct Registry {
  std::recursive_mutex mutex;
  std::unordered_map<CUmodule, std::shared_ptr<Module>> modules;
  std::unordered_map<CUlibrary, std::shared_ptr<Library>> libraries;
  std::unordered_map<CUfunction, std::shared_ptr<Function>> functions;
  std::unordered_map<CUkernel, std::shared_ptr<Kernel>> kernels;
};

// Never destroyed: executor threads may outlive main().
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

template <typename Map>
auto lookup(const Map& map, typename Map::key_type key) -> typename Map::mapped_type {
  const std::lock_guard held(registry().mutex);
  const auto found = map.find(key);
  return found == map.end() ? nullptr : found->second;
}

const KernelInfo* info_of(const Image& image, std::string_view name) {
  const auto found = std::find_if(image.kernels.begin(), image.kernels.end(),
                                  [&](const KernelInfo& kernel) { return kernel.name == name; });
  return found == image.kernels.end() ? nullptr : &*found;
}

// What the image says of the kernel; a sealed image is believed to hold any.
bool describe(const Image& image, std::string_view name, KernelInfo* out) {
  if (const KernelInfo* info = info_of(image, name)) {
    *out = *info;
    return true;
  }
  if (!image.is_sealed) return false;
  *out = describe_unseen(name);
  return true;
}

// Gives the module's variables card memory and their first values.
CUresult place_globals(Module& module) {
  size_t bytes = 0;
  for (const GlobalInfo& global : module.image->globals) {
    bytes = round_up(bytes, std::max(global.alignment, kGlobalAlignment)) + global.bytes;
  }
  if (bytes == 0) return CUDA_SUCCESS;
  VRAM_SIM_TRY(device_allocate(*module.context, bytes, &module.base));
  size_t offset = 0;
  for (const GlobalInfo& global : module.image->globals) {
    offset = round_up(offset, std::max(global.alignment, kGlobalAlignment));
    module.globals[global.name] = {module.base + offset, global.bytes};
    if (void* view =
            global.initial.empty() ? nullptr : host_view(module.base + offset, global.bytes)) {
      std::memcpy(view, global.initial.data(), std::min(global.initial.size(), global.bytes));
    }
    offset += global.bytes;
  }
  return CUDA_SUCCESS;
}

void forget_module(const std::shared_ptr<Module>& module) {
  Registry& all = registry();
  for (const auto& [name, function] : module->functions) all.functions.erase(function->handle());
  all.modules.erase(module->handle());
}

// The context's memory goes by itself.
void forget_modules_of(Context& context) {
  Registry& all = registry();
  const std::lock_guard held(all.mutex);
  for (auto& [handle, library] : all.libraries) library->modules.erase(&context);
  std::vector<std::shared_ptr<Module>> gone;
  for (const auto& [handle, module] : all.modules) {
    if (module->context == &context) gone.push_back(module);
  }
  for (const auto& module : gone) forget_module(module);
}

[[maybe_unused]] const bool kHooked = [] {
  add_context_destroyed_hook(forget_modules_of);
  return true;
}();

CUresult unload(const std::shared_ptr<Module>& module) {
  {
    const std::lock_guard held(registry().mutex);
    forget_module(module);
  }
  if (module->base == 0) return CUDA_SUCCESS;
  // Kernels that are still queued may use the variables.
  const CUresult result = synchronise_context(*module->context);
  const CUresult freed = device_free(module->base);
  return result != CUDA_SUCCESS ? result : freed;
}

}  // namespace

CUresult load_module(Context& context, std::shared_ptr<const Image> image,
                     std::shared_ptr<Module>* out) {
  auto module = std::make_shared<Module>();
  module->context = &context;
  module->image = std::move(image);
  VRAM_SIM_TRY(place_globals(*module));
  const std::lock_guard held(registry().mutex);
  registry().modules[module->handle()] = module;
  *out = std::move(module);
  return CUDA_SUCCESS;
}

CUresult unload_module(CUmodule handle) {
  const std::shared_ptr<Module> module = find_module(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  return unload(module);
}

std::shared_ptr<Module> find_module(CUmodule handle) { return lookup(registry().modules, handle); }

std::shared_ptr<Library> load_library(std::shared_ptr<const Image> image) {
  auto library = std::make_shared<Library>();
  library->image = std::move(image);
  const std::lock_guard held(registry().mutex);
  registry().libraries[library->handle()] = library;
  return library;
}

CUresult unload_library(CUlibrary handle) {
  std::shared_ptr<Library> library;
  {
    Registry& all = registry();
    const std::lock_guard held(all.mutex);
    library = find_library(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    all.libraries.erase(handle);
    for (const auto& [name, kernel] : library->kernels) all.kernels.erase(kernel->handle());
  }
  CUresult first = CUDA_SUCCESS;
  for (const auto& [context, module] : library->modules) {
    const CUresult result = unload(module);
    if (first == CUDA_SUCCESS) first = result;
  }
  return first;
}

std::shared_ptr<Library> find_library(CUlibrary handle) {
  return lookup(registry().libraries, handle);
}

CUresult module_of(Library& library, Context& context, std::shared_ptr<Module>* out) {
  const std::lock_guard held(registry().mutex);
  std::shared_ptr<Module>& slot = library.modules[&context];
  if (!slot) {
    std::shared_ptr<Module> module;
    if (const CUresult result = load_module(context, library.image, &module);
        result != CUDA_SUCCESS) {
      library.modules.erase(&context);
      return result;
    }
    module->library = library.weak_from_this();
    slot = std::move(module);
  }
  *out = slot;
  return CUDA_SUCCESS;
}

CUresult get_function(Module& module, std::string_view name, std::shared_ptr<Function>* out) {
  const std::lock_guard held(registry().mutex);
  const auto found = module.functions.find(name);
  if (found != module.functions.end()) {
    *out = found->second;
    return CUDA_SUCCESS;
  }
  auto function = std::make_shared<Function>();
  if (!describe(*module.image, name, &function->info)) return CUDA_ERROR_NOT_FOUND;
  function->context = module.context;
  function->module = module.weak_from_this();
  registry().functions[function->handle()] = function;
  module.functions.emplace(name, function);
  *out = std::move(function);
  return CUDA_SUCCESS;
}

CUresult get_kernel(Library& library, std::string_view name, std::shared_ptr<Kernel>* out) {
  const std::lock_guard held(registry().mutex);
  const auto found = library.kernels.find(name);
  if (found != library.kernels.end()) {
    *out = found->second;
    return CUDA_SUCCESS;
  }
  auto kernel = std::make_shared<Kernel>();
  if (!describe(*library.image, name, &kernel->info)) return CUDA_ERROR_NOT_FOUND;
  kernel->library = library.weak_from_this();
  registry().kernels[kernel->handle()] = kernel;
  library.kernels.emplace(name, kernel);
  *out = std::move(kernel);
  return CUDA_SUCCESS;
}

std::shared_ptr<Kernel> find_kernel(CUkernel handle) { return lookup(registry().kernels, handle); }

CUresult find_function(CUfunction handle, Context& context, std::shared_ptr<Function>* out) {
  if (std::shared_ptr<Function> function = lookup(registry().functions, handle)) {
    *out = std::move(function);
    return CUDA_SUCCESS;
  }
  const std::shared_ptr<Kernel> kernel = find_kernel(reinterpret_cast<CUkernel>(handle));
  const std::shared_ptr<Library> library = kernel ? kernel->library.lock() : nullptr;
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Module> module;
  VRAM_SIM_TRY(module_of(*library, context, &module));
  VRAM_SIM_TRY(get_function(*module, kernel->info.name, out));
  const std::lock_guard held((*out)->attributes.mutex);
  (*out)->attributes.kernel = kernel;
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
