#pragma once

// A card made of this process's memory: what is mapped can be written and read at its address, what
// is not faults. Counts what it holds, has a capacity, and fails the n-th call of a kind.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <random>

#include "residency/calls.h"

namespace vram::residency::test {

enum class Call : unsigned {
  kCreate,
  kRelease,
  kMap,
  kUnmap,
  kAccess,
  kCopyOut,
  kCopyIn,
  kStream,
  kWait,
  kRegister,
  kKinds
};

struct Card {
  struct Memory {
    std::uint64_t bytes;
    unsigned mappings;
    bool released;
  };
  std::recursive_mutex lock;
  std::map<int, Memory> memory;  // by file
  std::map<CUdeviceptr, std::pair<int, std::uint64_t>> mapped;
  std::uint64_t held = 0;
  std::uint64_t capacity = ~std::uint64_t{0};
  std::uint64_t host_room = ~std::uint64_t{0};
  int streams = 0;
  int registered = 0;
  unsigned long calls[static_cast<unsigned>(Call::kKinds)] = {};
  Call failing = Call::kKinds;
  unsigned long fails_at = 0;  // 0: never
  bool stays_broken = false;
  unsigned one_in = 0;  // of any kind fails; 0: none
  std::minstd_rand chance;

  void fail(Call call, unsigned long nth, bool from_then_on = false) {
    std::memset(calls, 0, sizeof calls);
    failing = call;
    fails_at = nth;
    stays_broken = from_then_on;
  }
  void fail_one_in(unsigned n) { one_in = n; }
  void work() {
    fails_at = 0;
    one_in = 0;
  }
  // Whether the call that was to fail was made.
  bool failed() const { return fails_at != 0 && calls[static_cast<unsigned>(failing)] >= fails_at; }
  bool fails(Call call) {
    const std::lock_guard hold(lock);
    const unsigned long made = ++calls[static_cast<unsigned>(call)];
    if (one_in != 0 && chance() % one_in == 0) return true;
    return fails_at != 0 && call == failing &&
           (made == fails_at || (stays_broken && made > fails_at));
  }
  void drop_unused(int file) {
    const auto at = memory.find(file);
    if (!at->second.released || at->second.mappings != 0) return;
    held -= at->second.bytes;
    memory.erase(at);
    close(file);
  }
};

inline Card& card() {
  static Card the_card;
  return the_card;
}

inline CUdeviceptr reserve(std::uint64_t bytes) {
  return reinterpret_cast<CUdeviceptr>(
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

inline Calls calls() {
  Calls calls{};
  calls.create = [](CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*,
                    unsigned long long) {
    const std::lock_guard hold(card().lock);
    if (card().fails(Call::kCreate) || card().held + bytes > card().capacity) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const int file = memfd_create("card", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_UNKNOWN;
    card().memory[file] = {bytes, 0, false};
    card().held += bytes;
    *handle = static_cast<CUmemGenericAllocationHandle>(file);
    return CUDA_SUCCESS;
  };
  calls.release = [](CUmemGenericAllocationHandle handle) {
    const std::lock_guard hold(card().lock);
    const auto found = card().memory.find(static_cast<int>(handle));
    if (found == card().memory.end() || found->second.released) return CUDA_ERROR_INVALID_VALUE;
    if (card().fails(Call::kRelease)) return CUDA_ERROR_UNKNOWN;
    found->second.released = true;
    card().drop_unused(found->first);
    return CUDA_SUCCESS;
  };
  calls.map = [](CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                 unsigned long long) {
    const std::lock_guard hold(card().lock);
    const auto found = card().memory.find(static_cast<int>(handle));
    if (found == card().memory.end() || card().mapped.contains(at) ||
        offset + bytes > found->second.bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (card().fails(Call::kMap)) return CUDA_ERROR_UNKNOWN;
    if (mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->first,
             static_cast<off_t>(offset)) == MAP_FAILED) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    card().mapped[at] = {found->first, bytes};
    ++found->second.mappings;
    return CUDA_SUCCESS;
  };
  calls.unmap = [](CUdeviceptr at, size_t bytes) {
    const std::lock_guard hold(card().lock);
    if (!card().mapped.contains(at)) return CUDA_ERROR_INVALID_VALUE;
    if (card().fails(Call::kUnmap)) return CUDA_ERROR_UNKNOWN;
    for (CUdeviceptr end = at + bytes; at < end;) {
      const auto found = card().mapped.find(at);
      if (found == card().mapped.end()) return CUDA_ERROR_INVALID_VALUE;
      const auto [file, size] = found->second;
      card().mapped.erase(found);
      if (mmap(reinterpret_cast<void*>(at), size, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
        return CUDA_ERROR_OUT_OF_MEMORY;
      }
      --card().memory[file].mappings;
      card().drop_unused(file);
      at += size;
    }
    return CUDA_SUCCESS;
  };
  calls.set_access = [](CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t) {
    if (card().fails(Call::kAccess)) return CUDA_ERROR_UNKNOWN;
    const int flags = access[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                      : access[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                            : PROT_NONE;
    return mprotect(reinterpret_cast<void*>(at), bytes, flags) == 0 ? CUDA_SUCCESS
                                                                    : CUDA_ERROR_INVALID_VALUE;
  };
  calls.copy_out = [](void* to, CUdeviceptr from, size_t bytes, CUstream) {
    if (card().fails(Call::kCopyOut)) return CUDA_ERROR_UNKNOWN;
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return CUDA_SUCCESS;
  };
  calls.copy_in = [](CUdeviceptr to, const void* from, size_t bytes, CUstream) {
    if (card().fails(Call::kCopyIn)) return CUDA_ERROR_UNKNOWN;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return CUDA_SUCCESS;
  };
  calls.stream_create = [](CUstream* stream, unsigned) {
    if (card().fails(Call::kStream)) return CUDA_ERROR_OUT_OF_MEMORY;
    *stream = reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(1 + card().streams++));
    return CUDA_SUCCESS;
  };
  calls.stream_destroy = [](CUstream) {
    --card().streams;
    return CUDA_SUCCESS;
  };
  calls.stream_synchronize = [](CUstream) {
    return card().fails(Call::kWait) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
  };
  calls.context_push = [](CUcontext) { return CUDA_SUCCESS; };
  calls.context_pop = [](CUcontext*) { return CUDA_SUCCESS; };
  calls.host_register = [](void*, size_t, unsigned) {
    const std::lock_guard hold(card().lock);
    if (card().fails(Call::kRegister)) return CUDA_ERROR_UNKNOWN;
    ++card().registered;
    return CUDA_SUCCESS;
  };
  calls.host_unregister = [](void*) {
    const std::lock_guard hold(card().lock);
    --card().registered;
    return CUDA_SUCCESS;
  };
  calls.context_of = [](CUdevice) { return reinterpret_cast<CUcontext>(std::uintptr_t{16}); };
  calls.host_room = [] { return card().host_room; };
  return calls;
}

}  // namespace vram::residency::test
