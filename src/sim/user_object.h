// References to objects of the program, which graphs hold too.
#pragma once

#include <cuda.h>

namespace vram::sim {

// Gives references back; with the last one the program's destructor runs in the calling thread.
// CUDA_ERROR_INVALID_VALUE when there are not so many.
CUresult release_user_object(CUuserObject handle, unsigned count);

}  // namespace vram::sim
