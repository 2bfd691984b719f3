// The memory of one stream-ordered pool; sim/pool.h has the model as others see it.
//
// The pool's address range is divided into blocks, which are in use, and holes. A hole is plain, or
// pending on the stream that freed it: then that stream may use it at once, others when the stream
// has reached the free. Plain holes never touch each other. Card memory is taken for pieces of
// 32 MiB; a piece without block or pending hole can be given back.
//
// Threads: one lock a pool; the functions lock for themselves.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace vram::sim {

class Pool {
 public:
  struct Usage {
    uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  };

  // `max_bytes` 0: as much as the card has.
  Pool(int device, uint64_t max_bytes, CUmemAllocationHandleType handle_types);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] bool contains(CUdeviceptr address) const { return address - base_ < range_bytes_; }
  [[nodiscard]] CUmemAllocationHandleType handle_types() const { return handle_types_; }
  [[nodiscard]] uint64_t max_bytes() const { return max_bytes_; }
  [[nodiscard]] uint64_t threshold() const;
  void set_threshold(uint64_t bytes);
  [[nodiscard]] Usage usage() const;
  void reset_reserved_high();
  void reset_used_high();
  // CU_MEMPOOL_ATTR_REUSE_...: kept for the program, without effect.
  int reuse_flags[3] = {1, 1, 1};

  [[nodiscard]] CUresult allocate(uint64_t bytes, uint64_t stream, CUdeviceptr* out);
  // False when no block begins there.
  [[nodiscard]] bool free(CUdeviceptr base, uint64_t stream, uint64_t number);

  // Card memory lies behind the whole range, in blocks or not.
  [[nodiscard]] bool has_memory(CUdeviceptr base, uint64_t bytes) const;

  // Makes plain what its stream has reached, then gives back what is above the threshold.
  void synchronised();
  // Gives back pieces while more than `keep` bytes are reserved. Does not look at streams.
  void trim(uint64_t keep);
  // The program has destroyed the pool: nothing is kept any longer than needed.
  void retire();
  // All blocks, pending or not: the card's last context of this process is gone.
  void free_all();

 private:
  struct Hole {
    uint64_t bytes = 0;
    uint64_t stream = 0;  // 0: plain
    uint64_t number = 0;
  };
  using Holes = std::map<CUdeviceptr, Hole>;
  struct Run {  // neighbouring holes that a stream may use
    CUdeviceptr base = 0;
    uint64_t bytes = 0;
  };

  struct Free {  // a pending hole, in the order of its stream
    CUdeviceptr base = 0;
    uint64_t number = 0;
  };

  [[nodiscard]] bool find_committed_hole(uint64_t bytes, Run* out) const;
  [[nodiscard]] bool find_run(uint64_t bytes, uint64_t stream, Run* out) const;
  [[nodiscard]] uint64_t missing_pieces(CUdeviceptr base, uint64_t bytes) const;
  [[nodiscard]] bool commit(CUdeviceptr base, uint64_t bytes);
  void consume(CUdeviceptr base, uint64_t bytes);
  void make_plain(Holes::iterator hole);
  void add_hole(CUdeviceptr base, const Hole& hole);
  Holes::iterator remove_hole(Holes::iterator hole);
  void settle_reached();
  void release_pieces(uint64_t keep);
  void release_pieces_of(Run hole, uint64_t keep);
  [[nodiscard]] uint64_t piece_of(CUdeviceptr address) const;

  const int device_;
  const uint64_t max_bytes_;
  const CUmemAllocationHandleType handle_types_;
  mutable std::mutex mutex_;
  uint64_t threshold_ = 0;
  CUdeviceptr base_ = 0;
  uint64_t range_bytes_ = 0;
  std::set<uint64_t> committed_;  // pieces by their number in the range
  std::map<CUdeviceptr, uint64_t> blocks_;
  Holes holes_;
  std::set<std::pair<uint64_t, CUdeviceptr>> plain_by_size_;
  // By stream. An entry whose hole has been used again in the meantime is passed over.
  std::unordered_map<uint64_t, std::deque<Free>> pending_;
  Usage usage_;
};

}  // namespace vram::sim
