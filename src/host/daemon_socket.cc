#include "host/daemon_socket.h"

#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>

#include "wire/daemon_client.h"
#include "wire/job_file.h"

namespace vram::host {
namespace {

std::string chosen() {
  const char* named = std::getenv("VRAM_DAEMON");
  if (named != nullptr && named[0] != '\0') return std::string(named) == "none" ? "" : named;
  const bool own_folder = std::getenv("VRAM_STATE_DIR") != nullptr;
  if (!own_folder && access(wire::kSystemSocket, F_OK) == 0) return wire::kSystemSocket;
  char folder[wire::kPathSize];
  wire::state_folder(folder);
  return std::string(folder) + "/" + wire::kSocketName;
}

}  // namespace

std::string daemon_socket() {
  const std::string path = chosen();
  return path.size() < sizeof(sockaddr_un::sun_path) ? path : "";
}

}  // namespace vram::host
