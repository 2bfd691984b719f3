#pragma once

// What dlopen.cc needs of another stand-in in the same process: NVML's answers for its own names.
// Exported by it under this name; absent when it is not loaded.

extern "C" void* vram_nvml_open(const char* file_name, int flags, int* handled);
