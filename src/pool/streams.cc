#include "pool/streams.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace vram::pool {
namespace {

// CU_STREAM_PER_THREAD, which cuda.h defines as a cast.
constexpr std::uintptr_t kPerThread = 2;

std::uint64_t thread_of(CUstream stream) {
  if (reinterpret_cast<std::uintptr_t>(stream) != kPerThread) return 0;
  return static_cast<std::uint64_t>(syscall(SYS_gettid));
}

}  // namespace

CUresult Streams::open(const DriverCalls& driver) {
  driver_ = &driver;
  const std::size_t bytes = arena::kMaxStreams * sizeof(std::atomic<std::uint64_t>);
  const CUresult taken =
      driver.host_alloc(&words_, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (taken != CUDA_SUCCESS) return taken;
  const CUresult mapped = driver.host_device_pointer(&device_words_, words_, 0);
  if (mapped != CUDA_SUCCESS) {
    close();
    return mapped;
  }
  auto* words = static_cast<std::atomic<std::uint64_t>*>(words_);
  for (StreamId id = 0; id < arena::kMaxStreams; ++id) {
    words[id].store(0, std::memory_order_relaxed);
    streams_[id].word = &words[id];
  }
  return CUDA_SUCCESS;
}

void Streams::close() {
  if (words_ != nullptr) (void)driver_->host_free(words_);
  words_ = nullptr;
}

StreamId Streams::reusable() const {
  for (StreamId id = 1; id <= used_; ++id) {
    if (streams_[id].closed && passed(id, streams_[id].asked)) return id;
  }
  return 0;
}

StreamId Streams::unused() { return used_ + 1 < arena::kMaxStreams ? ++used_ : reusable(); }

StreamId Streams::id_of(CUstream stream) {
  StreamId id = find(stream);
  if (id != 0) return id;
  const std::uint64_t thread = thread_of(stream);
  id = unused();
  if (id == 0) return 0;
  streams_[id].handle = stream;
  streams_[id].thread = thread;
  streams_[id].closed = false;
  streams_[id].hidden = false;
  streams_[id].captured = false;
  return id;
}

bool Streams::issue(StreamId id) {
  Stream& stream = streams_[id];
  if (stream.closed) return true;  // its last ticket was issued when it was forgotten
  if (stream.captured) return false;
  if (stream.handle == synchronized_stream()) {
    note_synchronized(id, close_ticket(id));
    return true;
  }
  // A capture would record the write, and every launch of its graph repeat it.
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver_->stream_is_capturing(stream.handle, &capture) != CUDA_SUCCESS ||
      capture != CU_STREAM_CAPTURE_STATUS_NONE) {
    return false;
  }
  const std::uint64_t ticket = close_ticket(id);
  // The handle means the caller's own stream in every thread: the other's is out of reach.
  if (stream.thread != 0 && stream.thread != thread_of(stream.handle)) {
    if (driver_->context_synchronize() != CUDA_SUCCESS) return false;
    note_synchronized(id, ticket);
    return true;
  }
  // An idle stream needs no ticket.
  if (driver_->stream_query != nullptr && driver_->stream_query(stream.handle) == CUDA_SUCCESS) {
    note_synchronized(id, ticket);
    return true;
  }
  const CUdeviceptr word = device_words_ + id * sizeof(std::uint64_t);
  if (driver_->stream_write != nullptr &&
      driver_->stream_write(stream.handle, word, ticket, 0) == CUDA_SUCCESS) {
    stream.asked = ticket;
    return true;
  }
  // A card without stream memory operations: wait here.
  if (driver_->stream_synchronize(stream.handle) != CUDA_SUCCESS) return false;
  note_synchronized(id, ticket);
  return true;
}

StreamId Streams::find(CUstream stream) const {
  const std::uint64_t thread = thread_of(stream);
  for (StreamId id = 1; id <= used_; ++id) {
    const Stream& known = streams_[id];
    if (known.handle == stream && known.thread == thread && !known.closed && !known.hidden) {
      return id;
    }
  }
  return 0;
}

void Streams::note_synchronized(StreamId id, std::uint64_t ticket) {
  Stream& stream = streams_[id];
  if (stream.waited_for.load(std::memory_order_relaxed) < ticket) {
    stream.waited_for.store(ticket, std::memory_order_release);
  }
}

StreamId Streams::begin_capture(CUstream stream) {
  const StreamId known = id_of(stream);
  const StreamId id = known == 0 ? 0 : unused();
  if (id == 0) return 0;
  streams_[known].hidden = true;
  streams_[id].handle = stream;
  streams_[id].thread = thread_of(stream);
  streams_[id].closed = false;
  streams_[id].hidden = false;
  streams_[id].captured = true;
  return id;
}

void Streams::end_capture(StreamId capture) {
  const Stream& captured = streams_[capture];
  for (StreamId id = 1; id <= used_; ++id) {
    Stream& known = streams_[id];
    if (known.handle == captured.handle && known.thread == captured.thread && !known.captured) {
      known.hidden = false;
    }
  }
  streams_[capture].hidden = true;
}

void Streams::release_capture(StreamId capture) {
  note_synchronized(capture, close_ticket(capture));
  streams_[capture].captured = false;
  streams_[capture].closed = true;
}

void Streams::forget(CUstream stream) {
  const std::uint64_t thread = thread_of(stream);
  for (StreamId id = 1; id <= used_; ++id) {
    Stream& known = streams_[id];
    if (known.handle != stream || known.thread != thread || known.closed) continue;
    (void)issue(id);
    known.closed = true;
  }
}

}  // namespace vram::pool
