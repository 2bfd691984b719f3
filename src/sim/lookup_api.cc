// Entry points: finding functions, naming errors.
#include <cuda.h>

#include <algorithm>
#include <cstring>

#include "sim/errors.h"
#include "sim/proc_table.h"

using namespace vram::sim;

namespace {

struct Found {
  void (*symbol)() = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

// The newest symbol of the name that `version` may see; a per-thread variant where it is wanted
// and there is one.
Found find_symbol(const char* name, int version, bool per_thread) {
  const ProcRow* const end = kProcTable + kProcTableSize;
  const ProcRow* row = std::lower_bound(
      kProcTable, end, name,
      [](const ProcRow& left, const char* right) { return std::strcmp(left.name, right) < 0; });
  Found found;
  bool found_per_thread = false;
  for (; row != end && std::strcmp(row->name, name) == 0; ++row) {
    if (found.symbol == nullptr) found.status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (row->version > version || (row->per_thread && !per_thread)) continue;
    if (found_per_thread && !row->per_thread) continue;
    found_per_thread = row->per_thread;
    found = {row->symbol, CU_GET_PROC_ADDRESS_SUCCESS};
  }
  return found;
}

bool flags_ok(cuuint64_t flags) {
  return flags == CU_GET_PROC_ADDRESS_DEFAULT || flags == CU_GET_PROC_ADDRESS_LEGACY_STREAM ||
         flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
}

const ErrorRow* find_error(CUresult error) {
  for (size_t i = 0; i < kErrorCount; ++i) {
    if (kErrors[i].value == static_cast<int>(error)) return &kErrors[i];
  }
  return nullptr;
}

}  // namespace

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  if (symbol == nullptr || function == nullptr || !flags_ok(flags)) return CUDA_ERROR_INVALID_VALUE;
  const Found found =
      find_symbol(symbol, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  *function = reinterpret_cast<void*>(found.symbol);
  return found.symbol != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr || !flags_ok(flags)) return CUDA_ERROR_INVALID_VALUE;
  const Found found =
      find_symbol(symbol, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  *function = reinterpret_cast<void*>(found.symbol);
  if (status != nullptr) *status = found.status;
  // Without a status to tell it by, the result has to.
  return found.symbol != nullptr || status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// The private tables of the vendor's runtime library are not simulated.
CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorRow* const row = find_error(error);
  *text = row == nullptr ? nullptr : row->name;
  return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorRow* const row = find_error(error);
  *text = row == nullptr ? nullptr : row->words;
  return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
