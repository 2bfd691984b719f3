#pragma once

// A map from 64-bit keys to 64-bit values for code that may neither lock nor allocate: it lives in
// somebody else's program, in any thread.
//
// Model. A few levels, each a power of two of buckets of eight entries; a key has one bucket a
// level. An entry is free (key 0) or taken; a lookup looks at one bucket a level, so nothing is
// ever moved and a removed entry leaves no mark. A bucket that is full sends the key on to the next
// level, four times as large, which is mapped when it is first needed (the only system call here).
//
// Keys are never 0 and a key is present at most once. insert() relies on the caller for that
// (addresses and handles of live objects are unique by nature); find_or_insert() does not, and its
// keys stay for ever.
//
// Threads: any. The memory is zeroed in a forked child (MADV_WIPEONFORK): a child starts empty.

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vram::base {

class LevelTable {
 public:
  struct Entry {
    std::atomic<std::uint64_t> key;
    std::atomic<std::uint64_t> value;
  };

  // False: no memory for another level.
  [[nodiscard]] bool insert(std::uint64_t key, std::uint64_t value) {
    for (unsigned level = 0; level < kLevels; ++level) {
      Bucket* bucket = bucket_of(level, key);
      if (bucket == nullptr) return false;
      for (Entry& entry : bucket->entry) {
        std::uint64_t free = 0;
        if (entry.key.load(std::memory_order_relaxed) != 0) continue;
        // Reserved under a key nobody asks for, so that nobody reads the value before it is there.
        if (!entry.key.compare_exchange_strong(free, kBusy)) continue;
        entry.value.store(value, std::memory_order_relaxed);
        entry.key.store(key, std::memory_order_release);
        return true;
      }
    }
    return false;
  }

  Entry* find(std::uint64_t key) const {
    for (unsigned level = 0; level < kLevels; ++level) {
      Bucket* bucket = existing_bucket(level, key);
      if (bucket == nullptr) return nullptr;
      for (Entry& entry : bucket->entry) {
        if (entry.key.load(std::memory_order_acquire) == key) return &entry;
      }
    }
    return nullptr;
  }

  // Removes the key; of several callers at once one succeeds.
  bool take(std::uint64_t key, std::uint64_t* value) {
    Entry* entry = find(key);
    if (entry == nullptr || !entry->key.compare_exchange_strong(key, kBusy)) return false;
    // Read while the entry is ours: before, the key might have been removed and come back. Zero is
    // what find_or_insert promises the next.
    *value = entry->value.exchange(0, std::memory_order_relaxed);
    entry->key.store(0, std::memory_order_release);
    return true;
  }

  // The key's entry, made with value 0 if there is none. Null: no memory.
  [[nodiscard]] Entry* find_or_insert(std::uint64_t key) {
    if (Entry* known = find(key); known != nullptr) return known;
    for (unsigned level = 0; level < kLevels; ++level) {
      Bucket* bucket = bucket_of(level, key);
      if (bucket == nullptr) return nullptr;
      // In order: whoever comes second stops at the entry the first one took.
      for (Entry& entry : bucket->entry) {
        std::uint64_t found = 0;
        if (entry.key.compare_exchange_strong(found, key) || found == key) return &entry;
      }
    }
    return nullptr;
  }

  // Calls visit(key, value) for what was in the table during the whole call.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (unsigned level = 0; level < kLevels; ++level) {
      Bucket* buckets = levels_[level].load(std::memory_order_acquire);
      if (buckets == nullptr) return;
      for (std::size_t b = 0; b < bucket_count(level); ++b) {
        for (Entry& entry : buckets[b].entry) {
          const std::uint64_t key = entry.key.load(std::memory_order_acquire);
          if (key == 0 || key == kBusy) continue;
          const std::uint64_t value = entry.value.load(std::memory_order_acquire);
          // Else the value may be the next key's.
          if (entry.key.load(std::memory_order_relaxed) == key) visit(key, value);
        }
      }
    }
  }

 private:
  static constexpr unsigned kLevels = 12;
  static constexpr unsigned kFirstBits = 9;  // 512 buckets, 64 KiB: plenty for most programs
  static constexpr std::uint64_t kBusy = ~std::uint64_t{0};

  struct alignas(128) Bucket {
    Entry entry[8];
  };

  static constexpr std::size_t bucket_count(unsigned level) {
    return std::size_t{1} << (kFirstBits + 2 * level);
  }

  static std::size_t index_of(unsigned level, std::uint64_t key) {
    // Fibonacci hashing: addresses differ in their middle bits, the product's high bits take all
    // in.
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15u) >> (64 - kFirstBits - 2 * level));
  }

  Bucket* existing_bucket(unsigned level, std::uint64_t key) const {
    Bucket* buckets = levels_[level].load(std::memory_order_acquire);
    return buckets == nullptr ? nullptr : &buckets[index_of(level, key)];
  }

  Bucket* bucket_of(unsigned level, std::uint64_t key) {
    if (levels_[level].load(std::memory_order_acquire) == nullptr && !map_level(level)) {
      return nullptr;
    }
    return existing_bucket(level, key);
  }

  bool map_level(unsigned level) {
    const std::size_t bytes = bucket_count(level) * sizeof(Bucket);
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    (void)madvise(at, bytes, MADV_WIPEONFORK);
    Bucket* none = nullptr;
    if (!levels_[level].compare_exchange_strong(none, static_cast<Bucket*>(at))) munmap(at, bytes);
    return true;
  }

  std::atomic<Bucket*> levels_[kLevels];
};

}  // namespace vram::base
