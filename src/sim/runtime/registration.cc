// What nvcc puts into a program to make its device code known: __cudaRegister….
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/runtime/runtime.h"

struct uint3;

namespace vram::sim::runtime {
namespace {

// A variable in managed memory, which the host reaches through a pointer that we set.
struct Managed {
  void** host;
  size_t bytes;
};

struct FatBinary {
  const void* image = nullptr;
  std::vector<Managed> managed;  // those without memory yet
  CUlibrary library = nullptr;   // null until something in it is used
};

struct Symbol {
  FatBinary* binary = nullptr;
  std::string name;
  size_t bytes = 0;
  CUkernel kernel = nullptr;  // of a function, once it has been looked up
};

struct Registered {
  std::recursive_mutex mutex;
  std::vector<std::unique_ptr<FatBinary>> binaries;
  std::unordered_map<const void*, Symbol> functions;  // by the address of the host's stub
  std::unordered_map<const void*, Symbol> variables;  // by the address of the host's shadow
};

Registered& registered() {
  static auto* const instance = new Registered;
  return *instance;
}

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<CallConfiguration> configurations;

CUresult library_of(FatBinary& binary, CUlibrary* out) {
  if (binary.library == nullptr) {
    VRAM_RT_TRY(
        cuLibraryLoadData(&binary.library, binary.image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  *out = binary.library;
  return CUDA_SUCCESS;
}

FatBinary* binary_of(void** handle) { return reinterpret_cast<FatBinary*>(handle); }

void add_variable(void** handle, const void* host, const char* name, size_t bytes) {
  const std::lock_guard held(registered().mutex);
  registered().variables[host] = {binary_of(handle), name, bytes, nullptr};
}

void forget(std::unordered_map<const void*, Symbol>* symbols, const FatBinary* binary) {
  std::erase_if(*symbols, [&](const auto& entry) { return entry.second.binary == binary; });
}

}  // namespace

CUresult kernel_of(const void* host_function, CUkernel* out) {
  const std::lock_guard held(registered().mutex);
  const auto found = registered().functions.find(host_function);
  if (found == registered().functions.end()) {
    return static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
  }
  Symbol& symbol = found->second;
  if (symbol.kernel == nullptr) {
    CUlibrary library = nullptr;
    VRAM_RT_TRY(library_of(*symbol.binary, &library));
    VRAM_RT_TRY(cuLibraryGetKernel(&symbol.kernel, library, symbol.name.c_str()));
  }
  *out = symbol.kernel;
  return CUDA_SUCCESS;
}

CUresult variable_of(const void* host_variable, CUdeviceptr* address, size_t* bytes) {
  const std::lock_guard held(registered().mutex);
  const auto found = registered().variables.find(host_variable);
  if (found == registered().variables.end()) {
    return static_cast<CUresult>(cudaErrorInvalidSymbol);
  }
  CUlibrary library = nullptr;
  VRAM_RT_TRY(library_of(*found->second.binary, &library));
  return cuLibraryGetGlobal(address, bytes, library, found->second.name.c_str());
}

}  // namespace vram::sim::runtime

using namespace vram::sim::runtime;

extern "C" {

void** __cudaRegisterFatBinary(void* image) {
  const std::lock_guard held(registered().mutex);
  auto binary = std::make_unique<FatBinary>();
  binary->image = image;
  registered().binaries.push_back(std::move(binary));
  return reinterpret_cast<void**>(registered().binaries.back().get());
}

void __cudaRegisterFatBinaryEnd(void**) {}

// The driver may be gone by now, and gives the library back itself.
void __cudaUnregisterFatBinary(void** handle) {
  const std::lock_guard held(registered().mutex);
  forget(&registered().functions, binary_of(handle));
  forget(&registered().variables, binary_of(handle));
  if (binary_of(handle)->library != nullptr) {
    static_cast<void>(cuLibraryUnload(binary_of(handle)->library));
  }
  std::erase_if(registered().binaries,
                [&](const auto& binary) { return binary.get() == binary_of(handle); });
}

// Called before the program's first access to a managed variable. Kernels of the simulator do not
// read variables, so that the host's memory need not be the image's.
char __cudaInitModule(void** handle) {
  if (use_device() != CUDA_SUCCESS) return 0;
  const std::lock_guard held(registered().mutex);
  for (const Managed& variable : std::exchange(binary_of(handle)->managed, {})) {
    CUdeviceptr address = 0;
    if (cuMemAllocManaged(&address, variable.bytes, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS) return 0;
    *variable.host = reinterpret_cast<void*>(address);
  }
  return 1;
}

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  const std::lock_guard held(registered().mutex);
  registered().functions[host] = {binary_of(handle), name, 0, nullptr};
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t bytes, int,
                       int) {
  add_variable(handle, host, name, bytes);
}

void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int,
                              size_t bytes, int, int) {
  add_variable(handle, host, name, bytes);
  const std::lock_guard held(registered().mutex);
  binary_of(handle)->managed.push_back({host, bytes});
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  const CallConfiguration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* host_function) {
  return finish([&]() -> CUresult {
    VRAM_RT_TRY(use_device());
    return kernel_of(host_function, reinterpret_cast<CUkernel*>(out));
  }());
}

}  // extern "C"
