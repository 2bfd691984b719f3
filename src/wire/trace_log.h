#pragma once

// The log of a recording: a sparse file of records of one size, shared by the command that records
// and the processes of its job. Each process appends what it does to device memory; the command
// makes a trace of it afterwards (src/trace).
//
// Appending is one atomic addition, plain stores, and one store with release order that makes the
// record count. Whatever instruction a process dies at, a record is whole or is not there. Only
// records that lie on pages the command backed beforehand are written: a full disk is an error
// there and never a signal in a host program. The command keeps `backed` ahead of `next`; what is
// claimed beyond it is lost, and counted by whoever reads.
//
// Zero means "nothing yet". Layout changes raise kTraceVersion.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vram::wire {

inline constexpr std::uint64_t kTraceMagic = 0x6372742d6d617276;  // "vram-trc", little-endian
inline constexpr std::uint32_t kTraceVersion = 1;
inline constexpr std::uint32_t kMaxTraceProcesses = 4096;

// How memory was taken; docs/user/trace-format.md has the words and calls.
enum class Way : std::uint8_t {
  kAsync = 0,
  kPool,
  kAlloc,
  kPitch,
  kManaged,
  kCreate,
  kArray,
  kMipmap,
  kGraph,
  kCaptured,
  kIpc,
  kImport,
  kExternal,
};
inline constexpr int kWayCount = 13;

// What a key is: two kinds of handle may have the same value.
enum class KeySpace : std::uint8_t { kAddress, kHandle, kArray, kExec, kExternal };

constexpr KeySpace key_space(Way way) {
  switch (way) {
    case Way::kCreate:
    case Way::kImport:
      return KeySpace::kHandle;
    case Way::kArray:
    case Way::kMipmap:
      return KeySpace::kArray;
    case Way::kGraph:
      return KeySpace::kExec;
    case Way::kExternal:
      return KeySpace::kExternal;
    default:
      return KeySpace::kAddress;
  }
}

enum class TraceKind : std::uint8_t {
  kNothing = 0,   // not written, or not to its end
  kTaken,         // way, device, context, key, bytes, stream
  kFreed,         // detail: KeySpace; key; bytes: 1 when ordered by the stream
  kRefused,       // way, device, bytes, stream
  kCaptureBegin,  // stream
  kCaptureEnd,    // stream
  kContextEnd,    // device, context; bytes: 1 when it was the process's last one on the device
  kUndone,        // a free that failed
};

struct TraceMark {
  TraceKind kind;
  std::uint8_t detail;  // Way or KeySpace
  std::uint16_t process;
  std::uint16_t device;  // account in the job
  std::uint16_t context;
};

// `stream`: the handle; 0 for the legacy default stream; an odd number that names the thread for
// its own default stream.
struct alignas(64) TraceRecord {
  std::atomic<std::uint64_t> mark;  // a TraceMark; written last
  std::uint64_t time_ns;            // CLOCK_MONOTONIC
  std::uint64_t key;
  std::uint64_t bytes;
  std::uint64_t stream;
  std::uint64_t reserved[3];
};

// Written by the process when it joins.
struct alignas(128) TraceProcess {
  std::atomic<std::uint64_t> joined_ns;  // written last; 0: nobody
  std::int32_t pid;                      // as it sees itself
  char command[116];
};

struct TraceHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t file_bytes;
  std::uint64_t capacity;  // records
  std::uint64_t start_ns;  // CLOCK_MONOTONIC
  std::uint64_t end_ns;    // 0: the command did not see the end
  std::uint64_t records;   // backed at the end; 0: as end_ns
  std::int32_t main_pid;
  std::uint32_t facts_bytes;
  alignas(128) std::atomic<std::uint64_t> next;    // record to be claimed
  alignas(128) std::atomic<std::uint64_t> backed;  // records that may be written
  std::atomic<std::uint32_t> processes;            // that claimed a place
  char facts[3328];                                // of the trace's header
};

struct TraceLog {
  alignas(4096) TraceHeader header;
  alignas(4096) TraceProcess process[kMaxTraceProcesses];
  alignas(4096) TraceRecord record[1];  // as many as there is room for
};
inline constexpr std::size_t kTraceRecords = offsetof(TraceLog, record);

static_assert(sizeof(TraceMark) == 8);
static_assert(sizeof(TraceRecord) == 64);
static_assert(sizeof(TraceProcess) == 128);
static_assert(sizeof(TraceHeader) <= 4096);
static_assert(offsetof(TraceHeader, next) == 128);
static_assert(offsetof(TraceLog, process) == 4096);
static_assert(kTraceRecords == 4096 + 128 * kMaxTraceProcesses);

}  // namespace vram::wire
