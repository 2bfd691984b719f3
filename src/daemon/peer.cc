#include "daemon/peer.h"

#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "base/process_identity.h"
#include "ledger/slots.h"

namespace vram::daemon {
namespace {

// As the process itself, in a pid namespace of its own perhaps, writes it into its slot.
ledger::Owner owner_as_seen_inside(std::int32_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  struct stat space {};
  const std::uint64_t identity = base::identity_of(pid);
  if (identity == 0 || stat((folder + "/ns/pid").c_str(), &space) != 0) return {};
  std::ifstream status(folder + "/status");
  std::int32_t inner = pid;
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, 6, "NSpid:") != 0) continue;
    std::istringstream pids(line.substr(6));  // from the outermost namespace to its own
    for (std::int32_t next = 0; pids >> next;) inner = next;
  }
  constexpr std::uint64_t kPidMask = (std::uint64_t{1} << base::kPidBits) - 1;
  return {(identity & ~kPidMask) | static_cast<std::uint64_t>(inner), space.st_ino};
}

}  // namespace

Found find_peer(const Sight& sight, const ucred& peer) {
  const ledger::Owner owner = owner_as_seen_inside(peer.pid);
  for (const host::JobInfo& job : sight.jobs) {
    if (job.uid != peer.uid && peer.uid != 0) continue;
    for (const host::JobMember& member : job.members) {
      if (member.owner == owner) return {&job, &member};
    }
  }
  return {};
}

}  // namespace vram::daemon
