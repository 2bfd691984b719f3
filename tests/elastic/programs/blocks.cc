#include "blocks.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>

namespace scene {
namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;
// Compared at a time, so that a block of any size needs little of the host's memory.
constexpr std::size_t kPiece = std::size_t{16} << 20;

std::size_t whole_granules(std::size_t bytes) {
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

CUmemAllocationProp on_card(CUmemAllocationHandleType shareable) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  prop.requestedHandleTypes = shareable;
  return prop;
}

CUresult allow(CUdeviceptr address, std::size_t bytes) {
  CUmemAccessDesc access = {};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return cuMemSetAccess(address, bytes, &access, 1);
}

// Every handle mapped behind the one before it, in a range of its own.
CUresult map_all(const Block& block, CUdeviceptr* address) {
  CUresult result = cuMemAddressReserve(address, block.bytes, 0, 0, 0);
  std::size_t mapped = 0;
  for (std::size_t i = 0; i < block.handles.size() && result == CUDA_SUCCESS; ++i) {
    result =
        cuMemMap(*address + i * block.handle_bytes, block.handle_bytes, 0, block.handles[i], 0);
    if (result == CUDA_SUCCESS) mapped += block.handle_bytes;
  }
  if (result == CUDA_SUCCESS) result = allow(*address, block.bytes);
  if (result == CUDA_SUCCESS) return result;
  if (mapped != 0) cuMemUnmap(*address, mapped);
  if (*address != 0) cuMemAddressFree(*address, block.bytes);
  *address = 0;
  return result;
}

void release_all(const Block& block) {
  for (const CUmemGenericAllocationHandle handle : block.handles) cuMemRelease(handle);
}

bool keeps_handles(const Block& block) {
  return block.kind == "kept" || block.kind == "alias" || block.kind == "shareable";
}

CUresult take_virtual(Block* block) {
  block->bytes = whole_granules(block->bytes);
  block->handle_bytes = block->kind == "scattered" ? kGranularity : block->bytes;
  const CUmemAllocationProp prop =
      on_card(block->kind == "shareable" ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                         : CU_MEM_HANDLE_TYPE_NONE);
  CUresult result = CUDA_SUCCESS;
  for (std::size_t at = 0; at < block->bytes && result == CUDA_SUCCESS; at += block->handle_bytes) {
    CUmemGenericAllocationHandle handle = 0;
    result = cuMemCreate(&handle, block->handle_bytes, &prop, 0);
    if (result == CUDA_SUCCESS) block->handles.push_back(handle);
  }
  if (result == CUDA_SUCCESS) result = map_all(*block, &block->address);
  if (result == CUDA_SUCCESS && block->kind == "alias") {
    result = map_all(*block, &block->alias);
    if (result != CUDA_SUCCESS) {
      cuMemUnmap(block->address, block->bytes);
      cuMemAddressFree(block->address, block->bytes);
    }
  }
  // As most programs do: the mapping holds the memory.
  if (result != CUDA_SUCCESS || !keeps_handles(*block)) release_all(*block);
  if (result != CUDA_SUCCESS || !keeps_handles(*block)) block->handles.clear();
  return result;
}

CUresult give_back_virtual(Block* block) {
  for (CUdeviceptr* address : {&block->alias, &block->address}) {
    if (*address == 0) continue;
    const CUresult unmapped = cuMemUnmap(*address, block->bytes);
    if (unmapped != CUDA_SUCCESS) return unmapped;
    (void)cuMemAddressFree(*address, block->bytes);
    *address = 0;
  }
  while (!block->handles.empty()) {
    const CUresult released = cuMemRelease(block->handles.back());
    if (released != CUDA_SUCCESS) return released;
    block->handles.pop_back();
  }
  return CUDA_SUCCESS;
}

CUresult take_of_own_pool(Block* block) {
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUresult result = cuMemPoolCreate(&block->pool, &props);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemAllocFromPoolAsync(&block->address, block->bytes, block->pool, nullptr);
  if (result != CUDA_SUCCESS) cuMemPoolDestroy(block->pool);
  return result;
}

CUresult take_pitch(Block* block) {
  constexpr std::size_t kWidth = 1000;
  std::size_t pitch = 0;
  const std::size_t height = block->bytes / kWidth + 1;
  const CUresult result = cuMemAllocPitch(&block->address, &pitch, kWidth, height, 4);
  block->bytes = pitch * height;
  return result;
}

CUresult take_one(Block* block) {
  if (block->kind == "block") return cuMemAlloc(&block->address, block->bytes);
  if (block->kind == "pitch") return take_pitch(block);
  if (block->kind == "async") return cuMemAllocAsync(&block->address, block->bytes, nullptr);
  if (block->kind == "pool") return take_of_own_pool(block);
  if (block->kind == "managed") {
    return cuMemAllocManaged(&block->address, block->bytes, CU_MEM_ATTACH_GLOBAL);
  }
  return take_virtual(block);
}

template <typename Value>
void ask(Value* value, CUpointer_attribute what, CUdeviceptr address) {
  // An answer that is refused stays what it was: that must not change either.
  (void)cuPointerGetAttribute(value, what, address);
}

Told told_of(CUdeviceptr address) {
  Told told;
  if (cuMemGetAddressRange(&told.range, &told.range_bytes, address) != CUDA_SUCCESS) {
    told.range = 0;
    told.range_bytes = 0;
  }
  CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* answers[] = {&told.context, &told.type, &told.ordinal};
  (void)cuPointerGetAttributes(3, what, answers, address);
  ask(&told.pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address);
  ask(&told.managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  ask(&told.start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
  ask(&told.bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
  return told;
}

std::string difference(const Told& was, const Told& is) {
  char text[256];
  std::snprintf(text, sizeof text,
                "other answers: range %llx+%zu was %llx+%zu, pointer %llx was %llx, type %u was "
                "%u, device %d was %d, start %llx was %llx",
                is.range, is.range_bytes, was.range, was.range_bytes, is.pointer, was.pointer,
                is.type, was.type, is.ordinal, was.ordinal, is.start, was.start);
  return text;
}

// A word of the pattern: neighbours and blocks differ, so that what is swapped is noticed.
std::uint64_t word(std::uint32_t seed, std::size_t index) {
  std::uint64_t value = (std::uint64_t{seed} << 40) + index * std::uint64_t{0x9e3779b97f4a7c15} + 1;
  value ^= value >> 29;
  return value * std::uint64_t{0xbf58476d1ce4e5b9};
}

std::vector<std::uint64_t> pattern(std::uint32_t seed, std::size_t offset, std::size_t bytes) {
  std::vector<std::uint64_t> words((bytes + 7) / 8);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = word(seed, offset / 8 + i);
  return words;
}

std::string check_bytes(const Block& block, CUdeviceptr address) {
  std::vector<std::uint64_t> seen;
  for (std::size_t at = 0; at < block.bytes; at += kPiece) {
    const std::size_t bytes = std::min(kPiece, block.bytes - at);
    const std::vector<std::uint64_t> wanted = pattern(block.seed, at, bytes);
    seen.assign(wanted.size(), 0);
    const CUresult result = cuMemcpyDtoH(seen.data(), address + at, bytes);
    if (result != CUDA_SUCCESS) return "cannot be read: " + name_of(result);
    if (std::memcmp(seen.data(), wanted.data(), bytes) == 0) continue;
    std::size_t i = 0;
    while (i + 1 < wanted.size() && seen[i] == wanted[i]) ++i;
    char text[128];
    std::snprintf(text, sizeof text, "wrong byte near offset %zu: %016llx, not %016llx", at + i * 8,
                  static_cast<unsigned long long>(seen[i]),
                  static_cast<unsigned long long>(wanted[i]));
    return text;
  }
  return "";
}

}  // namespace

std::string name_of(CUresult result) {
  if (result == CUDA_SUCCESS) return "";
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  return name != nullptr ? name : std::to_string(result);
}

std::string take(const std::string& kind, std::size_t bytes, Block* block) {
  *block = {};
  block->kind = kind;
  block->bytes = bytes;
  const CUresult result = take_one(block);
  if (result != CUDA_SUCCESS) return name_of(result);
  block->told = told_of(block->address);
  ask(&block->id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block->address);
  return "";
}

std::string give_back(Block* block) {
  const std::string& kind = block->kind;
  CUresult result = CUDA_SUCCESS;
  if (kind == "async" || kind == "pool") {
    if (block->address != 0) result = cuMemFreeAsync(block->address, nullptr);
    if (result == CUDA_SUCCESS) {
      block->address = 0;
      result = cuStreamSynchronize(nullptr);
    }
    if (result == CUDA_SUCCESS && block->pool != nullptr) cuMemPoolDestroy(block->pool);
  } else if (kind == "block" || kind == "pitch" || kind == "managed") {
    result = cuMemFree(block->address);
  } else {
    result = give_back_virtual(block);
  }
  return name_of(result);
}

std::string fill(Block* block, std::uint32_t seed) {
  for (std::size_t at = 0; at < block->bytes; at += kPiece) {
    const std::size_t bytes = std::min(kPiece, block->bytes - at);
    const std::vector<std::uint64_t> words = pattern(seed, at, bytes);
    const CUresult result = cuMemcpyHtoD(block->address + at, words.data(), bytes);
    if (result != CUDA_SUCCESS) return name_of(result);
  }
  block->seed = seed;
  return "";
}

std::string check(const Block& block) {
  std::string fault = check_bytes(block, block.address);
  if (fault.empty() && block.alias != 0) fault = check_bytes(block, block.alias);
  if (!fault.empty()) return fault;
  const Told now = told_of(block.address);
  return now == block.told ? "" : difference(block.told, now);
}

std::string check_id(const Block& block) {
  unsigned long long id = 0;
  ask(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block.address);
  if (id == block.id) return "";
  return "id " + std::to_string(id) + ", not " + std::to_string(block.id);
}

}  // namespace scene
