#pragma once

// Elastic memory of this process, when its job asks for it: what the program maps and what it
// allocates lies behind handles of ours (residency/elastic_memory.h), so that it can be moved to
// the host and back while the program goes on using the same handles and addresses.
//
// Threads: any. Calls that touch the memory pass the gate (residency/gate.h).

#include "driver/real.h"
#include "interpose/process.h"
#include "residency/elastic_memory.h"

namespace vram::interpose {

using residency::Owner;

// When this process has joined its job. False: there is no room for the tables.
[[nodiscard]] bool join_elastic(Process& self);

// Null: the job is not elastic.
inline residency::ElasticMemory* elastic_memory() {
  return process().elastic.load(std::memory_order_acquire);
}
inline bool is_elastic() { return elastic_memory() != nullptr; }

// The driver's virtual-memory calls, with handles of ours where memory is elastic.
inline CUresult memory_create(CUmemGenericAllocationHandle* handle, std::size_t size,
                              const CUmemAllocationProp* prop, unsigned long long flags,
                              Owner owner) {
  residency::ElasticMemory* elastic = elastic_memory();
  return elastic == nullptr ? driver::real.cuMemCreate(handle, size, prop, flags)
                            : elastic->create(handle, size, prop, flags, owner);
}
inline CUresult memory_release(CUmemGenericAllocationHandle handle) {
  residency::ElasticMemory* elastic = elastic_memory();
  return elastic == nullptr ? driver::real.cuMemRelease(handle) : elastic->release(handle);
}
inline CUresult memory_map(CUdeviceptr address, std::size_t size, std::size_t offset,
                           CUmemGenericAllocationHandle handle, unsigned long long flags) {
  residency::ElasticMemory* elastic = elastic_memory();
  return elastic == nullptr ? driver::real.cuMemMap(address, size, offset, handle, flags)
                            : elastic->map(address, size, offset, handle, flags);
}
inline CUresult memory_unmap(CUdeviceptr address, std::size_t size) {
  residency::ElasticMemory* elastic = elastic_memory();
  return elastic == nullptr ? driver::real.cuMemUnmap(address, size)
                            : elastic->unmap(address, size);
}
inline CUresult memory_set_access(CUdeviceptr address, std::size_t size,
                                  const CUmemAccessDesc* access, std::size_t count) {
  residency::ElasticMemory* elastic = elastic_memory();
  return elastic == nullptr ? driver::real.cuMemSetAccess(address, size, access, count)
                            : elastic->set_access(address, size, access, count);
}

// The driver's handle behind one of ours, for a call that looks at it; and for one after which
// others can reach the memory, which is never moved again.
inline CUmemGenericAllocationHandle real_handle(CUmemGenericAllocationHandle handle) {
  residency::ElasticMemory* elastic = elastic_memory();
  return elastic == nullptr ? handle : elastic->real(handle);
}
inline CUmemGenericAllocationHandle shared_handle(CUmemGenericAllocationHandle handle) {
  residency::ElasticMemory* elastic = elastic_memory();
  return elastic == nullptr ? handle : elastic->share(handle);
}
inline void share_addresses(CUdeviceptr address, std::size_t size) {
  residency::ElasticMemory* elastic = elastic_memory();
  if (elastic != nullptr) elastic->share_range(address, size);
}

// The same for whatever is mapped around an address, to its end.
inline void share_around(CUdeviceptr address) {
  residency::ElasticMemory* elastic = elastic_memory();
  if (elastic != nullptr) elastic->share_around(address);
}

}  // namespace vram::interpose
