/* A pool of one's own, in C: a cap of 1 GiB, a refusal that is survived, memory given back. */
#include <inttypes.h>
#include <stdio.h>
#include <vram/vram.h>

#define MIB ((uint64_t)1 << 20)

static int failed(const char* what, vram_status status) {
  fprintf(stderr, "c_pool: %s: %s: %s\n", what, vram_status_text(status), vram_last_error());
  return 1;
}

int main(void) {
  vram_pool_options options = VRAM_POOL_OPTIONS_INIT;
  vram_pool_info info = VRAM_POOL_INFO_INIT;
  vram_pool* pool = NULL;
  vram_status status;
  void* weights = NULL;
  void* batch = NULL;
  uint64_t given_back = 0;

  options.limit = 1024 * MIB;
  status = vram_pool_create(&options, &pool);
  if (status != VRAM_OK) return failed("create", status);

  status = vram_pool_allocate(pool, 600 * MIB, NULL, &weights);
  if (status != VRAM_OK) return failed("allocate", status);

  status = vram_pool_allocate(pool, 600 * MIB, NULL, &batch);
  if (status != VRAM_OUT_OF_MEMORY) return failed("the limit", status);
  printf("refused: %s\n", vram_last_error());

  status = vram_pool_free(pool, weights, NULL);
  if (status != VRAM_OK) return failed("free", status);
  status = vram_pool_trim(pool, 0, &given_back);
  if (status != VRAM_OK) return failed("trim", status);
  status = vram_pool_get_info(pool, &info);
  if (status != VRAM_OK) return failed("info", status);
  printf("gave back %" PRIu64 " MiB, holds %" PRIu64 " MiB\n", given_back / MIB,
         info.reserved / MIB);

  vram_pool_destroy(pool);
  return 0;
}
