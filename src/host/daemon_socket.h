#pragma once

// Where the daemon of this user's jobs listens, whether or not it runs.

#include <string>

namespace vram::host {

// $VRAM_DAEMON when it is set ("none": no daemon); beside the job files when they lie in a folder
// that somebody chose, for the system's daemon does not look there; the system's daemon where there
// is one; else the user's own. Empty: none, or a path longer than a socket's may be.
std::string daemon_socket();

}  // namespace vram::host
