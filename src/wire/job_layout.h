#pragma once

// The shared-memory file of a job: one file a job, mapped by the command that
// started it, by every process of its tree, and by whoever watches it. Fixed
// size, sparse, zero means "nothing yet".
//
// Nothing in it is a lock. Every word that more than one process writes is
// changed by one atomic operation that leaves the file right whichever
// instruction its writer dies at; src/ledger has the rules. A reader needs no
// cooperation from anybody.
//
// Layout changes raise kJobVersion: a process refuses a file of another
// version.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vram::wire {

inline constexpr std::uint64_t kJobMagic = 0x626f6a2d6d617276;  // "vram-job", little-endian
inline constexpr std::uint32_t kJobVersion = 8;

// A host has at most 32 cards today, a card at most 7 MIG instances of which a
// job sees few.
inline constexpr std::uint32_t kMaxDevices = 64;
inline constexpr std::uint32_t kMaxProcesses = 4096;

// Everything is charged in whole granules: the smallest piece a CUDA driver
// hands out, so that rounding up to it invents nothing. It also keeps byte
// counts of 256 TiB within 39 bits.
inline constexpr std::uint64_t kGranule = 512;

inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

// A 16-byte word changed by one compare-and-swap; read and written only through
// src/ledger.
struct alignas(16) Word128 {
  std::uint64_t lo;
  std::uint64_t hi;
};

inline bool operator==(const Word128& a, const Word128& b) { return a.lo == b.lo && a.hi == b.hi; }

// What a process's memory on a device consists of. Informational: the cap is
// held by the charge.
enum class Part : std::uint32_t {
  kBlocks = 0,    // cuMemAlloc and its relatives, arrays, and their slabs
  kVirtual = 1,   // cuMemCreate handles
  kPools = 2,     // reserved by stream-ordered pools
  kGraphs = 3,    // reserved by graph memory nodes
  kManaged = 4,   // managed memory, charged in full
  kContext = 5,   // contexts, modules, stacks, streams: measured
  kImported = 6,  // opened from another process; counted there, shown here
  kCredits = 7,   // charged ahead of use; see src/ledger/credits.h
  kCount = 8,
};

// One process's account on one device.
struct alignas(128) Cell {
  Word128 charge;                        // by its own calls; see src/ledger/word.h
  Word128 beside;                        // measured beside them, by anybody
  std::atomic<std::uint64_t> committed;  // granules, ever; see src/ledger/settled.h
  std::atomic<std::uint64_t> released;   // granules, ever
  std::atomic<std::uint64_t> peak;       // highest charge and what was beside it, bytes
  std::atomic<std::uint64_t> denials;
  std::atomic<std::uint64_t> part[static_cast<std::size_t>(Part::kCount)];  // bytes
};

// The job's account on one device.
struct alignas(64) DeviceAccount {
  Word128 total;  // see src/ledger/word.h; on a cache line of its own
  std::uint64_t padding[6];
  std::atomic<std::uint64_t> key;           // 0 free; else made from the UUID, see ledger/devices.h
  std::atomic<std::uint64_t> limit;         // bytes; kUnlimited: none; 0: not set yet
  std::uint64_t reserve;                    // bytes always there for the job
  std::atomic<std::uint64_t> peak;          // highest total, bytes
  std::atomic<std::uint64_t> denials;       // requests refused because of the limit
  std::atomic<std::uint64_t> denied_bytes;  // size of the largest of them
  std::atomic<std::uint64_t> context_bytes;  // what a context costs here, once somebody measured it
  std::uint64_t capacity;  // bytes of the card as its driver reports it; 0: not known
  std::uint8_t uuid[16];
  std::int32_t index;  // order of NVML; -1: not known
  char name[60];
  char pci[16];                           // "0000:00:06.0"
  std::atomic<std::uint64_t> turn;        // see src/ledger/turn.h
  std::atomic<std::uint32_t> waiting;     // see src/ledger/wait.h
  std::atomic<std::uint32_t> settled;     // times something settled while somebody waited
  std::atomic<std::uint64_t> stay_limit;  // bytes; 0: none; see src/ledger/fixed.h
};

// What is said of the process in a slot; written by that process alone.
struct alignas(64) ProcessInfo {
  std::atomic<std::uint64_t> attached_ns;  // CLOCK_BOOTTIME
  char command[56];                        // /proc/PID/comm and what follows, cut
};

// Where the parkable memory of a process is.
enum class Place : std::uint32_t {
  kNone = 0,  // the process is not elastic, or has no such memory yet
  kCard,
  kParking,
  kHost,  // parked
  kRestoring,
  kWaiting,  // parked, and wanted: the card has no room for it at the moment
};

// Why a process was not parked or restored.
enum class Refusal : std::uint32_t {
  kNone = 0,
  kNothing,     // it holds nothing that could be moved
  kBusy,        // its work did not come to an end in time
  kCapture,     // a stream is being captured into a graph
  kShared,      // memory that other processes or devices can reach
  kManaged,     // managed memory
  kUnmapped,    // memory that is mapped nowhere, so that nobody can copy it
  kHostMemory,  // the host has no memory for it
  kCardMemory,  // the card has no room for it
  kDriver,      // the driver refused a step
};

// Parking of one process: what is asked of it and what it says. See src/ledger/parking.h.
struct alignas(64) Parking {
  std::atomic<std::uint32_t>
      bell;  // futex of the process; rung with everything that it may wait for
  std::atomic<std::uint32_t> answered;  // the last request that it dealt with; futex of who asked
  std::atomic<std::uint64_t> asked;     // the last request; see src/ledger/parking.h
  std::atomic<Place> place;
  std::atomic<Refusal> refusal;         // of the last request that it dealt with
  std::atomic<std::uint32_t> times;     // parked, ever
  std::atomic<std::uint64_t> bytes;     // in host memory now, or moving
  std::atomic<std::uint64_t> moved;     // of those on the move, how many are where they go
  std::atomic<std::uint64_t> move_us;   // what the last move took
  std::atomic<std::uint64_t> since_ns;  // it is where it is; CLOCK_BOOTTIME
  std::atomic<std::uint64_t> idle_ns;   // its work ended then, CLOCK_BOOTTIME; 0: it is at work
  std::atomic<std::uint32_t> pinned;    // 0: its memory can be moved; see src/ledger/fixed.h
};

// Whether a job may take memory of the cards yet.
enum class Admission : std::uint32_t {
  kNotAsked = 0,  // nobody has to admit it
  kWaiting,
  kAdmitted,
};

enum class OnFailure : std::uint32_t { kRefuse = 0, kAllow = 1 };
enum class Pools : std::uint32_t {
  kDriver = 0,   // the driver's
  kOwn = 1,      // vram's, for stream-ordered allocations
  kElastic = 2,  // vram's, for all that can be parked
};

struct JobHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t file_bytes;
  std::uint64_t runner_identity;  // the `vram run` that made the file; as in a slot
  std::uint64_t runner_pid_namespace;
  std::uint64_t created_unix_ns;
  std::uint32_t owner_uid;
  OnFailure on_failure;
  std::uint64_t default_limit;           // for a device nobody named; kUnlimited: none
  std::uint32_t default_limit_permille;  // or this share of the device's capacity; 0: none
  char id[16];
  char name[64];
  char command[256];                      // as typed, cut
  char driver_path[512];                  // the real libcuda.so.1; empty: find it
  char nvml_path[512];                    // the real libnvidia-ml.so.1; empty: find it
  char trace_path[1024];                  // log of a recording, see wire/trace_log.h; empty: none
  Pools pools;                            // who serves allocations
  std::atomic<std::uint32_t> untraced;    // processes that should be recorded and are not
  std::atomic<std::uint64_t> reaped_ms;   // when somebody last looked for the dead; monotonic
  std::atomic<std::uint32_t> slots_used;  // one past the highest slot ever taken
  std::uint64_t default_reserve;          // bytes always there on each card nobody named
  std::uint64_t park_after_ms;            // parked by itself when it idled that long; 0: never
  std::atomic<Admission> admission;       // see src/daemon
  std::uint32_t stays;                    // 1: moved for nobody else; see src/daemon
  char daemon_path[108];                  // socket of vramd, whether or not it runs; empty: none
  std::uint8_t reserved[368];
};

struct Job {
  alignas(4096) JobHeader header;
  alignas(4096) DeviceAccount device[kMaxDevices];
  alignas(4096) Word128 owner[kMaxProcesses];  // see src/ledger/slots.h
  alignas(4096) ProcessInfo process[kMaxProcesses];
  alignas(4096) Parking parking[kMaxProcesses];
  // A device's cells lie together, so that a job on one card touches one run of
  // pages.
  alignas(4096) Cell cell[kMaxDevices][kMaxProcesses];
  // Granules that a process charged for what cannot be moved; see src/ledger/fixed.h.
  alignas(4096) std::atomic<std::uint64_t> fixed[kMaxDevices][kMaxProcesses];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(Cell) == 128);
static_assert(sizeof(DeviceAccount) == 256);
static_assert(sizeof(ProcessInfo) == 64);
static_assert(sizeof(Parking) == 128);
static_assert(sizeof(JobHeader) <= 4096);
static_assert(offsetof(Job, device) == 4096);
static_assert(offsetof(Job, owner) == 4096 + 256 * kMaxDevices);
static_assert(offsetof(Job, cell) % 4096 == 0);
static_assert(offsetof(Job, fixed) % 4096 == 0);

}  // namespace vram::wire
