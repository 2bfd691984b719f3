// One piece of physical memory. Internal to the virtual memory family, which locks for it.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace vram::sim {

struct Physical {
  CUmemGenericAllocationHandle handle = 0;
  uint64_t bytes = 0;
  CUmemAllocationProp properties{};
  int device = -1;           // -1: host memory, which no card is charged for
  int own_file = -1;         // -1: a part of the process's file
  uint64_t offset = 0;       // in the process's file
  uint64_t object = 0;       // of the machine, once it is exported or when it is imported
  uint64_t file_object = 0;  // what its own file stands for, exported or not
  unsigned references = 0;
  unsigned mappings = 0;

  [[nodiscard]] int file() const;
};

// Takes the memory from the card and gives it a file. CUDA_ERROR_OUT_OF_MEMORY leaves nothing.
[[nodiscard]] CUresult take_memory(Physical& physical);
// Gives back what the process holds of it; other processes may go on.
void give_memory(Physical& physical);

// Makes it an object of the machine, if it is none.
[[nodiscard]] CUresult make_object(Physical& physical);
// Fills in a piece that `descriptor` stands for and charges it; CUDA_ERROR_INVALID_VALUE when it is
// none of this machine, CUDA_ERROR_INVALID_DEVICE when its card is not visible here.
[[nodiscard]] CUresult adopt(int descriptor, Physical* out);
// The object a descriptor stands for, 0 for none.
[[nodiscard]] uint64_t object_behind(int descriptor);

}  // namespace vram::sim
