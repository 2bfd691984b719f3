// Modules and libraries: their code and global variables take memory when they are loaded, and
// nobody knows how much before. It is measured afterwards; over the limit, the module is unloaded
// again and the load is out of memory.

#include "interpose/export.h"
#include "interpose/measure.h"
#include "interpose/room.h"

namespace vram::interpose {
namespace {

using driver::real;

// Measures every card; true when this process's share of one grew to more than it may be.
bool grew_too_much() {
  Process& self = process();
  bool over = false;
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    Device& device = self.device[d];
    const std::uint64_t before = device.account.context_bytes();
    if (!measure(device)) continue;
    const bool grew = device.account.context_bytes() > before;
    over = over || (grew && is_too_much(device));
  }
  return over;
}

// More than the code of most modules.
constexpr std::uint64_t kCode = 64 * kMiB;

template <typename Load>
CUresult load_in_room(Load load) {
  Here here{};
  return locate(&here) ? with_room(*here.device, kCode, load) : load();
}

template <typename Load, typename Unload>
CUresult load_measured(Load load, Unload unload) {
  const CUresult result = load_in_room(load);
  if (result != CUDA_SUCCESS || !joined()) return result;
  if (!grew_too_much()) return result;
  unload();
  (void)grew_too_much();
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult measured(CUresult result) {
  if (result == CUDA_SUCCESS && joined()) (void)grew_too_much();
  return result;
}

}  // namespace
}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuModuleLoad(CUmodule* module, const char* file) {
  VRAM_ENTER(cuModuleLoad, module, file);
  return load_measured([&] { return real.cuModuleLoad(module, file); },
                       [&] { return real.cuModuleUnload(*module); });
}

VRAM_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  VRAM_ENTER(cuModuleLoadData, module, image);
  return load_measured([&] { return real.cuModuleLoadData(module, image); },
                       [&] { return real.cuModuleUnload(*module); });
}

VRAM_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                                        CUjit_option* options, void** values) {
  VRAM_ENTER(cuModuleLoadDataEx, module, image, count, options, values);
  return load_measured(
      [&] { return real.cuModuleLoadDataEx(module, image, count, options, values); },
      [&] { return real.cuModuleUnload(*module); });
}

VRAM_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* module, const void* binary) {
  VRAM_ENTER(cuModuleLoadFatBinary, module, binary);
  return load_measured([&] { return real.cuModuleLoadFatBinary(module, binary); },
                       [&] { return real.cuModuleUnload(*module); });
}

VRAM_EXPORT CUresult cuModuleUnload(CUmodule module) {
  VRAM_ENTER(cuModuleUnload, module);
  return measured(real.cuModuleUnload(module));
}

VRAM_EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* code,
                                       CUjit_option* jit_options, void** jit_values,
                                       unsigned jit_count, CUlibraryOption* options, void** values,
                                       unsigned count) {
  VRAM_ENTER(cuLibraryLoadData, library, code, jit_options, jit_values, jit_count, options, values,
             count);
  return load_measured(
      [&] {
        return real.cuLibraryLoadData(library, code, jit_options, jit_values, jit_count, options,
                                      values, count);
      },
      [&] { return real.cuLibraryUnload(*library); });
}

VRAM_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* file,
                                           CUjit_option* jit_options, void** jit_values,
                                           unsigned jit_count, CUlibraryOption* options,
                                           void** values, unsigned count) {
  VRAM_ENTER(cuLibraryLoadFromFile, library, file, jit_options, jit_values, jit_count, options,
             values, count);
  return load_measured(
      [&] {
        return real.cuLibraryLoadFromFile(library, file, jit_options, jit_values, jit_count,
                                          options, values, count);
      },
      [&] { return real.cuLibraryUnload(*library); });
}

VRAM_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  VRAM_ENTER(cuLibraryUnload, library);
  return measured(real.cuLibraryUnload(library));
}

// Loading is lazy by default: a kernel's code, and its library's variables, reach the card when the
// kernel is first asked for.
VRAM_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  VRAM_ENTER(cuModuleGetFunction, function, module, name);
  return measured(load_in_room([&] { return real.cuModuleGetFunction(function, module, name); }));
}

VRAM_EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  VRAM_ENTER(cuKernelGetFunction, function, kernel);
  return measured(load_in_room([&] { return real.cuKernelGetFunction(function, kernel); }));
}
