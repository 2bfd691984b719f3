/* The frameworks' functions and the C interface from C99, as a program that knows only the headers.
 * usage: c99 one|two: the device's number. Exit status 0: all is as promised. */
#include <stdio.h>
#include <string.h>
#include <vram/frameworks.h>
#include <vram/vram.h>

#define MIB ((uint64_t)1 << 20)

static int faults = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  printf("%s; last error: %s\n", what, vram_last_error());
  ++faults;
}

static void check_frameworks(int device) {
  void* a = vram_torch_alloc((ssize_t)(100 * MIB), device, NULL);
  void* b = vram_torch_pool_alloc(1000, device, NULL);
  void* c = vram_cupy_malloc(NULL, 1000, device);
  vram_pool* pool = NULL;
  vram_pool_info info = VRAM_POOL_INFO_INIT;
  expect(a != NULL && b != NULL && c != NULL, "memory for everybody");
  expect(a != b && b != c, "of its own");
  expect(vram_framework_pool(device, &pool) == VRAM_OK, "the pool");
  expect(vram_pool_get_info(pool, &info) == VRAM_OK && info.live_blocks == 3, "three blocks");
  vram_torch_record_stream(NULL, NULL);
  vram_torch_free(a, (ssize_t)(100 * MIB), device, NULL);
  vram_torch_free(b, 1000, device, NULL);
  vram_cupy_free(NULL, c, device);
  vram_cupy_free(NULL, c, device);
  vram_torch_reset();
  expect(vram_pool_get_info(pool, &info) == VRAM_OK && info.reserved == 0, "all given back");
}

static void check_pool(int device) {
  vram_pool_options options = VRAM_POOL_OPTIONS_INIT;
  vram_pool* pool = NULL;
  void* block = NULL;
  char text[4096];
  options.device = device;
  options.kind = VRAM_POOL_BFC;
  options.flags = VRAM_POOL_GREEDY;
  options.limit = 256 * MIB;
  expect(vram_pool_create(&options, &pool) == VRAM_OK, "a pool");
  expect(vram_pool_allocate(pool, MIB, NULL, &block) == VRAM_OK, "a block");
  expect(vram_pool_allocate(pool, 256 * MIB, NULL, &block) == VRAM_OUT_OF_MEMORY, "a refusal");
  expect(vram_pool_report(pool, MIB, text, sizeof text) > 100, "a report");
  expect(strstr(text, "reserved") != NULL, "with numbers");
  vram_pool_destroy(pool);
}

int main(int argc, char** argv) {
  const int device = argc > 1 && strcmp(argv[1], "two") == 0;
  check_frameworks(device);
  check_pool(device);
  return faults != 0;
}
