#include "config/cards.h"

#include <cstdio>

namespace vram::config {
namespace {

Fault driver_fault(const std::string& what, CUresult code) {
  return {FaultKind::kUnknown, what + ": the driver answered with error " +
                                   std::to_string(static_cast<int>(code)) +
                                   "; 'vram devices' shows whether it works at all"};
}

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += two;
  }
  return text;
}

Result<Card> read_card(const pool::DriverCalls& driver, int ordinal) {
  Card card;
  card.ordinal = ordinal;
  CUdevice device = 0;
  char name[256] = "";
  char bus[64] = "";
  CUuuid uuid{};
  std::size_t total = 0;
  const auto attribute = [&](int* value, CUdevice_attribute which) {
    return driver.device_attribute(value, which, device);
  };
  CUresult code = driver.device_get(&device, ordinal);
  if (code == CUDA_SUCCESS) code = driver.device_name(name, sizeof name, device);
  if (code == CUDA_SUCCESS) code = driver.device_total(&total, device);
  if (code == CUDA_SUCCESS) {
    code = attribute(&card.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  }
  if (code == CUDA_SUCCESS) {
    code = attribute(&card.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  }
  if (code != CUDA_SUCCESS) return driver_fault("GPU " + std::to_string(ordinal), code);
  // For people only: a driver without them has no fault.
  if (driver.device_uuid != nullptr && driver.device_uuid(&uuid, device) == CUDA_SUCCESS) {
    card.uuid = uuid_text(uuid);
  }
  if (driver.device_pci_bus_id != nullptr &&
      driver.device_pci_bus_id(bus, sizeof bus, device) == CUDA_SUCCESS) {
    card.pci_bus_id = bus;
  }
  card.name = name;
  card.total = total;
  return card;
}

}  // namespace

Result<std::vector<Card>> list_cards(const pool::DriverCalls& driver) {
  std::vector<Card> cards;
  CUresult code = driver.init(0);
  int count = 0;
  if (code == CUDA_SUCCESS) code = driver.device_count(&count);
  if (code == CUDA_ERROR_NO_DEVICE) return cards;
  if (code != CUDA_SUCCESS) return driver_fault("CUDA did not start", code);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Result<Card> card = read_card(driver, ordinal);
    if (!card) return card.error();
    cards.push_back(std::move(*card));
  }
  return cards;
}

Result<PrimaryContext> PrimaryContext::retain(const pool::DriverCalls& driver, const Card& card) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUresult code = driver.device_get(&device, card.ordinal);
  if (code == CUDA_SUCCESS) code = driver.primary_retain(&context, device);
  if (code != CUDA_SUCCESS) {
    return driver_fault("GPU " + std::to_string(card.ordinal) + ": no context", code);
  }
  return PrimaryContext(driver, device, context, card.ordinal);
}

PrimaryContext::PrimaryContext(PrimaryContext&& other) noexcept
    : driver_(other.driver_),
      device_(other.device_),
      context_(other.context_),
      ordinal_(other.ordinal_) {
  other.driver_ = nullptr;
}

PrimaryContext::~PrimaryContext() {
  // At the end of a process the driver may be gone already, and says so; nothing is left to do
  // then.
  if (driver_ != nullptr) static_cast<void>(driver_->primary_release(device_));
}

Result<CardMemory> PrimaryContext::memory() const {
  std::size_t free = 0;
  std::size_t total = 0;
  CUresult code = driver_->context_push(context_);
  if (code == CUDA_SUCCESS) {
    code = driver_->mem_info(&free, &total);
    CUcontext popped = nullptr;
    static_cast<void>(driver_->context_pop(&popped));
  }
  if (code != CUDA_SUCCESS) {
    return driver_fault("Failed to query available memory for GPU " + std::to_string(ordinal_),
                        code);
  }
  return CardMemory{free, total};
}

}  // namespace vram::config
