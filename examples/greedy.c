// Takes GPU memory until the driver refuses, through the CUDA driver API alone. Any program that
// does the same sees the same: nothing here knows of vram.
//
// usage: greedy [--take MIB] [--ready FILE] [--until FILE]
//   --take MIB    stop after so much instead of going on until refused
//   --ready FILE  create FILE when the memory is held
//   --until FILE  keep the memory until FILE exists
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The driver is loaded at run time, so that this program builds where no driver is installed.
// cuda.h renames calls to their current version (cuMemAlloc to cuMemAlloc_v2); so do these macros.
#define NAME_OF(call) #call
#define DRIVER(call) ((__typeof__(&call))driver_call(NAME_OF(call)))

enum { kMiB = 1 << 20, kLargestMiB = 256, kSmallestMiB = 2, kMaxBlocks = 4096 };

static void fail(const char* what, const char* why) {
  fprintf(stderr, "greedy: %s: %s\n", what, why);
  exit(1);
}

static void* driver_call(const char* name) {
  static void* driver;
  if (driver == NULL) driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) fail("no NVIDIA driver", dlerror());
  void* call = dlsym(driver, name);
  if (call == NULL) fail(name, "the driver does not have it");
  return call;
}

static void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = "unknown error";
  DRIVER(cuGetErrorString)(result, &text);
  fail(what, text);
}

static void show_memory(const char* when) {
  size_t available = 0, total = 0;
  check(DRIVER(cuMemGetInfo)(&available, &total), "cuMemGetInfo");
  printf("greedy %d: %s: %zu MiB of %zu MiB free\n", getpid(), when, available / kMiB,
         total / kMiB);
}

// Takes blocks, smaller ones as large ones are refused, until wanted_mib are held or 2 MiB is
// refused. Returns what it holds, in MiB.
static size_t take(size_t wanted_mib) {
  size_t held = 0, block = kLargestMiB;
  for (int blocks = 0; held < wanted_mib && block >= kSmallestMiB && blocks < kMaxBlocks;) {
    if (block > wanted_mib - held) block = wanted_mib - held;
    CUdeviceptr memory = 0;
    CUresult result = DRIVER(cuMemAlloc)(&memory, block * kMiB);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      block /= 2;
      continue;
    }
    check(result, "cuMemAlloc");
    held += block;
    ++blocks;
  }
  return held;
}

static void create(const char* path) {
  FILE* file = fopen(path, "w");
  if (file == NULL) fail(path, "cannot be created");
  fclose(file);
}

int main(int argc, char** argv) {
  size_t wanted = (size_t)-1;
  const char* ready = NULL;
  const char* until = NULL;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) fail(argv[i], "needs a value");
    if (strcmp(argv[i], "--take") == 0) {
      wanted = strtoul(argv[i + 1], NULL, 10);
    } else if (strcmp(argv[i], "--ready") == 0) {
      ready = argv[i + 1];
    } else if (strcmp(argv[i], "--until") == 0) {
      until = argv[i + 1];
    } else {
      fail(argv[i], "unknown option");
    }
  }

  CUdevice device;
  CUcontext context;
  check(DRIVER(cuInit)(0), "cuInit");
  check(DRIVER(cuDeviceGet)(&device, 0), "cuDeviceGet");
  check(DRIVER(cuDevicePrimaryCtxRetain)(&context, device), "cuDevicePrimaryCtxRetain");
  check(DRIVER(cuCtxSetCurrent)(context), "cuCtxSetCurrent");

  show_memory("context made");
  size_t held = take(wanted);
  printf("greedy %d: took %zu MiB%s\n", getpid(), held,
         held < wanted ? ", then: out of memory" : "");
  show_memory("now");
  fflush(stdout);

  if (ready != NULL) create(ready);
  while (until != NULL && access(until, F_OK) != 0) usleep(10000);
  return 0;
}
