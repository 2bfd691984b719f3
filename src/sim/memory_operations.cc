#include "sim/memory_operations.h"

#include <time.h>

#include <cstdint>

#include "sim/card_view.h"
#include "sim/memory.h"
#include "sim/scheduler.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

// How often a waiting stream looks; the card polls too.
constexpr timespec kPollInterval{0, 20000};

constexpr unsigned kBatchLimit = 256;

struct Word {
  CUdeviceptr address;
  size_t bytes;
};

bool word_of(const CUstreamBatchMemOpParams& operation, Word* out) {
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      *out = {operation.waitValue.address, 4};
      return true;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      *out = {operation.waitValue.address, 8};
      return true;
    default:
      return false;
  }
}

// A driver takes mapped memory and ordinary allocations for this, not stream-ordered ones.
bool may_hold_word(const Word& word) {
  Allocation allocation;
  return word.address % word.bytes == 0 && host_view(word.address, word.bytes) != nullptr &&
         find_allocation(word.address, &allocation) && allocation.kind != MemoryKind::kPool;
}

bool has_word(const CUstreamBatchMemOpParams& operation) {
  return operation.operation != CU_STREAM_MEM_OP_BARRIER &&
         operation.operation != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
}

template <typename T>
bool holds(const T* word, T value, unsigned flags) {
  const T now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  switch (flags & ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH)) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return static_cast<T>(~(now | value)) != 0;
    default:  // GEQ, cyclic
      return static_cast<std::make_signed_t<T>>(now - value) >= 0;
  }
}

template <typename T>
void wait_until(const T* word, T value, unsigned flags) {
  while (!holds(word, value, flags) && !operation_cancelled()) nanosleep(&kPollInterval, nullptr);
}

CUresult run_one(const CUstreamBatchMemOpParams& operation) {
  Word word;
  if (!word_of(operation, &word)) return CUDA_SUCCESS;
  void* view = card_view(word.address, word.bytes);
  if (view == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      wait_until(static_cast<uint32_t*>(view), operation.waitValue.value,
                 operation.waitValue.flags);
      break;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      wait_until(static_cast<uint64_t*>(view), uint64_t{operation.waitValue.value64},
                 operation.waitValue.flags);
      break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      __atomic_store_n(static_cast<uint32_t*>(view), operation.writeValue.value, __ATOMIC_RELEASE);
      break;
    default:
      __atomic_store_n(static_cast<uint64_t*>(view), uint64_t{operation.writeValue.value64},
                       __ATOMIC_RELEASE);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult check_memory_operations(const CUstreamBatchMemOpParams* operations, unsigned count) {
  if (operations == nullptr || count > kBatchLimit) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (!has_word(operations[i])) continue;
    Word word;
    if (!word_of(operations[i], &word)) return CUDA_ERROR_INVALID_VALUE;
    if (!may_hold_word(word)) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult run_memory_operations(const std::vector<CUstreamBatchMemOpParams>& operations) {
  for (const CUstreamBatchMemOpParams& operation : operations) {
    VRAM_SIM_TRY(run_one(operation));
  }
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
