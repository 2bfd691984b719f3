#pragma once

// A driver without a card: it keeps the books a real one would keep (addresses, handles, mappings,
// capacity, granularity) and touches no memory. Pools run on it at full speed, so it tells what a
// pool makes of a trace on a machine without a GPU, and it refuses whatever a real driver would
// refuse. Work on its streams is done at once.
//
// One set of eight equal cards a process. Threads: any.

#include <cstdint>

#include "pool/driver_calls.h"

namespace vram::pool {

struct DryCounts {
  std::uint64_t bytes;       // device memory held now: handles, allocations, what async pools hold
  std::uint64_t peak_bytes;  // since the last dry_driver()
  std::uint64_t handles;     // alive
  std::uint64_t mapped;      // handles mapped
  std::uint64_t reservations;
  std::uint64_t pinned;  // host allocations
  std::uint64_t faults;  // calls that no correct program makes: unmap of nothing and the like
};

// Cards of this many bytes each, with nothing on them; the table is always the same. Call it while
// no pool lives.
const DriverCalls& dry_driver(std::uint64_t bytes_per_card);
DryCounts dry_counts();

// Makes the n-th next call of the kind fail (n from 1) with CUDA_ERROR_OUT_OF_MEMORY; 0: none.
enum class DryCall : unsigned {
  kAlloc,
  kReserve,
  kCreate,
  kMap,
  kUnmap,
  kAccess,
  kRelease,
  kHost,
  kKinds
};
void fail_dry(DryCall call, std::uint64_t n);

// No more than this many bytes of addresses are reserved at once, until the next dry_driver().
void limit_dry_addresses(std::uint64_t bytes);

// Work on streams stays undone, so that tickets do not pass, until it is let go.
void hold_dry_streams();
void let_dry_streams_go();

}  // namespace vram::pool
