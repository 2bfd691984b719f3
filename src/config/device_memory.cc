// DeviceMemory: the public face of Memory.

#include <cstdint>

#include "config/process.h"
#include "vram/config.h"

namespace vram::config {
namespace {

CUdeviceptr address_of(void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

void* DeviceMemory::allocate(Bytes bytes, CUstream_st* stream) const {
  const CUdeviceptr address = value_or_raise(memory_->allocate(bytes.count(), stream));
  return reinterpret_cast<void*>(address);  // NOLINT: device addresses are 64 bits
}

void DeviceMemory::deallocate(void* address, CUstream_st* stream) const {
  raise_if(memory_->free(address_of(address), stream));
}

void DeviceMemory::record_use(void* address, CUstream_st* stream) const {
  raise_if(memory_->record_use(address_of(address), stream));
}

Bytes DeviceMemory::trim(Bytes keep) const { return Bytes::of(memory_->trim(keep.count())); }
MemoryInfo DeviceMemory::info() const { return memory_->info(); }
void DeviceMemory::reset_stats() const { memory_->reset_stats(); }
FragmentationSample DeviceMemory::sample() const { return memory_->sample(); }
std::vector<FragmentationSample> DeviceMemory::fragmentation_history() const {
  return memory_->history();
}

}  // namespace vram::config
