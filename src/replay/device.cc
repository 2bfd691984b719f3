#include "replay/device.h"

#include <dlfcn.h>

#include "pool/dry_driver.h"

namespace vram::replay {
namespace {

class DryDevice final : public Device {
 public:
  explicit DryDevice(std::uint64_t bytes) : driver_(pool::dry_driver(bytes)), bytes_(bytes) {}
  [[nodiscard]] const pool::DriverCalls& driver() const override { return driver_; }
  [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }
  [[nodiscard]] const std::vector<CUstream>& streams(std::uint32_t count) override {
    streams_.assign(count, nullptr);
    for (std::uint32_t i = 1; i < count; ++i) {
      streams_[i] = reinterpret_cast<CUstream>(kFirstStream + std::uintptr_t{i} * kApart);
    }
    return streams_;
  }

 private:
  // No address is behind a dry stream; small numbers are handles with a meaning of their own.
  static constexpr std::uintptr_t kFirstStream = 0x10000;
  static constexpr std::uintptr_t kApart = 0x100;

  const pool::DriverCalls& driver_;
  std::uint64_t bytes_;
  std::vector<CUstream> streams_;
};

// What pools do not need and a replay does.
struct StreamCalls {
  decltype(&::cuStreamCreate) create = nullptr;
  decltype(&::cuStreamDestroy) destroy = nullptr;
};

class RealDevice final : public Device {
 public:
  RealDevice(const pool::DriverCalls& driver, const StreamCalls& calls, std::uint64_t bytes)
      : driver_(driver), calls_(calls), bytes_(bytes) {}
  ~RealDevice() override {
    (void)driver_.context_synchronize();
    for (CUstream stream : streams_) {
      if (stream != nullptr) (void)calls_.destroy(stream);
    }
    CUcontext context = nullptr;
    (void)driver_.context_pop(&context);
    (void)driver_.primary_release(0);
  }

  [[nodiscard]] const pool::DriverCalls& driver() const override { return driver_; }
  [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }
  [[nodiscard]] const std::vector<CUstream>& streams(std::uint32_t count) override {
    if (streams_.empty()) streams_.push_back(nullptr);
    while (streams_.size() < count) {
      CUstream stream = nullptr;
      if (calls_.create(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return none_;
      streams_.push_back(stream);
    }
    return streams_;
  }

 private:
  const pool::DriverCalls& driver_;
  StreamCalls calls_;
  std::uint64_t bytes_;
  std::vector<CUstream> streams_, none_;
};

std::string without_name(const std::string& message) {
  constexpr char kName[] = "vram: ";
  return message.rfind(kName, 0) == 0 ? message.substr(sizeof kName - 1) : message;
}

std::string failed(const char* what, CUresult result) {
  return std::string(what) + " (error " + std::to_string(static_cast<int>(result)) + ")";
}

}  // namespace

std::unique_ptr<Device> Device::dry(std::uint64_t bytes) {
  return std::make_unique<DryDevice>(bytes);
}

base::Expected<std::unique_ptr<Device>, std::string> Device::real() {
  const auto opened = pool::open_driver();
  if (!opened) return without_name(opened.error().message);
  const pool::DriverCalls& driver = **opened;
  StreamCalls calls;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  calls.create = reinterpret_cast<decltype(calls.create)>(dlsym(library, "cuStreamCreate"));
  calls.destroy = reinterpret_cast<decltype(calls.destroy)>(dlsym(library, "cuStreamDestroy_v2"));
  if (calls.create == nullptr || calls.destroy == nullptr) {
    return std::string("the CUDA driver is too old: it has no streams to create");
  }
  CUdevice device = 0;
  CUcontext context = nullptr;
  std::size_t bytes = 0;
  CUresult result = driver.device_get(&device, 0);
  if (result != CUDA_SUCCESS) return failed("the driver shows no card", result);
  result = driver.primary_retain(&context, device);
  if (result != CUDA_SUCCESS) return failed("no context on the card", result);
  (void)driver.context_push(context);
  (void)driver.device_total(&bytes, device);
  return std::unique_ptr<Device>(std::make_unique<RealDevice>(driver, calls, bytes));
}

}  // namespace vram::replay
