#pragma once

// Which block begins at an address, for a pool whose shards come and go with blocks side by side.
//
// Model. Many tables with a lock each; the address says which, by what lies within 4 GiB of each
// other. Shards have addresses far apart, so threads of different shards rarely meet here, and a
// pool with one shard uses a table or a few.
//
// Threads: any. Locks: inside a shard's, outside a cache's.

#include "arena/address_table.h"
#include "pool/spin_lock.h"

namespace vram::pool {

class BlockTable {
 public:
  // 0: no block begins there. The caller holds its cache's lock, which insert() waits for.
  [[nodiscard]] arena::NodeId find(std::uint64_t address) const {
    return part_of(address).table.find(address);
  }
  // The same for a caller without a cache.
  [[nodiscard]] arena::NodeId find_without_cache(std::uint64_t address) {
    Part& part = part_of(address);
    const Locked hold(part.lock);
    return part.table.find(address);
  }

  // False: no memory. `wait_for_readers` takes and leaves the lock of every cache.
  template <typename Wait>
  [[nodiscard]] bool insert(std::uint64_t address, arena::NodeId node, Wait wait_for_readers) {
    Part& part = part_of(address);
    const Locked hold(part.lock);
    return part.table.insert(address, node, wait_for_readers);
  }

  void remove(std::uint64_t address) {
    Part& part = part_of(address);
    const Locked hold(part.lock);
    part.table.remove(address);
  }

 private:
  static constexpr unsigned kPartBits = 8;
  static constexpr unsigned kNeighbourhood = 32;  // bits: 4 GiB

  struct Part {
    arena::AddressTable table;
    SpinLock lock;
  };

  static std::size_t index_of(std::uint64_t address) {
    return ((address >> kNeighbourhood) * 0x9e3779b97f4a7c15u) >> (64 - kPartBits);
  }
  [[nodiscard]] Part& part_of(std::uint64_t address) { return parts_[index_of(address)]; }
  [[nodiscard]] const Part& part_of(std::uint64_t address) const {
    return parts_[index_of(address)];
  }

  Part parts_[1u << kPartBits];
};

}  // namespace vram::pool
