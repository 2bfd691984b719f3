#include "sim/external_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/address_space.h"
#include "sim/driver.h"
#include "sim/file_range.h"
#include "sim/identity.h"
#include "sim/memory.h"
#include "sim/memory_file.h"
#include "sim/registry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

struct Import {
  Context* context = nullptr;
  int file = -1;
  uint64_t object = 0;
  uint64_t bytes = 0;
};

struct Family {
  std::mutex mutex;
  std::map<uint64_t, unsigned> users;  // of an object that this process holds
  std::map<CUexternalMemory, std::unique_ptr<Import>> imports;
  std::map<CUdeviceptr, FileRange> buffers;
};

void end_imports_of(Context& context);

Family& family() {
  static Family* const instance = [] {
    add_context_destroyed_hook(end_imports_of);
    return new Family;
  }();
  return *instance;
}

// These two: the caller holds the lock.
CUresult use(const MemoryFile& memory) {
  unsigned& users = family().users[memory.object];
  if (users == 0 && driver().machine->hold_or_create(memory.object, memory.card,
                                                     round_up(memory.bytes, kPieceBytes)) !=
                        Machine::HoldStatus::kOk) {
    family().users.erase(memory.object);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++users;
  return CUDA_SUCCESS;
}

void end_use(uint64_t object) {
  const auto found = family().users.find(object);
  if (--found->second != 0) return;
  family().users.erase(found);
  driver().machine->drop(object);
}

void end_import(const Import& import) {
  ::close(import.file);
  end_use(import.object);
}

void end_imports_of(Context& context) {
  const std::lock_guard held(family().mutex);
  std::erase_if(family().imports, [&](const auto& entry) {
    if (entry.second->context != &context) return false;
    end_import(*entry.second);
    return true;
  });
}

}  // namespace

CUresult make_foreign(int device, size_t bytes, uint64_t* memory, int* descriptor) {
  const int file = new_memory_file(kForeignFile, card_of(device), bytes);
  MemoryFile made;
  if (file < 0 || !memory_behind(kForeignFile, file, &made)) return CUDA_ERROR_OPERATING_SYSTEM;
  const std::lock_guard held(family().mutex);
  if (const CUresult result = use(made); result != CUDA_SUCCESS) {
    ::close(file);
    return result;
  }
  *memory = made.object;
  *descriptor = file;
  return CUDA_SUCCESS;
}

CUresult free_foreign(uint64_t memory) {
  const std::lock_guard held(family().mutex);
  if (!family().users.contains(memory)) return CUDA_ERROR_INVALID_VALUE;
  end_use(memory);
  return CUDA_SUCCESS;
}

CUresult import_external(Context& context, int descriptor, uint64_t bytes, CUexternalMemory* out) {
  MemoryFile memory;
  if (!memory_behind(kForeignFile, descriptor, &memory)) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes > memory.bytes || memory.card != card_of(context.device)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard held(family().mutex);
  VRAM_SIM_TRY(use(memory));
  auto import = std::make_unique<Import>(Import{&context, descriptor, memory.object, bytes});
  *out = reinterpret_cast<CUexternalMemory>(import.get());
  family().imports[*out] = std::move(import);
  return CUDA_SUCCESS;
}

CUresult map_external(CUexternalMemory handle, uint64_t offset, uint64_t bytes, CUdeviceptr* out) {
  const std::lock_guard held(family().mutex);
  const auto found = family().imports.find(handle);
  if (found == family().imports.end()) return CUDA_ERROR_INVALID_HANDLE;
  const Import& import = *found->second;
  if (bytes == 0 || offset > import.bytes || bytes > import.bytes - offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.kind = MemoryKind::kExternal;
  allocation.device = import.context->device;
  allocation.context = import.context;
  FileRange buffer;
  VRAM_SIM_TRY(map_file_range(import.file, offset, &allocation, &buffer));
  family().buffers[allocation.base] = buffer;
  *out = allocation.base;
  return CUDA_SUCCESS;
}

CUresult destroy_external(CUexternalMemory handle) {
  const std::lock_guard held(family().mutex);
  const auto found = family().imports.find(handle);
  if (found == family().imports.end()) return CUDA_ERROR_INVALID_HANDLE;
  end_import(*found->second);
  family().imports.erase(found);
  return CUDA_SUCCESS;
}

CUresult free_external_buffer(CUdeviceptr base) {
  const std::lock_guard held(family().mutex);
  const auto found = family().buffers.find(base);
  Allocation allocation;
  if (found == family().buffers.end() ||
      !take_allocation(base, MemoryKind::kExternal, &allocation)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  unmap_file_range(found->second);
  family().buffers.erase(found);
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
