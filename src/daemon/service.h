#pragma once

// What systemd wants of a service, in the few lines that it takes: libsystemd would be a library
// and its dependencies for two datagrams.

#include <cstdint>
#include <optional>
#include <string>

namespace vram::daemon {

// Sends lines like "READY=1" to $NOTIFY_SOCKET; does nothing without one.
void notify_service(const std::string& lines);

// How often the service's keeper wants a sign of life; absent: never.
std::optional<std::uint64_t> watchdog_ms();

// The socket that was opened for this process (LISTEN_FDS); -1: none was.
int inherited_socket();

}  // namespace vram::daemon
