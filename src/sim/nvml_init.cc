// Entry points: starting and ending the management library, versions, handles, error texts.
#include <nvml.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>

#include "sim/identity.h"
#include "sim/nvml_state.h"

namespace vram::sim {
namespace {

struct State {
  std::mutex mutex;
  Machine* machine = nullptr;  // kept over shutdown: see Machine on closing its descriptor
  unsigned references = 0;
  CardHandle handles[kMaxCards];
};

State& state() {
  static State* const instance = [] {
    auto* made = new State;
    for (int card = 0; card < kMaxCards; ++card) made->handles[card].card = card;
    return made;
  }();
  return *instance;
}

nvmlReturn_t join_machine(Machine** out) {
  MachineSpec spec;
  switch (spec_from_environment(&spec)) {
    case SpecStatus::kAbsent:
      return NVML_ERROR_DRIVER_NOT_LOADED;
    case SpecStatus::kMalformed:
      return NVML_ERROR_GPU_NOT_FOUND;
    case SpecStatus::kOk:
      break;
  }
  switch (Machine::open(spec, out)) {
    case OpenStatus::kUnavailable:
      return NVML_ERROR_OPERATING_SYSTEM;
    case OpenStatus::kMismatch:
      return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    case OpenStatus::kOk:
      break;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t initialise() {
  const std::lock_guard held(state().mutex);
  if (state().machine == nullptr) {
    Machine* machine = nullptr;
    if (const nvmlReturn_t result = join_machine(&machine); result != NVML_SUCCESS) return result;
    state().machine = machine;
  }
  ++state().references;
  return NVML_SUCCESS;
}

}  // namespace

nvmlReturn_t find_machine(Machine** out) {
  const std::lock_guard held(state().mutex);
  if (state().references == 0) return NVML_ERROR_UNINITIALIZED;
  *out = state().machine;
  return NVML_SUCCESS;
}

nvmlReturn_t find_card(nvmlDevice_t handle, Machine** machine, int* card) {
  if (const nvmlReturn_t result = find_machine(machine); result != NVML_SUCCESS) return result;
  for (int i = 0; i < (*machine)->card_count(); ++i) {
    if (card_handle(i) != handle) continue;
    *card = i;
    return NVML_SUCCESS;
  }
  return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlDevice_t card_handle(int card) {
  return reinterpret_cast<nvmlDevice_t>(&state().handles[card]);
}

nvmlReturn_t copy_text(const char* text, char* out, unsigned length) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (std::strlen(text) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::strcpy(out, text);
  return NVML_SUCCESS;
}

}  // namespace vram::sim

using namespace vram::sim;

nvmlReturn_t nvmlInit(void) { return initialise(); }
nvmlReturn_t nvmlInit_v2(void) { return initialise(); }
nvmlReturn_t nvmlInitWithFlags(unsigned int) { return initialise(); }

nvmlReturn_t nvmlShutdown(void) {
  const std::lock_guard held(state().mutex);
  if (state().references == 0) return NVML_ERROR_UNINITIALIZED;
  --state().references;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  Machine* machine = nullptr;
  if (const nvmlReturn_t result = find_machine(&machine); result != NVML_SUCCESS) return result;
  return copy_text(kDriverRelease, version, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  return copy_text(kManagementRelease, version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *version = kDriverVersion;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char* name, unsigned int length) {
  Machine* machine = nullptr;
  if (const nvmlReturn_t result = find_machine(&machine); result != NVML_SUCCESS) return result;
  if (name == nullptr || length == 0) return NVML_ERROR_INVALID_ARGUMENT;
  const std::string path = "/proc/" + std::to_string(pid) + "/cmdline";
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return NVML_ERROR_NOT_FOUND;
  const size_t read = std::fread(name, 1, length - 1, file);
  std::fclose(file);
  name[read] = '\0';
  return NVML_SUCCESS;
}

namespace {

nvmlReturn_t count_cards(unsigned* count) {
  Machine* machine = nullptr;
  if (const nvmlReturn_t result = find_machine(&machine); result != NVML_SUCCESS) return result;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned>(machine->card_count());
  return NVML_SUCCESS;
}

nvmlReturn_t handle_by_index(unsigned index, nvmlDevice_t* device) {
  Machine* machine = nullptr;
  if (const nvmlReturn_t result = find_machine(&machine); result != NVML_SUCCESS) return result;
  if (device == nullptr || index >= static_cast<unsigned>(machine->card_count())) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *device = card_handle(static_cast<int>(index));
  return NVML_SUCCESS;
}

nvmlReturn_t handle_by_bus_id(const char* text, nvmlDevice_t* device) {
  Machine* machine = nullptr;
  if (const nvmlReturn_t result = find_machine(&machine); result != NVML_SUCCESS) return result;
  if (text == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const int card = card_at_bus_id(text, machine->card_count());
  if (card < 0) return NVML_ERROR_NOT_FOUND;
  *device = card_handle(card);
  return NVML_SUCCESS;
}

}  // namespace

nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) { return count_cards(count); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) { return count_cards(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
  return handle_by_index(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  return handle_by_index(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  Machine* machine = nullptr;
  if (const nvmlReturn_t result = find_machine(&machine); result != NVML_SUCCESS) return result;
  if (uuid == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (int card = 0; card < machine->card_count(); ++card) {
    if (uuid_text(card_uuid(machine->name(), card)) != uuid) continue;
    *device = card_handle(card);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* text, nvmlDevice_t* device) {
  return handle_by_bus_id(text, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* text, nvmlDevice_t* device) {
  return handle_by_bus_id(text, device);
}

const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return "Function Not Found";
    case NVML_ERROR_OPERATING_SYSTEM:
      return "Operating System Error";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
      return "Driver/library version mismatch";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "Argument version mismatch";
    case NVML_ERROR_GPU_NOT_FOUND:
      return "GPU Not Found";
    default:
      return "Unknown Error";
  }
}
