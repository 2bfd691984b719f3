// virtual_memory: physical memory counts on the card its properties name, from when it is created
// until its handle and all its mappings are gone. Cards 0 and 1 have limits of 4 GiB and 2 GiB.
#include <unistd.h>

#include <initializer_list>

#include "card.h"

namespace {

std::size_t left_on(int ordinal) {
  static CUcontext on[2] = {};
  if (on[ordinal] == nullptr) OK(cuDevicePrimaryCtxRetain(&on[ordinal], ordinal));
  CUcontext popped = nullptr;
  OK(cuCtxPushCurrent(on[ordinal]));
  const std::size_t bytes = left();
  OK(cuCtxPopCurrent(&popped));
  return bytes;
}

CUmemGenericAllocationHandle create(std::size_t bytes, const CUmemAllocationProp& prop) {
  CUmemGenericAllocationHandle handle = 0;
  OK(cuMemCreate(&handle, bytes, &prop, 0));
  return handle;
}

CUdeviceptr map(CUmemGenericAllocationHandle handle, std::size_t bytes) {
  CUdeviceptr at = 0;
  OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
  OK(cuMemMap(at, bytes, 0, handle, 0));
  return at;
}

void on_the_card_that_is_named() {
  const std::size_t before[] = {left_on(0), left_on(1)};
  const CUmemGenericAllocationHandle handle = create(kGiB, on_device(1));
  CHECK_IS(left_on(0), before[0]);
  CHECK_IS(left_on(1), before[1] - kGiB);
  CUmemGenericAllocationHandle more = 0;
  const CUmemAllocationProp prop = on_device(1);
  CHECK_IS(cuMemCreate(&more, kGiB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemRelease(handle));
  CHECK_IS(left_on(1), before[1]);
}

void host_memory_is_free_of_charge() {
  const std::size_t before = left();
  for (const CUmemLocationType type :
       {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT}) {
    CUmemAllocationProp prop = on_device(0);
    prop.location = {type, 0};
    const CUmemGenericAllocationHandle handle = create(64 * kMiB, prop);
    const CUdeviceptr at = map(handle, 64 * kMiB);
    CHECK_IS(left(), before);
    OK(cuMemUnmap(at, 64 * kMiB));
    OK(cuMemRelease(handle));
    CHECK_IS(left(), before);
  }
}

void mappings_hold_it() {
  const std::size_t before = left();
  const CUmemGenericAllocationHandle handle = create(100 * kMiB, on_device(0));
  const CUdeviceptr first = map(handle, 100 * kMiB);
  const CUdeviceptr second = map(handle, 100 * kMiB);
  CHECK_IS(left(), before - 100 * kMiB);
  OK(cuMemRelease(handle));
  CHECK_IS(left(), before - 100 * kMiB);
  OK(cuMemUnmap(first, 100 * kMiB));
  CHECK_IS(left(), before - 100 * kMiB);
  CUmemGenericAllocationHandle again = 0;
  OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(second)));
  OK(cuMemUnmap(second, 100 * kMiB));
  CHECK_IS(left(), before - 100 * kMiB);
  OK(cuMemRelease(again));
  CHECK_IS(left(), before);
}

void a_range_of_several_mappings_goes_at_once() {
  const std::size_t before = left();
  CUdeviceptr at = 0;
  OK(cuMemAddressReserve(&at, 30 * kMiB, 0, 0, 0));
  for (int i = 0; i < 3; ++i) {
    const CUmemGenericAllocationHandle handle = create(10 * kMiB, on_device(0));
    OK(cuMemMap(at + i * 10 * kMiB, 10 * kMiB, 0, handle, 0));
    OK(cuMemRelease(handle));
  }
  // A part of a mapping is refused, and nothing is lost.
  CHECK_IS(cuMemUnmap(at, 15 * kMiB), CUDA_ERROR_INVALID_VALUE);
  CHECK_IS(cuMemUnmap(at + 2 * kMiB, 28 * kMiB), CUDA_ERROR_INVALID_VALUE);
  CHECK_IS(left(), before - 30 * kMiB);
  CHECK_IS(cuMemUnmap(at, 30 * kMiB), CUDA_SUCCESS);
  CHECK_IS(left(), before);
}

// The same memory by another handle: through a file descriptor, as libraries pass it on.
void an_imported_handle_holds_it() {
  const std::size_t before = left();
  CUmemAllocationProp prop = on_device(0);
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const CUmemGenericAllocationHandle handle = create(200 * kMiB, prop);
  int file = -1;
  OK(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemGenericAllocationHandle imported = 0;
  OK(cuMemImportFromShareableHandle(&imported,
                                    reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CHECK_IS(left(), before - 200 * kMiB);
  OK(cuMemRelease(handle));
  close(file);
  CHECK_IS(left(), before - 200 * kMiB);
  OK(cuMemRelease(imported));
  CHECK_IS(left(), before);
}

}  // namespace

int main() {
  start();
  (void)left_on(1);
  const std::size_t held_before = held();
  on_the_card_that_is_named();
  host_memory_is_free_of_charge();
  mappings_hold_it();
  a_range_of_several_mappings_goes_at_once();
  an_imported_handle_holds_it();
  CHECK_IS(held(), held_before);
}
