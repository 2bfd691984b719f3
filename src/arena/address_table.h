#pragma once

// Which block begins at an address. Looked up by any thread without a lock, changed under the
// caller's.
//
// Model. Open addressing with linear probing, at most half full. A removed key leaves a mark, which
// goes when no search can need it any more, at the latest when the table is rebuilt. A rebuilt
// table replaces the old one in one store. A reader may still be in the old one, and finds there
// what it looks for: a live block, which was live when the table was rebuilt. So before the old one
// goes, the caller waits for the readers.

#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstdint>

#include "arena/node.h"

namespace vram::arena {

class AddressTable {
 public:
  AddressTable() = default;
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;
  ~AddressTable() { drop(current_.load(std::memory_order_relaxed)); }

  // 0: no block begins there.
  [[nodiscard]] NodeId find(std::uint64_t address) const {
    const Table* table = current_.load(std::memory_order_acquire);
    if (table == nullptr) return 0;
    for (std::uint64_t i = table->slot(address);; i = (i + 1) & (table->size - 1)) {
      const Entry& entry = table->entries()[i];
      const std::uint64_t key = entry.key.load(std::memory_order_acquire);
      if (key == address) return entry.node.load(std::memory_order_relaxed);
      if (key == kFree) return 0;
    }
  }

  // False: no memory. The address is not in the table. `wait_for_readers` returns when every find()
  // that was under way has ended.
  template <typename Wait>
  [[nodiscard]] bool insert(std::uint64_t address, NodeId node, Wait wait_for_readers) {
    Table* table = current_.load(std::memory_order_relaxed);
    if (table == nullptr) {
      table = make(kFirstSize);
      if (table == nullptr) return false;
      current_.store(table, std::memory_order_release);
    } else if ((table->used + 1) * 2 > table->size) {
      // Mostly marks: the same size will do.
      Table* larger = make(live_ * 4 > table->size ? table->size * 2 : table->size);
      if (larger == nullptr) return false;
      copy(*table, *larger);
      current_.store(larger, std::memory_order_release);
      wait_for_readers();
      drop(table);
      table = larger;
    }
    place(*table, address, node);
    ++live_;
    return true;
  }

  void remove(std::uint64_t address) {
    Table* table = current_.load(std::memory_order_relaxed);
    if (table == nullptr) return;
    for (std::uint64_t i = table->slot(address);; i = (i + 1) & (table->size - 1)) {
      Entry& entry = table->entries()[i];
      const std::uint64_t key = entry.key.load(std::memory_order_relaxed);
      if (key == kFree) return;
      if (key != address) continue;
      entry.key.store(kRemoved, std::memory_order_relaxed);
      --live_;
      clear_marks(*table, i);
      return;
    }
  }

 private:
  static constexpr std::uint64_t kFirstSize = 512;
  static constexpr std::uint64_t kFree = 0;
  static constexpr std::uint64_t kRemoved = 1;  // no address: blocks are aligned

  struct Entry {
    std::atomic<std::uint64_t> key;
    std::atomic<NodeId> node;
  };
  struct Table {
    std::uint64_t size;
    std::uint64_t shift;
    // Written by every insert: not on the line that every search reads.
    alignas(64) std::uint64_t used;  // entries that are not free: keys and marks
    std::uint64_t padding[7];
    Entry* entries() { return reinterpret_cast<Entry*>(this + 1); }
    [[nodiscard]] const Entry* entries() const { return reinterpret_cast<const Entry*>(this + 1); }
    [[nodiscard]] std::uint64_t slot(std::uint64_t address) const {
      return (address * 0x9e3779b97f4a7c15u) >> shift;
    }
  };

  // Where the next entry is free, no search goes past this one: marks up to here have had their
  // use.
  static void clear_marks(Table& table, std::uint64_t i) {
    const std::uint64_t mask = table.size - 1;
    if (table.entries()[(i + 1) & mask].key.load(std::memory_order_relaxed) != kFree) return;
    while (table.entries()[i].key.load(std::memory_order_relaxed) == kRemoved) {
      table.entries()[i].key.store(kFree, std::memory_order_relaxed);
      --table.used;
      i = (i - 1) & mask;
    }
  }

  static std::uint64_t bytes_of(std::uint64_t size) { return sizeof(Table) + size * sizeof(Entry); }

  static void place(Table& table, std::uint64_t address, NodeId node) {
    std::uint64_t i = table.slot(address);
    std::uint64_t key = table.entries()[i].key.load(std::memory_order_relaxed);
    while (key != kFree && key != kRemoved) {
      i = (i + 1) & (table.size - 1);
      key = table.entries()[i].key.load(std::memory_order_relaxed);
    }
    if (key == kFree) ++table.used;
    table.entries()[i].node.store(node, std::memory_order_relaxed);
    table.entries()[i].key.store(address, std::memory_order_release);
  }

  static Table* make(std::uint64_t size) {
    void* at =
        mmap(nullptr, bytes_of(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    (void)madvise(at, bytes_of(size), MADV_HUGEPAGE);
    Table* table = static_cast<Table*>(at);
    table->size = size;
    table->shift = 64u - static_cast<unsigned>(std::countr_zero(size));
    return table;
  }

  static void drop(Table* table) {
    if (table != nullptr) munmap(table, bytes_of(table->size));
  }

  static void copy(Table& from, Table& to) {
    for (std::uint64_t i = 0; i < from.size; ++i) {
      const Entry& entry = from.entries()[i];
      const std::uint64_t key = entry.key.load(std::memory_order_relaxed);
      if (key != kFree && key != kRemoved) {
        place(to, key, entry.node.load(std::memory_order_relaxed));
      }
    }
  }

  // Read by every free; what an insert writes is elsewhere.
  alignas(64) std::atomic<Table*> current_{nullptr};
  alignas(64) std::uint64_t live_ = 0;
};

}  // namespace vram::arena
