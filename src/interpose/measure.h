#pragma once

// Memory that no call names: contexts, modules, stacks, streams, what a destroyed pool still holds,
// and what a driver takes at a kernel's launch. It is measured: what NVML says a process holds on
// the card, less what is charged for calls. Where NVML does not know the process (another pid
// namespace, no NVML), a context costs what somebody measured before, and the rest is not seen.

#include <cstdint>

#include "interpose/process.h"

namespace vram::interpose {

// Charges what this process holds beside its calls, or gives back what is charged too much for it.
// The charge may go over the limit; see over_limit(). False: NVML does not know the process. Takes
// 20 µs; the first call loads NVML. Threads: any; a figure that calls under way may have blurred is
// not used: then a measurement is due, and made up for at the next chance. Not to be called with a
// charge of the caller pending, or a Change alive: that blurs every figure.
bool measure(Device& device);
bool measurable(Device& device);  // what measure() would return
void measure_if_due(Device& device);

// Charges what the other processes of the job hold beside their calls: a neighbour's context may
// have grown since that neighbour last made a call.
void measure_job(Device& device);

// To be called before `bytes` are reserved: near the limit it measures the job, at most once in a
// few milliseconds. Far from it, it costs a comparison.
void measure_near_limit(Device& device, std::uint64_t bytes);

// True: more is charged than the limit allows.
bool over_limit(const Device& device);

// A price that was charged to the context part is charged no more.
void return_price(Device& device, std::uint64_t price);

// `bytes`, charged so far as `part`, are no longer in the hands of anybody who could tell when they
// are freed. They stay charged until a measurement shows that they are gone; to be followed by one.
void orphan(Device& device, wire::Part part, std::uint64_t bytes);
void remeasure_orphans();

// Memory of which this process gave a handle away, or has one from elsewhere, may outlive the call
// that gives it back here: whoever holds it then, only the card tells. So a process that shares
// memory gives charges back by measuring, and after it gave back what it was not charged for.
inline bool shares_memory() { return process().shares.load(std::memory_order_relaxed) != 0; }
inline void note_sharing() { process().shares.store(1, std::memory_order_relaxed); }
// After an orphan() and the end of its pending charge, or a give-back without one.
void measure_shared();

}  // namespace vram::interpose
