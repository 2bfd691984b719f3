#pragma once

// Which process of which job a connection is of.

#include <sys/socket.h>

#include "daemon/sight.h"

namespace vram::daemon {

// Of the caller's own jobs; of any for root.
Found find_peer(const Sight& sight, const ucred& peer);

}  // namespace vram::daemon
