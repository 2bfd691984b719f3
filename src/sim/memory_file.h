// Files that hold memory of a card, for other processes to find by a descriptor. A file's name
// tells what made it and on which card; its number is that of the machine's object.
#pragma once

#include <cstdint>

namespace vram::sim {

// What `prefix` names makes no sense of the descriptors that another makes.
inline constexpr char kPhysicalFile[] = "vram-sim-physical-";  // cuMemCreate
inline constexpr char kForeignFile[] = "vram-sim-foreign-";    // another interface

inline constexpr int kHostCard = -1;

// A descriptor, -1 when there is none to be had.
[[nodiscard]] int new_memory_file(const char* prefix, int card, uint64_t bytes);

struct MemoryFile {
  uint64_t object = 0;  // never that of an object with a number from Machine::new_object()
  int card = kHostCard;
  uint64_t bytes = 0;
};

// False when the descriptor is of no such file.
[[nodiscard]] bool memory_behind(const char* prefix, int descriptor, MemoryFile* out);

}  // namespace vram::sim
