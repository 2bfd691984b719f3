#pragma once

// What CUDA's stand-in needs of NVML's in the same process. Exported by it under these names;
// absent when it is not loaded.

// Answers a dlopen of one of NVML's names.
extern "C" [[gnu::visibility("default")]] void* vram_nvml_open(const char* file_name, int flags,
                                                               int* handled);

// NVML's own function of this name, which no lookup finds any more once its exports lead to what a
// program is shown. Null: there is none.
extern "C" [[gnu::visibility("default")]] void* vram_nvml_real(const char* name);
