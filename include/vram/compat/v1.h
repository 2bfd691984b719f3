#pragma once

// TensorFlow 1's way to say the same as vram/config.h: a ConfigProto, given to a Session. Field
// names, units and defaults are those of TensorFlow's config.proto.
//
// Strict mode: a session's options hold for the devices it sees, whatever other sessions said of
// others; options that contradict what a device already has are AlreadyExists. Compat mode: the
// first session fixes growth and limits for the whole process, later options are ignored silently,
// and another visible_device_list is AlreadyExists.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vram/api.h"
#include "vram/config.h"
#include "vram/error.h"

namespace vram::compat::v1 {

struct GPUOptions {
  // Share of a card's total memory; 0: what is free, less a reserve for the driver's libraries.
  // Strict: in (0, 1], above 1 only with use_unified_memory. Compat: unchecked; above 1 the memory
  // is managed (InternalError below compute capability 6.0).
  double per_process_gpu_memory_fraction = 0;
  // Unset: the mode's default (compat: false, all at the first allocation).
  std::optional<bool> allow_growth;
  // "" or "BFC"; InternalError otherwise.
  std::string allocator_type;
  // "1,0": CUDA's numbers, in the order wanted. InvalidArgument: no number, no such device, twice.
  std::string visible_device_list;

  struct Experimental {
    // One entry for each visible GPU; limits in MiB, cut to whole ones. An entry without limits is
    // one device. Not together with per_process_gpu_memory_fraction (InvalidArgument).
    struct VirtualDevices {
      std::vector<float> memory_limit_mb;
      std::vector<int> priority;  // none, or one for each limit
    };
    std::vector<VirtualDevices> virtual_devices;
    // Above 1: each GPU without virtual_devices is that many devices of equal limits.
    int num_virtual_devices_per_gpu = 0;
    bool use_unified_memory = false;
    // MiB of each card's free memory to leave alone, instead of the fraction; 0: the rule decides.
    int gpu_system_memory_size_in_mb = 0;
  } experimental;
};

struct ConfigProto {
  // "GPU": at most so many of the visible ones; 0: none. "CPU": so many CPU devices.
  std::map<std::string, int> device_count;
  // A GPU that the session has not means the CPU.
  bool allow_soft_placement = false;
  GPUOptions gpu_options;
};

class SessionState;

// Creates the devices of `config`, or joins those that are there. Any thread; copies are the same
// session. Closing frees nothing in compat mode, as in TensorFlow; in strict mode idle memory of
// its devices goes back to the driver.
class VRAM_API Session {
 public:
  // InvalidArgument, AlreadyExists, InternalError, UnknownError: as said at the options.
  Session();
  explicit Session(const ConfigProto& config);

  // In the session's own order: its device "GPU:0" is the first GPU of the list.
  [[nodiscard]] std::vector<config::LogicalDevice> list_devices() const;
  // InvalidArgument: no such device, and no soft placement.
  [[nodiscard]] config::DeviceMemory memory(std::string_view device = "GPU:0") const;
  void close();

 private:
  std::shared_ptr<SessionState> state_;
};

// Makes `config` the base of the v2 configuration, as TensorFlow 2 does at its start: device_count
// and visible_device_list become the visible devices, the rest applies where v2 says nothing.
// ValueError: visible_device_list names a number that no GPU has (ignored on a host without GPU).
// RuntimeError: after initialisation.
VRAM_API void enable_eager_execution(const ConfigProto& config);

}  // namespace vram::compat::v1
