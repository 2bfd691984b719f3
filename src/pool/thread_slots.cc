#include "pool/thread_slots.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "pool/segments.h"

namespace vram::pool {
namespace {

struct Slots {
  std::uint64_t serial[kMostPools];
  ThreadCache* cache[kMostPools];
};

struct Registry {
  SpinLock lock;
  std::uint32_t last_serial;
  bool wiped_on_fork;
  Segments* pool[kMostPools];
  std::uint64_t serial[kMostPools];
};

// Whole pages, which the kernel wipes in a forked child: it has none of its parent's pools, and
// nobody holds the lock.
constexpr std::size_t kPage = 4096;
struct alignas(kPage) Storage {
  Registry registry;
  unsigned char rest[kPage - sizeof(Registry) % kPage];
};
constinit Storage storage{};
Registry& registry = storage.registry;
pthread_once_t once = PTHREAD_ONCE_INIT;
pthread_key_t key;
bool have_key = false;

// One pointer: a library loaded late has little room for variables of threads.
thread_local Slots* slots = nullptr;

void end_thread(void* of_thread) {
  Slots* mine = static_cast<Slots*>(of_thread);
  slots = nullptr;
  {
    const Locked hold(registry.lock);
    for (std::uint32_t i = 0; i < kMostPools; ++i) {
      if (mine->serial[i] != 0 && mine->serial[i] == registry.serial[i]) {
        registry.pool[i]->retire(mine->cache[i]);
      }
    }
  }
  munmap(mine, sizeof(Slots));
}

void make_key() { have_key = pthread_key_create(&key, end_thread) == 0; }

}  // namespace

PoolNumber enter_pool(Segments* pool) {
  const Locked hold(registry.lock);
  if (!registry.wiped_on_fork) {
    registry.wiped_on_fork = madvise(&storage, sizeof storage, MADV_WIPEONFORK) == 0;
  }
  // What a thread's slots say of a parent's pool must not be taken for this one.
  const std::uint64_t process = static_cast<std::uint64_t>(getpid()) << 32;
  for (std::uint32_t i = 0; i < kMostPools; ++i) {
    if (registry.serial[i] != 0) continue;
    registry.pool[i] = pool;
    registry.serial[i] = process | ++registry.last_serial;
    return {i, registry.serial[i]};
  }
  return {0, 0};
}

void leave_pool(const PoolNumber& number) {
  if (number.serial == 0) return;
  const Locked hold(registry.lock);
  registry.pool[number.index] = nullptr;
  registry.serial[number.index] = 0;
}

ThreadCache* cache_in_slot(const PoolNumber& number) {
  const Slots* mine = slots;
  if (mine == nullptr || mine->serial[number.index] != number.serial) return nullptr;
  return mine->cache[number.index];
}

bool set_cache_in_slot(const PoolNumber& number, ThreadCache* cache) {
  if (number.serial == 0) return false;
  if (slots == nullptr) {
    pthread_once(&once, make_key);
    if (!have_key) return false;
    void* at =
        mmap(nullptr, sizeof(Slots), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return false;
    if (pthread_setspecific(key, at) != 0) {
      munmap(at, sizeof(Slots));
      return false;
    }
    slots = static_cast<Slots*>(at);
  }
  slots->cache[number.index] = cache;
  slots->serial[number.index] = number.serial;
  return true;
}

}  // namespace vram::pool
