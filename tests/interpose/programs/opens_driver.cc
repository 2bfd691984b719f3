// A library that opens the driver by itself, as CUDA's runtime does. How it was opened decides
// whose dlopen it calls.
#include <dlfcn.h>

extern "C" void* open_driver(const char* name, int flags) { return dlopen(name, flags); }
