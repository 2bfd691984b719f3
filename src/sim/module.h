// Modules, libraries, kernels and functions.
//
// Model. An image is read once. A module is an image loaded into one context: its variables take
// card memory there, its kernels have functions. A library is an image loaded into no context; it
// becomes a module in each context that uses it. Handles are addresses of the objects; the registry
// keeps functions alive while a launch that names them is queued. Threads: any.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "sim/context.h"
#include "sim/image.h"

namespace vram::sim {

struct Module;
struct Library;
struct Kernel;

// The attributes that the program has set.
struct KernelAttributes {
  std::mutex mutex;
  std::map<CUfunction_attribute, int> set;
  std::weak_ptr<Kernel> kernel;  // that the function was made from, if it was
};

struct Function {
  Context* context = nullptr;
  std::weak_ptr<Module> module;
  KernelInfo info;
  KernelAttributes attributes;

  [[nodiscard]] CUfunction handle() const {
    return reinterpret_cast<CUfunction>(const_cast<Function*>(this));
  }
};

struct Module : std::enable_shared_from_this<Module> {
  Context* context = nullptr;
  std::shared_ptr<const Image> image;
  std::weak_ptr<Library> library;  // empty for a module that the program loaded itself
  CUdeviceptr base = 0;            // of its variables, 0 where it has none
  std::map<std::string, std::pair<CUdeviceptr, size_t>, std::less<>> globals;
  std::map<std::string, std::shared_ptr<Function>, std::less<>> functions;  // those asked for

  [[nodiscard]] CUmodule handle() const {
    return reinterpret_cast<CUmodule>(const_cast<Module*>(this));
  }
};

struct Kernel {
  std::weak_ptr<Library> library;
  KernelInfo info;
  std::mutex mutex;
  std::map<std::pair<int, CUfunction_attribute>, int> attributes;  // by device

  [[nodiscard]] CUkernel handle() const {
    return reinterpret_cast<CUkernel>(const_cast<Kernel*>(this));
  }
};

struct Library : std::enable_shared_from_this<Library> {
  std::shared_ptr<const Image> image;
  std::map<std::string, std::shared_ptr<Kernel>, std::less<>> kernels;  // those asked for
  std::map<const Context*, std::shared_ptr<Module>> modules;

  [[nodiscard]] CUlibrary handle() const {
    return reinterpret_cast<CUlibrary>(const_cast<Library*>(this));
  }
};

[[nodiscard]] CUresult load_module(Context& context, std::shared_ptr<const Image> image,
                                   std::shared_ptr<Module>* out);
[[nodiscard]] CUresult unload_module(CUmodule handle);
[[nodiscard]] std::shared_ptr<Module> find_module(CUmodule handle);

[[nodiscard]] std::shared_ptr<Library> load_library(std::shared_ptr<const Image> image);
[[nodiscard]] CUresult unload_library(CUlibrary handle);
[[nodiscard]] std::shared_ptr<Library> find_library(CUlibrary handle);
// The library's module in the context, loaded now if need be.
[[nodiscard]] CUresult module_of(Library& library, Context& context, std::shared_ptr<Module>* out);

// CUDA_ERROR_NOT_FOUND when the image has no kernel of that name.
[[nodiscard]] CUresult get_function(Module& module, std::string_view name,
                                    std::shared_ptr<Function>* out);
[[nodiscard]] CUresult get_kernel(Library& library, std::string_view name,
                                  std::shared_ptr<Kernel>* out);
[[nodiscard]] std::shared_ptr<Kernel> find_kernel(CUkernel handle);

// A CUfunction, or a CUkernel taken for what it is in `context`: CUDA lets either be launched.
[[nodiscard]] CUresult find_function(CUfunction handle, Context& context,
                                     std::shared_ptr<Function>* out);

}  // namespace vram::sim
