// Whatever comes in a packet, it is a request whose fields can be used as they are, or none.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "wire/daemon_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace vram::wire;
  DaemonRequest request{};
  const RequestFault fault = read_request(data, size, &request);
  if (fault != RequestFault::kNone) {
    const DaemonRequest untouched{};
    if (std::memcmp(&request, &untouched, sizeof request) != 0) std::abort();
    if (std::strlen(describe(fault)) == 0) std::abort();
    return 0;
  }
  if (size != sizeof request || std::strlen(request.job) >= sizeof request.job) std::abort();
  if (request.ask < DaemonAsk::kAdmit || request.ask > DaemonAsk::kStay) std::abort();
  return 0;
}
