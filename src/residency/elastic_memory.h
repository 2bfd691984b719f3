#pragma once

// Physical memory of cards that can be moved to the host and back, behind handles and addresses
// that stay the same.
//
// Model. Whoever uses virtual memory gets handles of ours; behind each is a handle of the driver,
// or nothing while the memory is parked. Mappings are noted with who may reach them. Parking copies
// the memory of whole handles to the host through one of their mappings, unmaps it and releases it,
// as many as are asked for, and more of them later; restoring makes new memory for all that is
// parked, maps it where the old was, and copies back. Both go in batches, so that the driver's work
// for one overlaps with the copies of another.
//
// Nothing is given up before its copy is complete, and nothing at all before the host has memory
// for all that was chosen. What was parked before stays where it is on the host. A step of
// restoring that fails is undone.
//
// Sizes are bytes, addresses those of the program. Errors are the driver's.
//
// Threads: any for the driver's functions. choose(), park() and restore() by one thread at a time,
// while no work touches the memory and no call that does is under way (gate.h), from the first
// choose() until all is restored; the others wait meanwhile.
// In a forked child nothing is known.

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "arena/growing_array.h"
#include "base/level_table.h"
#include "residency/calls.h"
#include "residency/host_store.h"
#include "wire/job_layout.h"

namespace vram::residency {

enum class Owner : std::uint8_t { kProgram, kPool };

class ElasticMemory {
 public:
  static constexpr unsigned kMostCards = wire::kMaxDevices;

  // What moves at a time: as much as takes the copies longer than the driver's work for the next.
  static constexpr std::uint64_t kBatch = std::uint64_t{512} << 20;

  // Once. False: no address space for the tables.
  [[nodiscard]] bool open(const Calls& driver, std::uint64_t batch = kBatch);

  // As the driver's functions. Handles that are not ours, and ranges where none of ours is mapped,
  // are passed on.
  [[nodiscard]] CUresult create(CUmemGenericAllocationHandle* handle, std::size_t size,
                                const CUmemAllocationProp* prop, unsigned long long flags,
                                Owner owner);
  [[nodiscard]] CUresult release(CUmemGenericAllocationHandle handle);
  [[nodiscard]] CUresult map(CUdeviceptr address, std::size_t size, std::size_t offset,
                             CUmemGenericAllocationHandle handle, unsigned long long flags);
  [[nodiscard]] CUresult unmap(CUdeviceptr address, std::size_t size);
  [[nodiscard]] CUresult set_access(CUdeviceptr address, std::size_t size,
                                    const CUmemAccessDesc* access, std::size_t count);
  // The handle mapped at an address, held once more. False: none of ours is.
  [[nodiscard]] bool retain(CUmemGenericAllocationHandle* handle, CUdeviceptr address);

  // The driver's handle behind one of ours, for a call that looks at it; one that is not ours is
  // itself. Not to be kept.
  [[nodiscard]] CUmemGenericAllocationHandle real(CUmemGenericAllocationHandle handle);
  // The same for a call after which somebody else reaches the memory: it is never moved again.
  [[nodiscard]] CUmemGenericAllocationHandle share(CUmemGenericAllocationHandle handle);
  void share_range(CUdeviceptr address, std::size_t size);
  void share_around(CUdeviceptr address);  // whatever is mapped there

  // How many of what lies here cannot be moved, for as long as it is there; see share().
  [[nodiscard]] std::uint32_t pins() const { return pins_.load(std::memory_order_acquire); }

  // Whether any of ours is mapped in the range, or was until it was parked.
  [[nodiscard]] bool is_mapped_in(CUdeviceptr address, std::size_t size);
  // A number for what is mapped around an address, the same wherever the memory is, and unlike that
  // of every other mapping; 0: none of ours is.
  [[nodiscard]] std::uint64_t number_at(CUdeviceptr address);

  // Bytes on a card, or parked from it; and those of which the card has nothing.
  [[nodiscard]] std::uint64_t bytes(unsigned card, Owner owner) const {
    return bytes_[card][static_cast<unsigned>(owner)].load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t away(unsigned card, Owner owner) const {
    return away_[card][static_cast<unsigned>(owner)].load(std::memory_order_relaxed);
  }

  static constexpr std::uint64_t kEverything = ~std::uint64_t{0};
  // Chooses what the next park() moves: whole handles of the card, at least `bytes` together where
  // it has as many, or everything of every card. Refused unless everything could be moved.
  [[nodiscard]] wire::Refusal choose(std::uint64_t bytes, unsigned card);
  [[nodiscard]] std::uint64_t chosen(unsigned card, Owner owner) const {
    return chosen_[card][static_cast<unsigned>(owner)];
  }
  // Moves what was chosen to the host. Refusal::kNone: done. Else some of it may be there, which is
  // parked as any other; is_parked() says whether anything is. `moved` counts the bytes copied.
  [[nodiscard]] wire::Refusal park(std::atomic<std::uint64_t>* moved);
  // Moves all that is parked back. Refusal::kCardMemory: there is no room now; it is parked as
  // before, as after every other refusal.
  [[nodiscard]] wire::Refusal restore(std::atomic<std::uint64_t>* moved);
  [[nodiscard]] bool is_parked() const { return parked_.load(std::memory_order_acquire); }

  // Host memory that is kept for the next time goes back; not while anything is parked.
  void give_back_host_memory();
  [[nodiscard]] std::uint64_t host_bytes_kept() const { return host_.bytes_kept(); }

 private:
  using Index = std::uint32_t;  // 0: none
  static constexpr std::uint32_t kMost = 1u << 20;
  struct Backing {
    CUmemGenericAllocationHandle real;
    CUmemAllocationProp prop;
    unsigned long long flags;
    std::uint64_t bytes;
    std::uint64_t host_offset;  // while it is parked, or on the move
    std::uint32_t generation;   // in the handle: one that was released is not another's
    std::uint32_t references;   // the program's
    std::uint32_t mappings;
    Index first_mapping;  // the one that it is copied through
    Index next_free;
    bool shared;
    bool on_host;  // what it holds is there, whatever the driver still has of it
    Owner owner;
  };
  struct Mapping {
    CUdeviceptr address;
    std::uint64_t bytes;
    std::uint64_t number;
    std::uint64_t readable;  // by card, a bit each
    std::uint64_t writable;
    unsigned long long flags;
    Index backing;
    Index next_of_backing;
    Index next_free;
    bool odd;     // reached by something that is no card
    bool absent;  // not mapped at the moment
  };
  // Neighbours in addresses and on the host, moved by one copy.
  struct Run {
    CUdeviceptr address;
    std::uint64_t bytes;
    std::uint64_t host_offset;
    unsigned card;
  };
  struct Lane {
    CUcontext context;
    CUstream stream[2];  // batches take turns
  };

  [[nodiscard]] static bool is_ours(CUmemGenericAllocationHandle handle);
  [[nodiscard]] CUmemGenericAllocationHandle handle_of(Index backing) const;
  [[nodiscard]] Index find(CUmemGenericAllocationHandle handle) const;
  [[nodiscard]] Index mapping_at(CUdeviceptr address) const;
  [[nodiscard]] Index mapping_around(CUdeviceptr address) const;
  template <typename Visit>
  bool for_mappings(CUdeviceptr address, std::size_t size, Visit visit);
  [[nodiscard]] Index new_backing();
  [[nodiscard]] Index new_mapping();
  [[nodiscard]] unsigned card_of(const Backing& backing) const {
    return static_cast<unsigned>(backing.prop.location.id);
  }
  [[nodiscard]] CUdeviceptr address_of(Index backing) const {
    return mapping_[backing_[backing].first_mapping].address;
  }
  // Given up, and still the driver's.
  [[nodiscard]] static bool is_kept(const Backing& backing) {
    return backing.bytes != 0 && backing.on_host && backing.real != 0;
  }
  using Counts = std::atomic<std::uint64_t>[kMostCards][2];
  void count(Counts& counts, const Backing& backing, std::int64_t sign) const;
  // Sets a mark after which something cannot be moved.
  void pin(bool* mark);
  [[nodiscard]] CUresult drop_if_unused(Index backing);
  void forget_mapping(Index mapping);

  // Neighbours in the order, moved at a time.
  struct Batch {
    std::uint32_t first;
    std::uint32_t end;
    std::uint64_t bytes;
  };
  [[nodiscard]] wire::Refusal list_what_can_move();
  void pick(std::uint64_t bytes, unsigned card);
  void sort_by_address();
  void lay_out_on_host();
  [[nodiscard]] std::uint64_t all_bytes() const;
  [[nodiscard]] Batch next_batch(std::uint32_t first) const;
  [[nodiscard]] bool open_lanes();
  void close_lanes();
  [[nodiscard]] bool wait_for_lanes(unsigned turn);
  template <typename Copy>
  [[nodiscard]] bool copy(const Batch& batch, unsigned turn, Copy copy_run);
  [[nodiscard]] wire::Refusal copy_out_and_give_up(std::atomic<std::uint64_t>* moved);
  [[nodiscard]] bool give_up(const Batch& batch);
  [[nodiscard]] bool give_up_what_was_kept();
  [[nodiscard]] bool take_off_card(Backing& backing);
  [[nodiscard]] CUresult map_again(Backing& backing);
  [[nodiscard]] CUresult allow(const Mapping& mapping);

  Calls driver_{};
  std::uint64_t batch_ = kBatch;
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  arena::GrowingArray<Backing> backing_;
  arena::GrowingArray<Mapping> mapping_;
  arena::GrowingArray<Index> order_;  // backings to move, by the address they are copied through
  std::uint32_t ordered_ = 0;
  Index backings_used_ = 0;
  Index mappings_used_ = 0;
  std::uint64_t numbers_ = 0;
  Index free_backing_ = 0;
  Index free_mapping_ = 0;
  base::LevelTable at_;  // address -> mapping
  Counts bytes_ = {};
  Counts away_ = {};
  std::uint64_t chosen_[kMostCards][2] = {};
  std::uint64_t host_end_ = 0;  // on the host, of what is there or was chosen
  std::atomic<std::uint32_t> pins_{0};
  std::atomic<bool> parked_{false};
  Lane lane_[kMostCards] = {};
  HostStore host_;
};

}  // namespace vram::residency
