// The machine's file in /dev/shm, as all processes map it. Any change of it takes a new kVersion.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <type_traits>

#include "sim/spec.h"

namespace vram::sim {

inline constexpr uint32_t kMaxProcesses = 8192;
// One hold a process and shared object; a job of 8 processes that share 1,000 buffers with each
// other needs 8,000.
inline constexpr uint32_t kMaxHolds = 65536;

struct CardState {
  uint64_t bytes;
  uint64_t used;  // derived
};

// What a look through all processes needs, apart from the bulk so that it touches few pages.
struct RowHead {
  uint32_t in_use;      // written last when a row is taken, first when it is given back
  int32_t pid;          // in the process's own PID namespace
  uint64_t start_time;  // field 22 of /proc/PID/stat
  uint64_t generation;  // of the row's use, never the same again
};

struct alignas(64) ProcessRow {
  uint64_t own[kMaxCards];
  uint64_t shared[kMaxCards];  // derived from the holds
  int32_t contexts[kMaxCards];
};

struct Hold {
  uint64_t object;  // 0: free; written last
  uint64_t bytes;
  uint64_t order;  // the lowest of an object pays
  uint32_t row;
  uint16_t card;
  uint16_t paying;  // derived
  int32_t keeper;   // of a lifeline that the hold ends with; -1: it ends when it is dropped
  uint32_t unused;
};

struct MachineLayout {
  static constexpr uint64_t kMagic = 0x76726d73696d6d63;  // "vrmsimmc"
  static constexpr uint32_t kVersion = 3;

  uint64_t magic;  // written last
  uint32_t version;
  uint32_t card_count;
  pthread_mutex_t mutex;
  uint32_t row_limit;   // no row at or above it has ever been in use
  uint32_t hold_limit;  // likewise
  uint64_t next_object;
  uint64_t next_order;
  CardState cards[kMaxCards];
  RowHead heads[kMaxProcesses];
  ProcessRow rows[kMaxProcesses];
  Hold holds[kMaxHolds];
};

static_assert(std::is_trivially_copyable_v<ProcessRow> && sizeof(ProcessRow) % 64 == 0);
static_assert(sizeof(Hold) == 40);
// Byte `row` of the lock space; beyond the end of the file, which locks may be.
inline constexpr int64_t kLockOffset = int64_t{1} << 40;
static_assert(sizeof(MachineLayout) < kLockOffset);

}  // namespace vram::sim
