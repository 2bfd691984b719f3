// The public functions of vram/compat/v1.h over the runtime of this process.

#include "vram/compat/v1.h"
#include "config/process.h"

namespace vram::compat::v1 {

// One open session; closed once, by whoever comes first.
class SessionState {
 public:
  explicit SessionState(config::Runtime::SessionDevices devices) : devices_(std::move(devices)) {}
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;
  ~SessionState() { config::process_runtime().close_session(devices_); }

  [[nodiscard]] const config::Runtime::SessionDevices& devices() const { return devices_; }

 private:
  config::Runtime::SessionDevices devices_;
};

Session::Session() : Session(ConfigProto{}) {}

Session::Session(const ConfigProto& config)
    : state_(std::make_shared<SessionState>(
          config::value_or_raise(config::process_runtime().open_session(config)))) {}

std::vector<config::LogicalDevice> Session::list_devices() const {
  return config::process_runtime().session_list(state_->devices());
}

config::DeviceMemory Session::memory(std::string_view device) const {
  return config::DeviceMemory(
      config::value_or_raise(config::process_runtime().session_memory(state_->devices(), device)));
}

void Session::close() { config::process_runtime().close_session(state_->devices()); }

void enable_eager_execution(const ConfigProto& config) {
  config::raise_if(config::process_runtime().import_config(config));
}

}  // namespace vram::compat::v1
