// The public functions of vram/config.h over the runtime of this process.

#include "config/describe.h"
#include "config/process.h"
#include "vram/config.h"

namespace vram::config {

void set_mode(Mode mode) { raise_if(process_runtime().set_mode(mode)); }
Mode get_mode() { return value_or_raise(process_runtime().mode()); }

std::vector<PhysicalDevice> list_physical_devices(std::string_view device_type) {
  return value_or_raise(process_runtime().list_physical_devices(device_type));
}
DeviceDetails get_device_details(const PhysicalDevice& device) {
  return value_or_raise(process_runtime().device_details(device));
}
std::vector<PhysicalDevice> get_visible_devices(std::string_view device_type) {
  return value_or_raise(process_runtime().visible_devices(device_type));
}
void set_visible_devices(const std::vector<PhysicalDevice>& devices, std::string_view device_type) {
  raise_if(process_runtime().set_visible_devices(devices, device_type));
}

void set_memory_growth(const PhysicalDevice& device, bool enable) {
  raise_if(process_runtime().set_memory_growth(device, enable));
}
std::optional<bool> get_memory_growth(const PhysicalDevice& device) {
  return value_or_raise(process_runtime().memory_growth(device));
}
void set_memory_limit(const PhysicalDevice& device, Size limit) {
  raise_if(process_runtime().set_memory_limit(device, limit));
}
std::optional<Bytes> get_memory_limit(const PhysicalDevice& device) {
  return value_or_raise(process_runtime().memory_limit(device));
}
void set_logical_device_configuration(const PhysicalDevice& device,
                                      const std::vector<LogicalDeviceConfiguration>& parts) {
  raise_if(process_runtime().set_logical_device_configuration(device, parts));
}
std::optional<std::vector<LogicalDeviceConfiguration>> get_logical_device_configuration(
    const PhysicalDevice& device) {
  return value_or_raise(process_runtime().logical_device_configuration(device));
}
void set_soft_device_placement(bool enabled) {
  raise_if(process_runtime().set_soft_device_placement(enabled));
}
bool get_soft_device_placement() { return process_runtime().soft_device_placement(); }

std::vector<LogicalDevice> list_logical_devices(std::string_view device_type) {
  return value_or_raise(
      process_runtime().list_logical_devices(device_type, "list_logical_devices()"));
}
std::vector<LogicalDevice> logical_devices_of(const PhysicalDevice& device) {
  return value_or_raise(process_runtime().logical_devices_of(device));
}
PhysicalDevice physical_device_of(const LogicalDevice& device) {
  return value_or_raise(process_runtime().physical_device_of(device));
}

DeviceMemory memory(const LogicalDevice& device) {
  return DeviceMemory(value_or_raise(process_runtime().memory(device, "memory()")));
}
DeviceMemory memory(std::string_view device) {
  return DeviceMemory(value_or_raise(process_runtime().memory(device, "memory()")));
}
void* allocate(const LogicalDevice& device, Bytes bytes, CUstream_st* stream) {
  return DeviceMemory(value_or_raise(process_runtime().memory(device, "allocate()")))
      .allocate(bytes, stream);
}
void deallocate(const LogicalDevice& device, void* address, CUstream_st* stream) {
  DeviceMemory(value_or_raise(process_runtime().memory(device, "deallocate()")))
      .deallocate(address, stream);
}

MemoryInfo get_memory_info(std::string_view device) {
  return value_or_raise(process_runtime().gpu_memory(device, "get_memory_info()"))->info();
}
MemoryInfo get_memory_info(const LogicalDevice& device) { return get_memory_info(device.name); }
void reset_memory_stats(std::string_view device) {
  value_or_raise(process_runtime().gpu_memory(device, "reset_memory_stats()"))->reset_stats();
}
std::vector<FragmentationSample> fragmentation_history(const LogicalDevice& device) {
  return value_or_raise(process_runtime().memory(device, "fragmentation_history()"))->history();
}

std::string status_line() { return status_line(value_or_raise(process_runtime().snapshot())); }
std::string describe() { return describe_text(value_or_raise(process_runtime().snapshot())); }
std::string describe_json() { return describe_json(value_or_raise(process_runtime().snapshot())); }
std::string memory_info() { return memory_text(value_or_raise(process_runtime().snapshot())); }
std::string memory_info_json() { return memory_json(value_or_raise(process_runtime().snapshot())); }
std::vector<std::string> diagnostics() {
  return value_or_raise(process_runtime().snapshot()).diagnostics;
}

}  // namespace vram::config
