#include "interpose/trace.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "interpose/job.h"
#include "wire/trace_file.h"

namespace vram::interpose {
namespace {

using wire::TraceKind;
using wire::TraceMark;
using wire::TraceRecord;

wire::TraceLog* mapped = nullptr;  // shared with forked children

// Its address names the thread; even, so that with one added it is no handle.
alignas(8) thread_local char thread_mark;

std::uint64_t this_thread() { return reinterpret_cast<std::uint64_t>(&thread_mark) + 1; }

// No system call: the C library reads a page that the kernel keeps up to date.
std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

struct Entry {
  std::uint64_t key = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
};

// Null: there is no room, and the record is lost. The reader sees that by the gap.
TraceRecord* append(TraceMark mark, const Entry& entry) {
  Process& self = process();
  wire::TraceLog& log = *self.trace.load(std::memory_order_relaxed);
  const std::uint64_t at = log.header.next.fetch_add(1, std::memory_order_relaxed);
  if (at >= log.header.backed.load(std::memory_order_relaxed)) return nullptr;
  TraceRecord& record = log.record[at];
  record.time_ns = now_ns();
  record.key = entry.key;
  record.bytes = entry.bytes;
  record.stream = entry.stream;
  mark.process = static_cast<std::uint16_t>(self.trace_process);
  std::uint64_t packed = 0;
  memcpy(&packed, &mark, sizeof packed);
  record.mark.store(packed, std::memory_order_release);
  return &record;
}

TraceMark mark_of(TraceKind kind, std::uint8_t detail) { return {kind, detail, 0, 0, 0}; }

// Where memory was taken.
void place(const Taking& taking, TraceMark* mark) {
  const Device* device = taking.device;
  Here here{};
  if (locate(&here)) {
    mark->context = static_cast<std::uint16_t>(here.context);
    if (device == nullptr) device = here.device;
  }
  if (device != nullptr) mark->device = static_cast<std::uint16_t>(device->account.device());
}

}  // namespace

void find_trace() {
  if (mapped != nullptr || job() == nullptr || job()->header.trace_path[0] == '\0') return;
  const int saved = errno;
  mapped = wire::open_trace(job()->header.trace_path).log;
  errno = saved;
}

void join_trace(Process& self) {
  if (job()->header.trace_path[0] == '\0') return;
  if (mapped == nullptr) {
    job()->header.untraced.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::uint32_t at = mapped->header.processes.fetch_add(1, std::memory_order_relaxed);
  if (at >= wire::kMaxTraceProcesses) {
    job()->header.untraced.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  wire::TraceProcess& entry = mapped->process[at];
  entry.pid = getpid();
  const wire::ProcessInfo& info = job()->process[self.slot];
  static_assert(sizeof entry.command >= sizeof info.command);
  memcpy(entry.command, info.command, sizeof info.command);
  entry.joined_ns.store(now_ns(), std::memory_order_release);
  self.trace_process = at;
  self.trace.store(mapped, std::memory_order_relaxed);
}

std::uint64_t stream_id(CUstream stream) {
  if (stream == CU_STREAM_PER_THREAD) return this_thread();
  return stream == CU_STREAM_LEGACY ? 0 : key_of(stream);
}

std::uint64_t stream_id_per_thread(CUstream stream) {
  return stream == nullptr ? this_thread() : stream_id(stream);
}

void note_taken(const Taking& taking, std::uint64_t key) {
  TraceMark mark = mark_of(TraceKind::kTaken, static_cast<std::uint8_t>(taking.way));
  place(taking, &mark);
  (void)append(mark, {key, taking.bytes, taking.on.id(taking.on.stream)});
}

void note_refused(const Taking& taking) {
  TraceMark mark = mark_of(TraceKind::kRefused, static_cast<std::uint8_t>(taking.way));
  place(taking, &mark);
  (void)append(mark, {0, taking.bytes, taking.on.id(taking.on.stream)});
}

void note_capture(TraceKind kind, const OnStream& on) {
  (void)append(mark_of(kind, 0), {0, 0, on.id(on.stream)});
}

void note_context_end(std::uint32_t ordinal, std::uint32_t context) {
  Process& self = process();
  bool last = true;
  self.contexts.for_each([&](std::uint64_t, std::uint64_t value) {
    if (value != 0 && (value & 0x7f) == ordinal) last = false;
  });
  TraceMark mark = mark_of(TraceKind::kContextEnd, 0);
  mark.device = static_cast<std::uint16_t>(self.device[ordinal].account.device());
  mark.context = static_cast<std::uint16_t>(context);
  (void)append(mark, {0, last ? 1u : 0u, 0});
}

TraceRecord* note_freed(KeySpace space, std::uint64_t key, const OnStream* on) {
  const std::uint64_t ordered = on != nullptr ? 1 : 0;
  return append(mark_of(TraceKind::kFreed, static_cast<std::uint8_t>(space)),
                {key, ordered, on != nullptr ? on->id(on->stream) : 0});
}

void take_back(TraceRecord* freed) {
  if (freed == nullptr) return;
  TraceMark mark = mark_of(TraceKind::kUndone, 0);
  mark.process = static_cast<std::uint16_t>(process().trace_process);
  std::uint64_t packed = 0;
  memcpy(&packed, &mark, sizeof packed);
  freed->mark.store(packed, std::memory_order_release);
}

}  // namespace vram::interpose
