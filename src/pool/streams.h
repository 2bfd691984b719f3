#pragma once

// The streams a pool has met, and tickets: how it knows, without an event and without waiting, that
// work on a stream is done.
//
// Model. Each stream has a word in pinned host memory and counts its tickets up from 1. Issuing one
// asks the stream to write the ticket's number into the word when it gets there; so a ticket has
// passed when the word is at least its number, and one ticket stands for all frees before it. None
// is issued until somebody asks: a program with one stream needs none.
//
// A ticket is closed before it is asked for: what is freed from then on waits for the next one, so
// that no free can get a ticket which the stream writes before that free's work.
//
// Threads: next_ticket(), passed(), is_capture() and idle() in any; the others under the pool's
// lock.

#include <atomic>
#include <cstdint>

#include "arena/space.h"
#include "pool/driver_calls.h"

namespace vram::pool {

using arena::StreamId;

// No stream of the driver: for blocks that nobody uses any more when they are freed, and that are
// ready for every stream when they are handed out. Its tickets pass as soon as somebody asks.
inline CUstream synchronized_stream() { return reinterpret_cast<CUstream>(std::uintptr_t{16}); }

class Streams {
 public:
  // Once, with the pool's context current.
  [[nodiscard]] CUresult open(const DriverCalls& driver);
  void close();  // with the context current
  // The pinned words went with the context.
  void context_gone() { words_ = nullptr; }

  // The stream's number, from 1; 0: there are too many to tell them apart. The per-thread default
  // stream is another one in each thread.
  [[nodiscard]] StreamId id_of(CUstream stream);

  // What a free on this stream now has to wait for.
  [[nodiscard]] std::uint64_t next_ticket(StreamId id) const {
    return streams_[id].closed_tickets.load(std::memory_order_acquire) + 1;
  }
  // The ticket of all frees up to now; the next ones get another.
  std::uint64_t close_ticket(StreamId id) {
    return streams_[id].closed_tickets.fetch_add(1, std::memory_order_acq_rel) + 1;
  }
  // Asks for the next ticket, with the context current. False: the stream is being captured, or
  // the driver refuses; ask again later.
  bool issue(StreamId id);
  [[nodiscard]] bool passed(StreamId id, std::uint64_t ticket) const {
    return id == 0 || passed_on(id) >= ticket;
  }
  // Whether the stream was asked for this ticket, or a later one.
  [[nodiscard]] bool asked(StreamId id, std::uint64_t ticket) const {
    return streams_[id].asked >= ticket;
  }
  // The stream has been waited for since `ticket` was closed.
  void note_synchronized(StreamId id, std::uint64_t ticket);
  // The stream's number if it is known; 0: it is not.
  [[nodiscard]] StreamId find(CUstream stream) const;
  [[nodiscard]] arena::Idle idle() const {
    return {[](const void* self, StreamId id, std::uint64_t ticket) {
              return static_cast<const Streams*>(self)->passed(id, ticket);
            },
            this};
  }

  // The stream is about to be destroyed: its handle may come back as another stream.
  void forget(CUstream stream);

  // Of all streams together; grows when any passes.
  [[nodiscard]] std::uint64_t passed_tickets() const {
    std::uint64_t sum = 0;
    for (StreamId id = 1; id <= used_; ++id) sum += passed_on(id);
    return sum;
  }
  // Whether a ticket that was issued has not passed yet.
  [[nodiscard]] bool outstanding() const {
    for (StreamId id = 1; id <= used_; ++id) {
      if (!passed(id, streams_[id].asked)) return true;
    }
    return false;
  }

  // From now on the handle means another stream, whose tickets never pass: what a capture frees may
  // be written again whenever its graph runs. 0: too many streams.
  [[nodiscard]] StreamId begin_capture(CUstream stream);
  // The handle means the stream that it meant before.
  void end_capture(StreamId capture);
  // The graph is gone, and its work is done: all of its tickets have passed.
  void release_capture(StreamId capture);
  [[nodiscard]] CUstream handle_of(StreamId id) const { return streams_[id].handle; }
  // Of a capture that is not released; and is it under way?
  [[nodiscard]] bool is_capture(StreamId id) const {
    return streams_[id].captured.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool captures(StreamId id) const { return is_capture(id) && !streams_[id].hidden; }

  [[nodiscard]] StreamId count() const { return used_; }

 private:
  struct Stream {
    CUstream handle;
    std::uint64_t thread;        // of a per-thread default stream; else 0
    bool closed;                 // forgotten
    bool hidden;                 // behind a capture under way, or a capture that has ended
    std::atomic<bool> captured;  // see begin_capture()
    std::atomic<std::uint64_t> closed_tickets;  // the number of the last one
    std::uint64_t asked;                        // the last one that the stream was asked for
    std::atomic<std::uint64_t> waited_for;      // tickets that passed because somebody waited
    std::atomic<std::uint64_t>* word;
  };

  [[nodiscard]] StreamId unused();
  [[nodiscard]] StreamId reusable() const;
  [[nodiscard]] std::uint64_t passed_on(StreamId id) const {
    const std::uint64_t written = streams_[id].word->load(std::memory_order_acquire);
    const std::uint64_t waited_for = streams_[id].waited_for.load(std::memory_order_acquire);
    return written > waited_for ? written : waited_for;
  }

  const DriverCalls* driver_ = nullptr;
  void* words_ = nullptr;
  CUdeviceptr device_words_ = 0;
  StreamId used_ = 0;  // the highest number given
  Stream streams_[arena::kMaxStreams] = {};
};

}  // namespace vram::pool
