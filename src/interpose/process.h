#pragma once

// This process as a member of its job: the accounts of its devices, and what it holds on them.
//
// Everything here lies in memory that the kernel zeroes in a forked child: a child that starts to
// use CUDA joins the job as a process of its own, and one that does not costs nothing.
//
// Threads: any. Nothing is allocated or locked once the process has joined.

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "base/level_table.h"
#include "driver/real.h"
#include "ledger/ledger.h"
#include "wire/trace_log.h"

namespace vram::pool {
class Segments;
}  // namespace vram::pool
namespace vram::residency {
class ElasticMemory;
}  // namespace vram::residency

namespace vram::interpose {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr unsigned kMaxContexts = 4096;

// A stream-ordered pool that lives on a governed card; see pools.cc for the rest.
struct PoolSlot {
  std::atomic<std::uint64_t> handle;  // 0: free
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint32_t> credit;
  std::atomic<bool> exported;            // other processes may open its memory
  std::atomic<std::uint64_t> threshold;  // bytes that it may keep, as the program set it
};
inline constexpr std::uint32_t kMaxPools = 256;

// What a process has of one card; the index is CUDA's ordinal in this process.
struct Device {
  ledger::Account account;  // false: the job has no account for it, nothing is governed
  std::uint64_t capacity;   // bytes, as the driver says
  std::uint64_t threads;    // resident at once on the whole card, for stacks
  std::uint8_t uuid[16];
  std::atomic<PoolSlot*> current_pool;     // null: none that is governed
  std::atomic<CUcontext> primary;          // the last one that was retained
  std::atomic<std::uint32_t> slab_credit;  // see blocks.cc
  std::atomic<std::uint64_t> graph_bytes;  // see graphs.cc
  std::atomic<std::uint64_t> orphaned;     // see measure.h
  std::atomic<std::uint32_t> measure_due;  // see measure.h
  std::atomic<std::uint64_t> measured_ms;  // see measure.h
  std::atomic<std::uint64_t> beside_rows;  // see card.h
  std::atomic<std::uint64_t> external;     // bytes, see imports.cc
  std::atomic<std::uint64_t> stack_bytes;  // of a thread, the largest asked for
  std::atomic<pool::Segments*> own_pool;   // see own_pools.h
  std::atomic<bool> own_tables;            // are charged for it
};

// Where elastic memory is, as far as only this process needs to know; see parking.cc.
struct ParkingState {
  struct Bytes {
    std::uint64_t program;  // of what the program maps itself
    std::uint64_t pools;    // of what own pools hold
  };
  struct Away {
    std::atomic<std::uint64_t> program, pools;
  };
  std::atomic<bool> wanted;          // a call waits for it
  std::uint64_t passes;              // of the gate, when somebody last looked
  Bytes leaving[wire::kMaxDevices];  // pending, on the way to the host
  Away away[wire::kMaxDevices];      // on the host, and charged no more
};

enum class Phase : std::uint32_t {
  kFresh = 0,
  kJoining,
  kGoverned,
  kFree,     // no job: nothing is governed
  kRefused,  // there is a job, but it could not be joined, and its policy is to refuse
};

struct Process {
  std::atomic<Phase> phase;
  std::uint32_t trace_process;         // number in the log
  std::atomic<wire::TraceLog*> trace;  // null: nothing is recorded; see trace.h
  std::uint32_t slot;
  std::uint32_t device_count;
  std::atomic<std::uint32_t> next_context;
  std::atomic<std::uint32_t> graphs_with_memory;  // execs alive
  std::atomic<std::uint32_t> captures;            // under way, see capture.h
  std::atomic<std::uint32_t> shares;              // memory with others, see measure.h
  std::atomic<std::uint32_t> pools_used;          // one past the highest slot of `pool` ever taken
  Device device[wire::kMaxDevices];
  PoolSlot pool[kMaxPools];
  pthread_mutex_t own_pools_lock;  // opening and closing own pools; all zero is unlocked
  std::atomic<bool> own_pools;     // the job asks for them
  pthread_mutex_t caretaking;      // see caretaker.h
  pthread_mutex_t starting_caretaker;
  pthread_mutex_t restoring;                       // once there is no caretaker any more
  pthread_mutex_t ending_context;                  // or waiting for the work of all
  std::atomic<residency::ElasticMemory*> elastic;  // see elastic.h
  ParkingState parking;

  base::LevelTable contexts;  // CUcontext -> device | number << 8
  base::LevelTable blocks;    // device pointer, CUarray ... -> Block
  base::LevelTable slabs;     // address -> live blocks in it
  base::LevelTable handles;   // CUmemGenericAllocationHandle -> Handle, see virtual.cc
  base::LevelTable mappings;  // address -> bytes
  base::LevelTable mapped;    // address -> handle
  base::LevelTable execs;     // CUgraphExec -> bytes of its memory nodes, see graphs.cc
  base::LevelTable imports;   // CUexternalMemory, imported pointer -> bytes | device
};

Process& process();

// Called once, at load.
void wipe_on_fork();

// After cuInit succeeded, or later by itself. True: the process is governed.
bool joined();

// There is a job, but this process could not join it and the policy is to refuse: every call that
// takes memory, and cuInit, is answered with an error.
bool refused();

// The device and context a call works in. False: there is no current context (the driver will say
// so), or the process is not governed.
struct Here {
  Device* device;
  std::uint32_t ordinal;
  std::uint32_t context;  // number of the context in this process
};
bool locate(Here* here);
bool locate_context(CUcontext context, Here* here);

// Gives a context of this device its number, unless it has one. Returns its value in the table of
// contexts; 0: no memory for that. A handle stays in the table for ever, with value 0 once the
// context is gone: the driver may use it again.
std::uint64_t note_context(CUcontext context, CUdevice ordinal);
Device* device_at(CUdevice ordinal);  // null: not governed

// Marks a call of ours under way in this thread, and keeps errno as the program left it. A call
// that arrives while another is under way comes from the driver itself and goes straight through.
class Guard {
 public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  bool nested() const { return nested_; }

 private:
  int errno_;
  bool nested_;
};

constexpr std::uint64_t least(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  const std::uint64_t rest = bytes % unit;
  if (rest == 0) return bytes;
  return bytes > ~std::uint64_t{0} - (unit - rest) ? ~std::uint64_t{0} : bytes + (unit - rest);
}

}  // namespace vram::interpose
