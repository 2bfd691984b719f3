#include "sim/physical.h"

#include <fcntl.h>
#include <unistd.h>

#include "sim/address_space.h"
#include "sim/driver.h"
#include "sim/memory.h"
#include "sim/memory_file.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

int card_or_host(int device) { return device < 0 ? kHostCard : card_of(device); }

int device_of_card(int card) {
  for (int device = 0; device < device_count(); ++device) {
    if (card_of(device) == card) return device;
  }
  return -1;
}

}  // namespace

int Physical::file() const { return own_file >= 0 ? own_file : AddressSpace::get()->file(); }

CUresult take_memory(Physical& physical) {
  AddressSpace* const space = AddressSpace::get();
  if (space == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (physical.device >= 0) VRAM_SIM_TRY(charge(physical.device, physical.bytes));
  if (physical.properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    physical.own_file =
        new_memory_file(kPhysicalFile, card_or_host(physical.device), physical.bytes);
    physical.file_object = physical.own_file >= 0 ? object_behind(physical.own_file) : 0;
    if (physical.file_object != 0) return CUDA_SUCCESS;
    if (physical.own_file >= 0) ::close(physical.own_file);
  } else {
    physical.offset = space->allocate_physical(physical.bytes);
    if (physical.offset != 0) return CUDA_SUCCESS;
  }
  if (physical.device >= 0) uncharge(physical.device, physical.bytes);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void give_memory(Physical& physical) {
  if (physical.own_file >= 0) {
    ::close(physical.own_file);
  } else {
    AddressSpace::get()->release_physical(physical.offset, physical.bytes);
  }
  if (physical.device < 0) return;
  if (physical.object != 0) {
    driver().machine->drop(physical.object);
  } else {
    uncharge(physical.device, physical.bytes);
  }
}

uint64_t object_behind(int descriptor) {
  MemoryFile file;
  return memory_behind(kPhysicalFile, descriptor, &file) ? file.object : 0;
}

CUresult make_object(Physical& physical) {
  if (physical.device < 0 || physical.object != 0) return CUDA_SUCCESS;
  const uint64_t object =
      physical.file_object != 0 ? physical.file_object : driver().machine->new_object();
  if (!driver().machine->share(object, card_of(physical.device), physical.bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  physical.object = object;
  return CUDA_SUCCESS;
}

CUresult adopt(int descriptor, Physical* out) {
  MemoryFile file;
  if (!memory_behind(kPhysicalFile, descriptor, &file)) return CUDA_ERROR_INVALID_VALUE;
  const int card = file.card;
  Physical physical;
  physical.bytes = file.bytes;
  physical.device = card == kHostCard ? -1 : device_of_card(card);
  if (card != kHostCard && physical.device < 0) return CUDA_ERROR_INVALID_DEVICE;
  physical.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  physical.properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  physical.properties.location.type =
      card == kHostCard ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  physical.properties.location.id = physical.device < 0 ? 0 : physical.device;
  physical.own_file = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (physical.own_file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  physical.file_object = file.object;
  if (physical.device >= 0) {
    physical.object = physical.file_object;
    const Machine::HoldStatus held =
        driver().machine->hold_or_create(physical.object, card, physical.bytes);
    if (held != Machine::HoldStatus::kOk) {
      ::close(physical.own_file);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  *out = physical;
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
