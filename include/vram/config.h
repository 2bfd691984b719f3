#pragma once

// What a program says about the GPU memory it wants, before it uses any: which devices it sees, how
// much of each, all at once or on demand, one device or several. The functions are those of
// tf.config (TensorFlow 2), with sizes that carry their unit.
//
// Two modes. Strict, the default, checks sums, ranges, order and conflicts in the call that makes
// the mistake. Compat does what TensorFlow does: the same errors at the same time, and the same
// silence where TensorFlow is silent. Each function says where the two differ.
//
// Initialisation. Settings come first; the first function that needs a device
// (list_logical_devices, memory, allocate, get_memory_info, a compat::v1::Session) creates the
// pools and fixes the settings.
//
// Errors are thrown (vram/error.h). In strict mode every function that reads the environment throws
// InvalidArgument for a variable whose value means nothing; diagnostics() lists what was found and
// not honoured. Nothing is printed.
//
// Threads. All functions may be called by any thread at any time. A process has one configuration.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vram/api.h"
#include "vram/error.h"
#include "vram/size.h"

struct CUstream_st;  // CUstream and cudaStream_t point to it

namespace vram::config {

enum class Mode : std::uint8_t { kStrict, kCompat };

// Before anything else: RuntimeError once a setting was made or a device used, unless it is the
// mode in force. Without a call, VRAM_CONFIG_MODE (`strict` or `compat`) decides, then strict.
VRAM_API void set_mode(Mode mode);
VRAM_API Mode get_mode();

// ---- Devices ---------------------------------------------------------------------------------

// "/physical_device:GPU:0", "GPU". Numbers are CUDA's, after CUDA_VISIBLE_DEVICES.
struct PhysicalDevice {
  std::string name;
  std::string device_type;
  friend bool operator==(const PhysicalDevice&, const PhysicalDevice&) = default;
};

// "/device:GPU:0", "GPU". `priority` is a CUDA stream priority for the work of this device.
struct LogicalDevice {
  std::string name;
  std::string device_type;
  int priority = 0;
  friend bool operator==(const LogicalDevice&, const LogicalDevice&) = default;
};

struct DeviceDetails {
  std::string device_name;
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  Bytes total_memory;
  std::string uuid;        // "GPU-..."
  std::string pci_bus_id;  // "0000:17:00.0"
};

// All devices, or those of one type, "GPU" or "CPU". Without a driver there is the CPU alone, and
// diagnostics() says why. Does not initialise.
VRAM_API std::vector<PhysicalDevice> list_physical_devices(std::string_view device_type = {});

// ValueError: not from list_physical_devices. Nothing is known of the CPU: all fields are empty.
VRAM_API DeviceDetails get_device_details(const PhysicalDevice& device);

VRAM_API std::vector<PhysicalDevice> get_visible_devices(std::string_view device_type = {});

// Only these devices get a pool; with a type, the devices of other types stay as they are.
// ValueError: unknown device, or one of another type; strict: a device twice. RuntimeError: after
// initialisation, unless nothing changes.
VRAM_API void set_visible_devices(const std::vector<PhysicalDevice>& devices,
                                  std::string_view device_type = {});

// ---- How much, and when ----------------------------------------------------------------------

// True: memory is taken from the driver as it is needed. False: all at the first allocation.
// Without a call TensorFlow takes all; the default pool of strict mode takes what is needed, up to
// the same limit, and gives back what lies idle. ValueError: unknown device, the CPU; compat: the
// device has a logical configuration (in the other order the growth is dropped for all devices,
// silently); strict: false on a device with reserves. RuntimeError: after initialisation, unless
// nothing changes. Compat: values that differ among the visible GPUs are a ValueError at
// initialisation; strict: each device has its own.
VRAM_API void set_memory_growth(const PhysicalDevice& device, bool enable);
// Empty: never set.
VRAM_API std::optional<bool> get_memory_growth(const PhysicalDevice& device);

// The most that all logical devices of this GPU together take from the driver: a size, or a share
// of the card's total. ValueError: unknown device, the CPU, 0, more than the card has, less than
// its logical devices were promised. RuntimeError: after initialisation, unless nothing changes;
// always in compat mode, since TensorFlow has no such call.
VRAM_API void set_memory_limit(const PhysicalDevice& device, Size limit);
VRAM_API std::optional<Bytes> get_memory_limit(const PhysicalDevice& device);

// One of the logical devices of a physical one.
//   memory_limit alone: a hard split. The limits together fit the card; nothing is shared.
//   with reserve: an elastic split. The reserve is always there; between reserve and limit (without
//   one: the whole card) a device takes what no reserve needs and nobody uses. Strict mode only.
struct LogicalDeviceConfiguration {
  std::optional<Size> memory_limit;
  std::optional<Size> reserve;
  std::optional<int> priority;
  friend bool operator==(const LogicalDeviceConfiguration&,
                         const LogicalDeviceConfiguration&) = default;
};

// Splits a device. ValueError: unknown device; a GPU part without memory_limit (strict: and without
// reserve); a CPU part with one; priority on some parts only (compat: at initialisation).
// InvalidArgument: a priority that the card has not (compat: at initialisation). RuntimeError:
// after initialisation, unless nothing changes. Strict, ValueError: a limit or reserve of 0 bytes
// in total, a reserve above its limit, reserves on some parts only, hard limits or reserves that
// together exceed the card or its set_memory_limit. Compat: limits are cut to whole MiB and neither
// checked nor summed, as in TensorFlow.
VRAM_API void set_logical_device_configuration(
    const PhysicalDevice& device, const std::vector<LogicalDeviceConfiguration>& parts);
VRAM_API std::optional<std::vector<LogicalDeviceConfiguration>> get_logical_device_configuration(
    const PhysicalDevice& device);

// True, the default: a name of a GPU that does not exist means the CPU (pinned host memory). It
// never helps against running out of memory.
VRAM_API void set_soft_device_placement(bool enabled);
VRAM_API bool get_soft_device_placement();

// ---- Logical devices: all of these initialise --------------------------------------------------

VRAM_API std::vector<LogicalDevice> list_logical_devices(std::string_view device_type = {});
VRAM_API std::vector<LogicalDevice> logical_devices_of(const PhysicalDevice& device);
// ValueError: not from list_logical_devices.
VRAM_API PhysicalDevice physical_device_of(const LogicalDevice& device);

// ---- Memory ----------------------------------------------------------------------------------

struct MemoryInfo {
  Bytes current;  // live blocks, as they were rounded
  Bytes peak;     // of current, since the start or reset_memory_stats
  Bytes limit;
  Bytes reserved;  // held from the driver
  Bytes peak_reserved;
  Bytes largest_free;  // the largest request that needs nothing from the driver
  Bytes largest_request;
  std::uint64_t live_blocks = 0;
  std::uint64_t allocations = 0;  // ever
  std::uint64_t failures = 0;     // ever
  double fragmentation = 0;       // (free - largest free) / free, 0 when nothing is free
};

struct FragmentationSample {
  std::uint64_t time_ms = 0;  // on the monotonic clock
  double fragmentation = 0;
  Bytes current;
  Bytes reserved;
};

class Memory;

// The memory of one logical device. Copies refer to the same memory and keep it alive; without one
// (default-constructed) only operator bool may be called. No lock of the configuration is taken.
class VRAM_API DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  explicit operator bool() const { return memory_ != nullptr; }

  // A device address (of the CPU device: pinned host memory), aligned to 256 bytes, ready for work
  // on `stream`; null for 0 bytes. ResourceExhausted: the limit or the driver refuses; the message
  // says what is held and what would have helped.
  [[nodiscard]] void* allocate(Bytes bytes, CUstream_st* stream = nullptr) const;
  // Null: nothing. ValueError: not a live block of this device. `stream` carries its last use.
  void deallocate(void* address, CUstream_st* stream = nullptr) const;
  // The block is also used by work that is already on `stream`.
  void record_use(void* address, CUstream_st* stream) const;

  // Gives idle memory back to the driver until `keep` is held; returns what was given back.
  Bytes trim(Bytes keep = Bytes()) const;
  [[nodiscard]] MemoryInfo info() const;
  void reset_stats() const;  // peaks become the present values
  // Takes a sample now. The pool takes one by itself when it grows and when a request fails.
  FragmentationSample sample() const;
  // The last 512 samples, the oldest first.
  [[nodiscard]] std::vector<FragmentationSample> fragmentation_history() const;

 private:
  std::shared_ptr<Memory> memory_;
};

// Initialises. ValueError: no such device.
VRAM_API DeviceMemory memory(const LogicalDevice& device);
// "GPU:0", "/device:GPU:0", "GPU" where there is one. A GPU that does not exist: the CPU's memory
// with soft placement, else InvalidArgument.
VRAM_API DeviceMemory memory(std::string_view device);

// The same in one call; for many allocations keep the DeviceMemory.
[[nodiscard]] VRAM_API void* allocate(const LogicalDevice& device, Bytes bytes,
                                      CUstream_st* stream = nullptr);
VRAM_API void deallocate(const LogicalDevice& device, void* address, CUstream_st* stream = nullptr);

// ValueError: the CPU, a name that is none, "GPU" where there are several.
VRAM_API MemoryInfo get_memory_info(std::string_view device);
VRAM_API MemoryInfo get_memory_info(const LogicalDevice& device);
VRAM_API void reset_memory_stats(std::string_view device);
VRAM_API std::vector<FragmentationSample> fragmentation_history(const LogicalDevice& device);

// ---- For a person: none of these initialises ---------------------------------------------------

// One line for the start of a log: mode, devices, what each may take.
VRAM_API std::string status_line();
// Devices, settings and, once initialised, pools: as a table, or JSON (sizes in bytes).
VRAM_API std::string describe();
VRAM_API std::string describe_json();
// What each pool holds; empty, or an empty list, before initialisation.
VRAM_API std::string memory_info();
VRAM_API std::string memory_info_json();
// What was found and not honoured, or not as its author may think; one line each.
VRAM_API std::vector<std::string> diagnostics();

}  // namespace vram::config
