// Memory that another interface takes on the card, as Vulkan does: the simulated driver's own
// functions, which are no part of CUDA (src/sim/external_memory_api.cc).
#pragma once

#include <dlfcn.h>

#include "program.h"

struct Foreign {
  std::uint64_t memory = 0;
  int descriptor = -1;
};

template <typename Function>
Function* of_simulator(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(driver != nullptr);
  void* const function = dlsym(driver, name);
  CHECK(function != nullptr);
  return reinterpret_cast<Function*>(function);
}

inline Foreign take_foreign(std::size_t bytes) {
  const auto take = of_simulator<CUresult(CUdevice, std::size_t, std::uint64_t*, int*)>(
      "vram_sim_foreign_memory");
  Foreign made;
  OK(take(0, bytes, &made.memory, &made.descriptor));
  return made;
}

inline void free_foreign(const Foreign& foreign) {
  OK(of_simulator<CUresult(std::uint64_t)>("vram_sim_free_foreign_memory")(foreign.memory));
}

inline CUDA_EXTERNAL_MEMORY_HANDLE_DESC foreign_memory(int descriptor, std::size_t bytes) {
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory = {};
  memory.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  memory.handle.fd = descriptor;
  memory.size = bytes;
  return memory;
}
