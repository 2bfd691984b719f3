#pragma once

// Recording what a program does to device memory, in the log that `vram trace` reads afterwards
// (wire/trace_log.h). All events are written here. A process that is not recorded pays one look at
// a pointer beside what every call reads anyway.
//
// An allocation is noted after the driver's call, a free before it: so an address is noted as free
// before the driver can hand it to another thread, and as taken before anybody can free it. A free
// that fails is taken back.
//
// Threads: any. Nothing is allocated or locked, and no system call is made.

#include "interpose/process.h"
#include "wire/trace_log.h"

namespace vram::interpose {

using wire::KeySpace;
using wire::Way;

// Called once, at load, after find_job(): maps the log of the job's recording. Keeps errno.
void find_trace();

// When this process has joined its job. It becomes one of the recording, where there is one.
void join_trace(Process& self);

inline bool is_traced() { return process().trace.load(std::memory_order_relaxed) != nullptr; }

// Streams as the log names them: for calls of the legacy kind, and of the per-thread kind.
std::uint64_t stream_id(CUstream stream);
std::uint64_t stream_id_per_thread(CUstream stream);

// A stream, named only when something is noted.
struct OnStream {
  CUstream stream = nullptr;
  std::uint64_t (*id)(CUstream) = stream_id;
};

struct Taking {
  Way way;
  std::uint64_t bytes;  // as asked for
  OnStream on{};
  const Device* device = nullptr;  // null: the current context's
};

[[gnu::cold]] void note_taken(const Taking& taking, std::uint64_t key);
[[gnu::cold]] void note_refused(const Taking& taking);
[[gnu::cold]] void note_capture(wire::TraceKind kind, const OnStream& on);
[[gnu::cold]] void note_context_end(std::uint32_t ordinal, std::uint32_t context);

// `on`: what the free waits for; null: nothing.
[[gnu::cold]] wire::TraceRecord* note_freed(KeySpace space, std::uint64_t key, const OnStream* on);
[[gnu::cold]] void take_back(wire::TraceRecord* freed);

template <typename Handle>
std::uint64_t key_of(Handle handle) {
  return (std::uint64_t)handle;  // NOLINT: handles are integers or pointers
}

// Notes what a call made or was refused.
template <typename Handle>
CUresult noted(CUresult result, const Taking& taking, const Handle* out) {
  if (!is_traced()) [[likely]]
    return result;
  if (result == CUDA_SUCCESS) note_taken(taking, key_of(*out));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) note_refused(taking);
  return result;
}

// Makes the call that frees, noted.
template <typename Call>
CUresult freed(KeySpace space, std::uint64_t key, const OnStream* on, Call call) {
  if (!is_traced()) [[likely]]
    return call();
  wire::TraceRecord* const record = note_freed(space, key, on);
  const CUresult result = call();
  if (result != CUDA_SUCCESS) take_back(record);
  return result;
}

}  // namespace vram::interpose
