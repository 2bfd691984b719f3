#include "probe/nvml.h"

#include <dlfcn.h>
#include <nvml.h>

#include <cstring>

namespace vram::probe {

// The functions used, by the names that every driver since 2014 exports; the ones that came later
// may be missing and are asked for by name where they are used.
struct Nvml::Calls {
  decltype(&nvmlInit_v2) init = nullptr;
  decltype(&nvmlShutdown) shutdown = nullptr;
  decltype(&nvmlErrorString) error_string = nullptr;
  decltype(&nvmlDeviceGetCount_v2) count = nullptr;
  decltype(&nvmlDeviceGetHandleByIndex_v2) handle = nullptr;
  decltype(&nvmlDeviceGetUUID) uuid = nullptr;
  decltype(&nvmlDeviceGetName) name = nullptr;
  decltype(&nvmlDeviceGetPciInfo_v3) pci = nullptr;
  decltype(&nvmlDeviceGetMemoryInfo) memory = nullptr;
  decltype(&nvmlSystemGetCudaDriverVersion) cuda_version = nullptr;
  decltype(&nvmlSystemGetDriverVersion) driver_version = nullptr;
  // Optional.
  decltype(&nvmlDeviceGetMemoryInfo_v2) memory_v2 = nullptr;
  decltype(&nvmlDeviceGetMigMode) mig_mode = nullptr;
  decltype(&nvmlDeviceGetComputeRunningProcesses_v3) compute = nullptr;
  decltype(&nvmlDeviceGetGraphicsRunningProcesses_v3) graphics = nullptr;

  // The name of the first function that is missing, or nullptr.
  const char* load(void* library) {
    const char* missing = nullptr;
    const auto get = [&](auto& slot, const char* symbol, bool required) {
      slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, symbol));
      if (slot == nullptr && required && missing == nullptr) missing = symbol;
    };
    get(init, "nvmlInit_v2", true);
    get(shutdown, "nvmlShutdown", true);
    get(error_string, "nvmlErrorString", true);
    get(count, "nvmlDeviceGetCount_v2", true);
    get(handle, "nvmlDeviceGetHandleByIndex_v2", true);
    get(uuid, "nvmlDeviceGetUUID", true);
    get(name, "nvmlDeviceGetName", true);
    get(pci, "nvmlDeviceGetPciInfo_v3", true);
    get(memory, "nvmlDeviceGetMemoryInfo", true);
    get(cuda_version, "nvmlSystemGetCudaDriverVersion", true);
    get(driver_version, "nvmlSystemGetDriverVersion", true);
    get(memory_v2, "nvmlDeviceGetMemoryInfo_v2", false);
    get(mig_mode, "nvmlDeviceGetMigMode", false);
    get(compute, "nvmlDeviceGetComputeRunningProcesses_v3", false);
    get(graphics, "nvmlDeviceGetGraphicsRunningProcesses_v3", false);
    return missing;
  }
};

namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void add_process(const nvmlProcessInfo_t& info, std::vector<CardProcess>* out) {
  const auto pid = static_cast<std::int32_t>(info.pid);
  // A program with both kinds of context appears in both lists, with the same figure.
  for (const CardProcess& known : *out) {
    if (known.pid == pid) return;
  }
  CardProcess process{pid, std::nullopt};
  if (info.usedGpuMemory != static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE)) {
    process.used = info.usedGpuMemory;
  }
  out->push_back(process);
}

template <typename Call>
nvmlReturn_t list_processes(Call call, nvmlDevice_t device, std::vector<CardProcess>* out) {
  unsigned count = 64;
  std::vector<nvmlProcessInfo_t> infos;
  nvmlReturn_t status = NVML_ERROR_INSUFFICIENT_SIZE;
  // Processes come while the list is read; each round leaves room for as many again.
  for (int round = 0; round < 4 && status == NVML_ERROR_INSUFFICIENT_SIZE; ++round) {
    count *= 2;
    infos.resize(count);
    status = call(device, &count, infos.data());
  }
  if (status != NVML_SUCCESS) return status;
  for (unsigned i = 0; i < count; ++i) add_process(infos[i], out);
  return status;
}

}  // namespace

bool parse_uuid(const std::string& text, std::array<std::uint8_t, 16>* out) {
  if (text.compare(0, 4, "GPU-") != 0) return false;
  std::array<std::uint8_t, 16> bytes{};
  std::size_t nibbles = 0;
  for (std::size_t i = 4; i < text.size(); ++i) {
    if (text[i] == '-') continue;
    const int value = hex_value(text[i]);
    if (value < 0 || nibbles == 32) return false;
    bytes[nibbles / 2] = static_cast<std::uint8_t>(bytes[nibbles / 2] << 4 | value);
    ++nibbles;
  }
  if (nibbles != 32) return false;
  *out = bytes;
  return true;
}

Nvml::Nvml(void* library, std::unique_ptr<Calls> calls)
    : library_(library), calls_(std::move(calls)) {}

Nvml::~Nvml() {
  calls_->shutdown();
  dlclose(library_);
}

NvmlFailure Nvml::failure(const char* what, int code) const {
  const char* text = calls_->error_string(static_cast<nvmlReturn_t>(code));
  return {NvmlError::kFailed, std::string(what) + ": " + (text != nullptr ? text : "unknown")};
}

Nvml::Result<std::unique_ptr<Nvml>> Nvml::open(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NvmlFailure{NvmlError::kNotFound, dlerror()};
  auto calls = std::make_unique<Calls>();
  if (const char* missing = calls->load(library); missing != nullptr) {
    dlclose(library);
    return NvmlFailure{NvmlError::kNotNvml, missing};
  }
  if (const nvmlReturn_t status = calls->init(); status != NVML_SUCCESS) {
    const char* text = calls->error_string(status);
    NvmlFailure failure{
        status == NVML_ERROR_DRIVER_NOT_LOADED ? NvmlError::kNoDriver : NvmlError::kFailed,
        text != nullptr ? text : "unknown"};
    dlclose(library);
    return failure;
  }
  return std::unique_ptr<Nvml>(new Nvml(library, std::move(calls)));
}

Nvml::Result<Card> Nvml::card(int index) const {
  nvmlDevice_t device{};
  if (const auto status = calls_->handle(static_cast<unsigned>(index), &device)) {
    return failure("nvmlDeviceGetHandleByIndex", status);
  }
  Card card;
  card.index = index;
  char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
  if (const auto status = calls_->uuid(device, uuid, sizeof uuid)) {
    return failure("nvmlDeviceGetUUID", status);
  }
  card.uuid = uuid;
  if (!parse_uuid(card.uuid, &card.uuid_bytes)) {
    return NvmlFailure{NvmlError::kFailed, "the UUID '" + card.uuid + "' is not of the usual form"};
  }
  char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "";
  if (calls_->name(device, name, sizeof name) == NVML_SUCCESS) card.name = name;
  nvmlPciInfo_t pci{};
  if (calls_->pci(device, &pci) == NVML_SUCCESS) card.pci = pci.busIdLegacy;

  nvmlMemory_v2_t memory{};
  memory.version = nvmlMemory_v2;
  if (calls_->memory_v2 != nullptr && calls_->memory_v2(device, &memory) == NVML_SUCCESS) {
    card.total = memory.total;
    card.reserved = memory.reserved;
    card.used = memory.used;
    card.free = memory.free;
  } else {
    nvmlMemory_t old{};
    if (const auto status = calls_->memory(device, &old)) {
      return failure("nvmlDeviceGetMemoryInfo", status);
    }
    card.total = old.total;
    card.used = old.used;
    card.free = old.free;
  }
  unsigned current = NVML_DEVICE_MIG_DISABLE;
  unsigned pending = NVML_DEVICE_MIG_DISABLE;
  if (calls_->mig_mode != nullptr && calls_->mig_mode(device, &current, &pending) == NVML_SUCCESS) {
    card.mig = current == NVML_DEVICE_MIG_ENABLE;
  }
  return card;
}

Nvml::Result<std::vector<Card>> Nvml::cards() const {
  unsigned count = 0;
  if (const auto status = calls_->count(&count)) return failure("nvmlDeviceGetCount", status);
  std::vector<Card> cards;
  for (unsigned i = 0; i < count; ++i) {
    Result<Card> one = card(static_cast<int>(i));
    if (!one) return one.error();
    cards.push_back(std::move(*one));
  }
  return cards;
}

Nvml::Result<std::vector<CardProcess>> Nvml::processes(int index) const {
  nvmlDevice_t device{};
  if (const auto status = calls_->handle(static_cast<unsigned>(index), &device)) {
    return failure("nvmlDeviceGetHandleByIndex", status);
  }
  std::vector<CardProcess> found;
  if (calls_->compute != nullptr) {
    if (const auto status = list_processes(calls_->compute, device, &found)) {
      return failure("nvmlDeviceGetComputeRunningProcesses", status);
    }
  }
  // Headless cards refuse the question; that is no failure.
  if (calls_->graphics != nullptr) (void)list_processes(calls_->graphics, device, &found);
  return found;
}

Nvml::Result<int> Nvml::cuda_version() const {
  int version = 0;
  if (const auto status = calls_->cuda_version(&version)) {
    return failure("nvmlSystemGetCudaDriverVersion", status);
  }
  return version;
}

std::string Nvml::driver_release() const {
  char text[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
  return calls_->driver_version(text, sizeof text) == NVML_SUCCESS ? text : "";
}

}  // namespace vram::probe
