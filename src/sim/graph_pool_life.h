// The end of a device's graph memory in this process.
#pragma once

namespace vram::sim {

// The process's last context on the device is gone, and with it what graphs held.
void drop_graph_memory(int device);

}  // namespace vram::sim
