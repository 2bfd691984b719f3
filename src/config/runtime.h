#pragma once

// The configuration of one process, as an object: settings, then pools, then sessions that join
// them. The public functions hold one of these over the process's own host; tests make their own.
//
// Model. Settings are what was said; claims are what was made of it. A card is claimed once, by the
// v2 settings or by a session, and keeps its pools until the runtime ends. Logical GPUs are
// numbered in the order in which they were made.
//
// Compat mode has TensorFlow's one allocator for each device number, whoever made it: a later
// session gets what is there. Strict mode compares: a later session gets what is there if it asks
// for the same or for nothing.
//
// Threads: all functions by any thread; one mutex. Memory objects are used without it.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "config/fault.h"
#include "config/host.h"
#include "config/memory.h"
#include "config/plan.h"
#include "config/rules.h"
#include "config/settings.h"
#include "config/strict_plan.h"

namespace vram::config {

struct Logical {
  LogicalDevice device;
  int card = kCpu;
  std::uint64_t limit = 0;
  std::optional<std::uint64_t> reserve;
  pool::Options options;           // of the pool; GPUs only
  std::shared_ptr<Memory> memory;  // the CPU's is made when it is asked for
};

// What describe() shows.
struct Snapshot {
  Mode mode = Mode::kStrict;
  std::vector<Card> cards;
  std::vector<int> visible;
  Settings settings;
  std::string initialised_by;  // empty: not yet
  std::vector<Logical> gpus;
  std::vector<std::string> diagnostics;
};

class Runtime {
 public:
  explicit Runtime(Host host) : host_(std::move(host)) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Outcome set_mode(Mode mode);
  Result<Mode> mode();

  Result<std::vector<PhysicalDevice>> list_physical_devices(std::string_view type);
  Result<DeviceDetails> device_details(const PhysicalDevice& device);
  Result<std::vector<PhysicalDevice>> visible_devices(std::string_view type);
  Outcome set_visible_devices(const std::vector<PhysicalDevice>& devices, std::string_view type);

  Outcome set_memory_growth(const PhysicalDevice& device, bool enable);
  Result<std::optional<bool>> memory_growth(const PhysicalDevice& device);
  Outcome set_memory_limit(const PhysicalDevice& device, Size limit);
  Result<std::optional<Bytes>> memory_limit(const PhysicalDevice& device);
  Outcome set_logical_device_configuration(const PhysicalDevice& device, const Parts& parts);
  Result<std::optional<Parts>> logical_device_configuration(const PhysicalDevice& device);
  Outcome set_soft_device_placement(bool enabled);
  bool soft_device_placement();
  Outcome import_config(const compat::v1::ConfigProto& config);

  // `call` is the public function that initialises, for later messages.
  Result<std::vector<LogicalDevice>> list_logical_devices(std::string_view type, const char* call);
  Result<std::vector<LogicalDevice>> logical_devices_of(const PhysicalDevice& device);
  Result<PhysicalDevice> physical_device_of(const LogicalDevice& device);
  Result<std::shared_ptr<Memory>> memory(const LogicalDevice& device, const char* call);
  Result<std::shared_ptr<Memory>> memory(std::string_view name, const char* call);
  // As memory(), but for what only GPUs have: no soft placement.
  Result<std::shared_ptr<Memory>> gpu_memory(std::string_view name, const char* call);

  struct SessionDevices {
    int number = 0;
    bool soft_placement = false;
    int cpus = 1;
    std::vector<std::size_t> gpus;  // in the session's order
  };
  Result<SessionDevices> open_session(const compat::v1::ConfigProto& config);
  std::vector<LogicalDevice> session_list(const SessionDevices& session);
  Result<std::shared_ptr<Memory>> session_memory(const SessionDevices& session,
                                                 std::string_view name);
  void close_session(const SessionDevices& session);

  Result<Snapshot> snapshot();

 private:
  struct Claim {
    CardWish wish;
    std::string by;  // "list_logical_devices()", "session 2"
    std::vector<std::size_t> gpus;
  };

  // All with the mutex held.
  Outcome start();  // mode and cards
  Mode started_mode() const { return mode_.value_or(Mode::kStrict); }
  [[nodiscard]] World world() const;
  [[nodiscard]] std::vector<PhysicalDevice> physical() const;
  [[nodiscard]] std::vector<PhysicalDevice> visible() const;
  Result<int> place_of(const PhysicalDevice& device);
  Result<Environment> environment();
  Outcome check_environment();
  [[nodiscard]] std::optional<std::string> locked_by(std::optional<int> place) const;
  Outcome locked(const std::string& thing, const std::string& by) const;
  Outcome ready(const char* call);
  Result<CardMemory> card_memory(int card);

  Result<std::vector<CardWish>> visible_wishes();
  Result<std::vector<std::size_t>> join_compat(const std::vector<CardPlan>& plans);
  Result<std::vector<std::size_t>> join_strict(const std::vector<CardWish>& wishes,
                                               const std::string& by);
  Outcome check_conflicts(const std::vector<CardWish>& wishes, const std::string& by);
  Result<CardWish> wish_of(const CardWish& asked, const std::string& by);
  Result<std::vector<Logical>> make_devices(const CardPlan& plan, const Environment& environment,
                                            std::size_t first_number);
  Result<std::shared_ptr<Memory>> make_memory(const std::string& name,
                                              const pool::Options& options);
  Outcome preallocate(const Logical& made, const Environment& environment);
  Result<std::shared_ptr<Memory>> cpu_memory();
  [[nodiscard]] std::vector<LogicalDevice> logical_cpus(int count) const;
  [[nodiscard]] int cpu_count() const;
  Result<std::shared_ptr<Memory>> device_memory(const SessionDevices& among, std::string_view name);
  Result<const Logical*> find_logical(const LogicalDevice& device);
  void note(const std::vector<std::string>& lines);
  void note(const std::string& line);

  Host host_;
  std::mutex mutex_;
  std::optional<Mode> mode_;  // none: the environment decides
  bool started_ = false;
  const pool::DriverCalls* driver_ = nullptr;  // null: no driver
  std::vector<Card> cards_;
  Settings settings_;
  std::map<int, PrimaryContext> contexts_;  // outlives the pools below
  std::string v2_by_;                       // empty: v2 is not initialised
  std::string first_by_;                    // whoever made the first device
  int sessions_ = 0;
  std::map<int, Claim> claims_;
  std::vector<Logical> gpus_;
  std::shared_ptr<Memory> cpu_memory_;
  std::vector<std::string> diagnostics_;
};

}  // namespace vram::config
