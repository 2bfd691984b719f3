#include "sim/physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "sim/address_space.h"
#include "sim/driver.h"
#include "sim/memory.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

constexpr char kFileName[] = "vram-sim-physical-";
constexpr int kHostCard = -1;
// Objects named after a file are told from numbered ones by their highest bit.
constexpr uint64_t kFileObject = uint64_t{1} << 63;

int card_or_host(int device) { return device < 0 ? kHostCard : card_of(device); }

int new_file(int card, uint64_t bytes) {
  const std::string name = kFileName + std::to_string(card);
  const int file = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    ::close(file);
    return -1;
  }
  return file;
}

// The card in the name of the file behind a descriptor; false when it is not one of ours.
bool card_behind(int descriptor, int* card) {
  char link[256];
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(path.c_str(), link, sizeof(link) - 1);
  if (length <= 0) return false;
  link[length] = '\0';
  const char* const name = std::strstr(link, kFileName);
  return name != nullptr && std::sscanf(name + sizeof(kFileName) - 1, "%d", card) == 1;
}

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
    physical.own_file = new_file(card_or_host(physical.device), physical.bytes);
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
  int card = 0;
  struct stat status = {};
  if (!card_behind(descriptor, &card) || ::fstat(descriptor, &status) != 0) return 0;
  return kFileObject | status.st_ino;
}

CUresult make_object(Physical& physical) {
  if (physical.device < 0 || physical.object != 0) return CUDA_SUCCESS;
  const uint64_t object = physical.file_object;
  if (!driver().machine->share(object, card_of(physical.device), physical.bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  physical.object = object;
  return CUDA_SUCCESS;
}

CUresult adopt(int descriptor, Physical* out) {
  int card = 0;
  struct stat status = {};
  if (!card_behind(descriptor, &card) || ::fstat(descriptor, &status) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Physical physical;
  physical.bytes = static_cast<uint64_t>(status.st_size);
  physical.device = card == kHostCard ? -1 : device_of_card(card);
  if (card != kHostCard && physical.device < 0) return CUDA_ERROR_INVALID_DEVICE;
  physical.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  physical.properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  physical.properties.location.type =
      card == kHostCard ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  physical.properties.location.id = physical.device < 0 ? 0 : physical.device;
  physical.own_file = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (physical.own_file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  physical.file_object = kFileObject | status.st_ino;
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
