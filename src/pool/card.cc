#include "pool/card.h"

#include <cstdio>

#include "pool/current.h"

namespace vram::pool {

base::Expected<std::unique_ptr<Card>, Failure> Card::open(const DriverCalls& driver, int ordinal) {
  const std::string name = "device " + std::to_string(ordinal);
  CUdevice device = 0;
  if (const CUresult got = driver.device_get(&device, ordinal); got != CUDA_SUCCESS) {
    return Failure{got, "vram: there is no " + name + "; `vram devices` lists what there is"};
  }
  CUcontext context = nullptr;
  if (const CUresult got = driver.primary_retain(&context, device); got != CUDA_SUCCESS) {
    return Failure{got, "vram: no context on " + name + " (error " +
                            std::to_string(static_cast<int>(got)) +
                            "); `vram ps` shows who holds its memory"};
  }
  return std::unique_ptr<Card>(new Card(driver, device, context));
}

Card::~Card() { (void)driver_.primary_release(device_); }

std::uint64_t Card::total() const {
  std::size_t bytes = 0;
  return driver_.device_total(&bytes, device_) == CUDA_SUCCESS ? bytes : 0;
}

std::uint64_t Card::free() const {
  const Current current(driver_, context_);
  std::size_t free = 0;
  std::size_t total = 0;
  return driver_.mem_info(&free, &total) == CUDA_SUCCESS ? free : 0;
}

std::string in_words(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes);
  unsigned unit = 0;
  while (amount >= 1024 && unit < 4) {
    amount /= 1024;
    ++unit;
  }
  char text[32];
  snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", amount, kUnits[unit]);
  return text;
}

}  // namespace vram::pool
