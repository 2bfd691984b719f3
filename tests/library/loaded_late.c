/* usage: loaded_late LIBVRAM LIBRARY...: loads the others first, then libvram, and allocates from
 * another thread. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/types.h>

typedef void* (*alloc_function)(ssize_t, int, void*);
typedef void (*free_function)(void*, ssize_t, int, void*);

static void* vram;

static void* load(const char* path) {
  void* handle = dlopen(path, RTLD_NOW);
  if (handle == NULL) printf("%s\n", dlerror());
  return handle;
}

static void* work(void* unused) {
  alloc_function alloc = (alloc_function)dlsym(vram, "vram_torch_pool_alloc");
  free_function release = (free_function)dlsym(vram, "vram_torch_free");
  void* block = alloc(1000, 0, NULL);
  release(block, 1000, 0, NULL);
  (void)unused;
  return block;
}

int main(int argc, char** argv) {
  pthread_t thread;
  void* block = NULL;
  for (int i = 2; i < argc; ++i) {
    if (load(argv[i]) == NULL) return 1;
  }
  vram = load(argv[1]);
  if (vram == NULL) return 1;
  if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, &block) != 0) return 1;
  /* And once more in this thread, which was there before the library. */
  if (block == NULL || work(NULL) == NULL) return 1;
  dlclose(vram);
  return 0;
}
