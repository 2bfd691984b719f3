#pragma once

// A machine for tests of the configuration: cards, free memory, environment and pools that remember
// how they were asked for.

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/host.h"
#include "config/runtime.h"

namespace vram::config {

inline constexpr std::uint64_t kTestMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kTestGiB = kTestMiB << 10;
// What a context takes on the test's cards.
inline constexpr std::uint64_t kTestContext = 500 * kTestMiB;

struct TestCard {
  std::string name = "Test GPU";
  int major = 8;
  std::uint64_t total = 24 * kTestGiB;
  std::uint64_t used = kTestContext;
};

// Counts as a pool does: takes what it needs (greedy: the whole limit) from limit and budget.
class TestPool : public pool::MemoryPool {
 public:
  explicit TestPool(const pool::Options& options) : options_(options) {}

  base::Expected<CUdeviceptr, pool::Failure> allocate(std::uint64_t bytes, CUstream) override {
    const std::scoped_lock lock(mutex_);
    const std::uint64_t idle = reserved_ - in_use_;
    const bool greedy = options_.kind == pool::Kind::kBfc && !options_.growth && reserved_ == 0;
    const std::uint64_t more = greedy ? options_.limit : (bytes > idle ? bytes - idle : 0);
    if (more > options_.limit - reserved_ || (more > 0 && !options_.budget->take(more)) ||
        bytes > reserved_ + more - in_use_) {
      ++failures_;
      return pool::Failure{CUDA_ERROR_OUT_OF_MEMORY, "no room"};
    }
    reserved_ += more;
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    next_ += 1 << 20;
    blocks_[next_] = bytes;
    return next_;
  }
  bool free(CUdeviceptr address, CUstream) override {
    const std::scoped_lock lock(mutex_);
    if (address == 0) return true;
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return false;
    in_use_ -= found->second;
    blocks_.erase(found);
    return true;
  }
  bool record_use(CUdeviceptr address, CUstream) override { return blocks_.count(address) != 0; }
  void forget_stream(CUstream) override {}
  std::uint64_t trim(std::uint64_t keep) override {
    const std::scoped_lock lock(mutex_);
    const std::uint64_t to = std::max(keep, in_use_);
    const std::uint64_t given = reserved_ > to ? reserved_ - to : 0;
    reserved_ -= given;
    options_.budget->give(given);
    return given;
  }
  void set_limit(std::uint64_t bytes) override { options_.limit = bytes; }
  pool::Info info() const override {
    const std::scoped_lock lock(mutex_);
    pool::Info info{};
    info.limit = options_.limit;
    info.in_use = in_use_;
    info.peak_in_use = peak_;
    info.reserved = reserved_;
    info.failures = failures_;
    return info;
  }
  void reset_peaks() override { peak_ = in_use_; }
  double fragmentation() const override { return 0.25; }
  std::string report(std::uint64_t) const override { return "report"; }

  ~TestPool() override {
    if (options_.budget != nullptr) options_.budget->give(reserved_);
  }

 private:
  pool::Options options_;
  mutable std::mutex mutex_;
  std::uint64_t reserved_ = 0;
  std::uint64_t in_use_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t failures_ = 0;
  CUdeviceptr next_ = 0;
  std::map<CUdeviceptr, std::uint64_t> blocks_;
};

// One at a time: the driver's functions carry no object.
class TestHost {
 public:
  explicit TestHost(std::vector<TestCard> with = {TestCard{}, TestCard{}})
      : cards(std::move(with)) {
    machine_ = this;
    driver_.init = [](unsigned) { return CUDA_SUCCESS; };
    driver_.device_count = [](int* count) {
      *count = static_cast<int>(machine_->cards.size());
      return CUDA_SUCCESS;
    };
    driver_.device_get = [](CUdevice* device, int ordinal) {
      *device = ordinal;
      return CUDA_SUCCESS;
    };
    driver_.device_name = [](char* name, int size, CUdevice device) {
      std::strncpy(name, card(device).name.c_str(), static_cast<std::size_t>(size) - 1);
      return CUDA_SUCCESS;
    };
    driver_.device_total = [](std::size_t* bytes, CUdevice device) {
      *bytes = card(device).total;
      return CUDA_SUCCESS;
    };
    driver_.device_attribute = [](int* value, CUdevice_attribute which, CUdevice device) {
      *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? card(device).major : 0;
      return CUDA_SUCCESS;
    };
    driver_.primary_retain = [](CUcontext* context, CUdevice device) {
      // Never looked into: the number of the device, not null.
      *context = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device) + 1);
      return CUDA_SUCCESS;
    };
    driver_.primary_release = [](CUdevice) { return CUDA_SUCCESS; };
    driver_.context_push = [](CUcontext context) {
      machine_->current_ = static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
      return CUDA_SUCCESS;
    };
    driver_.context_pop = [](CUcontext* context) {
      *context = nullptr;
      return CUDA_SUCCESS;
    };
    driver_.mem_info = [](std::size_t* free, std::size_t* total) {
      const TestCard& from = card(machine_->current_);
      *free = from.total - from.used;
      *total = from.total;
      return CUDA_SUCCESS;
    };
  }
  ~TestHost() { machine_ = nullptr; }

  Host host() {
    Host host;
    host.driver = [this]() -> base::Expected<const pool::DriverCalls*, pool::Failure> {
      if (!driver_missing.empty()) return pool::Failure{CUDA_ERROR_NO_DEVICE, driver_missing};
      return &driver_;
    };
    host.make_pool = [this](const pool::DriverCalls&, const pool::Options& options)
        -> base::Expected<std::unique_ptr<pool::MemoryPool>, pool::Failure> {
      pools.push_back(options);
      return std::unique_ptr<pool::MemoryPool>(new TestPool(options));
    };
    host.variable = [this](const char* name) -> std::optional<std::string> {
      const auto found = environment.find(name);
      return found == environment.end() ? std::nullopt : std::optional(found->second);
    };
    host.now_ms = [this] { return ++clock_ms; };
    return host;
  }

  std::vector<TestCard> cards;
  std::string driver_missing;
  std::map<std::string, std::string> environment;
  std::vector<pool::Options> pools;        // as they were made
  std::atomic<std::uint64_t> clock_ms{0};  // a clock may be read by any thread

 private:
  static TestCard& card(CUdevice device) {
    return machine_->cards[static_cast<std::size_t>(device)];
  }

  inline static TestHost* machine_ = nullptr;
  pool::DriverCalls driver_;
  int current_ = 0;
};

}  // namespace vram::config
