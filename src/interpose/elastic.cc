#include "interpose/elastic.h"

#include <sys/mman.h>

#include <new>

#include "interpose/caretaker.h"
#include "interpose/job.h"
#include "interpose/parking.h"
#include "residency/gate.h"
#include "residency/host_room.h"

namespace vram::interpose {
namespace {

using driver::real;
using residency::ElasticMemory;

}  // namespace

CUcontext context_on(CUdevice ordinal) {
  Process& self = process();
  unsigned flags = 0;
  int active = 0;
  CUcontext const primary = self.device[ordinal].primary.load(std::memory_order_acquire);
  if (primary != nullptr &&
      real.cuDevicePrimaryCtxGetState(ordinal, &flags, &active) == CUDA_SUCCESS && active != 0) {
    return primary;
  }
  CUcontext found = nullptr;
  self.contexts.for_each([&](std::uint64_t context, std::uint64_t value) {
    if (value != 0 && static_cast<CUdevice>(value & 0x7f) == ordinal) {
      found = reinterpret_cast<CUcontext>(context);
    }
  });
  return found;
}

namespace {

residency::Calls calls() {
  residency::Calls calls{};
  calls.create = real.cuMemCreate;
  calls.release = real.cuMemRelease;
  calls.map = real.cuMemMap;
  calls.unmap = real.cuMemUnmap;
  calls.set_access = real.cuMemSetAccess;
  calls.copy_out = real.cuMemcpyDtoHAsync_v2;
  calls.copy_in = real.cuMemcpyHtoDAsync_v2;
  calls.stream_create = real.cuStreamCreate;
  calls.stream_destroy = real.cuStreamDestroy_v2;
  calls.stream_synchronize = real.cuStreamSynchronize;
  calls.context_push = real.cuCtxPushCurrent_v2;
  calls.context_pop = real.cuCtxPopCurrent_v2;
  calls.host_register = real.cuMemHostRegister_v2;
  calls.host_unregister = real.cuMemHostUnregister;
  calls.context_of = context_on;
  calls.host_room = residency::host_room;
  return calls;
}

bool driver_has_all(const residency::Calls& c) {
  return c.create != nullptr && c.map != nullptr && c.set_access != nullptr &&
         c.context_push != nullptr && c.copy_out != nullptr && c.copy_in != nullptr;
}

}  // namespace

bool join_elastic(Process& self) {
  if (job()->header.pools != wire::Pools::kElastic) return true;
  const residency::Calls driver = calls();
  if (!driver_has_all(driver)) {
    own_parking().pinned.store(1);
    return true;
  }
  void* at = mmap(nullptr, sizeof(ElasticMemory), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return false;
  auto* const memory = new (at) ElasticMemory;
  if (!memory->open(driver)) {
    memory->~ElasticMemory();
    munmap(at, sizeof(ElasticMemory));
    return false;
  }
  self.elastic.store(memory, std::memory_order_release);
  open_parking();
  residency::Gate::put_up(somebody_waits);
  start_caretaker();
  return true;
}

}  // namespace vram::interpose
