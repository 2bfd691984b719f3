#pragma once

// Host memory that holds what was on a card: touched and registered with the driver piece by piece,
// by several threads ahead of the copies, since either alone takes as long as the copying.
//
// The memory is private to this process: nobody else can read it, and the kernel wipes it when it
// goes. It is kept for the next time until give_back().
//
// Threads: one at a time.

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "arena/growing_array.h"
#include "residency/calls.h"

namespace vram::residency {

class HostStore {
 public:
  static constexpr std::size_t kPiece = std::size_t{64} << 20;

  HostStore() = default;
  ~HostStore() { give_back(); }
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;

  // Addresses for as many bytes as it may have to hold until it is empty again. What it holds is
  // lost. False: there are none.
  [[nodiscard]] bool reserve(std::uint64_t bytes);
  // Begins to make the first `bytes` of them ready, in the context given; what they hold stays.
  // False: the host has no room for them beside what it must keep free, or they were not reserved.
  // finish() must follow.
  [[nodiscard]] bool begin(const Calls& driver, CUcontext context, std::uint64_t bytes);
  // Waits until the piece with this offset is ready.
  void wait_for(std::uint64_t offset);
  // All that begin() asked for is.
  [[nodiscard]] bool all_ready() const;
  // No more is needed than what is ready.
  void finish();
  // All of it goes back to the host; no copy is under way.
  void give_back();

  [[nodiscard]] unsigned char* at(std::uint64_t offset) const { return memory_ + offset; }
  [[nodiscard]] std::uint64_t bytes_kept() const;

 private:
  static constexpr unsigned kMostHelpers = 15;
  enum State : std::uint32_t { kAbsent, kTouched, kRegistered };
  struct Piece {
    std::atomic<std::uint32_t> state;
  };

  void prepare_pieces();
  [[nodiscard]] State prepare(std::uint64_t piece) const;
  static void* help(void* store);

  const Calls* driver_ = nullptr;
  CUcontext context_ = nullptr;
  unsigned char* memory_ = nullptr;
  std::uint64_t span_ = 0;    // bytes of addresses
  std::uint64_t pieces_ = 0;  // asked for by the last begin()
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> stop_{false};
  unsigned helpers_ = 0;
  pthread_t helper_[kMostHelpers] = {};
  arena::GrowingArray<Piece> piece_;
};

}  // namespace vram::residency
