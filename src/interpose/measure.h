#pragma once

// Memory that no call names: contexts, modules, stacks, streams, and what a destroyed pool still
// holds. It is measured: what NVML says this process holds on the card, less what is charged for
// calls. Where NVML does not know the process (another pid namespace, no NVML), a context
// costs what somebody in the job measured, or nothing known.

#include <cstdint>

#include "interpose/process.h"

namespace vram::interpose {

// What NVML says this process holds on the card, bytes. False: it does not say. 16 µs; the first
// call loads NVML.
[[nodiscard]] bool held_by_process(const Device& device, std::uint64_t* bytes);

// Charges what is held beside the calls, or gives back what is charged too much for it. The charge
// may go over the limit; see over_limit(). Threads: any; concurrent calls that allocate make it try
// again, and finally leave the charge as it is.
void measure(Device& device);
void measure_all();

// True: more is charged than the limit allows.
bool over_limit(const Device& device);

// `bytes`, charged so far as `part`, are no longer in the hands of anybody who could tell when they
// are freed. They stay charged until a measurement shows that they are gone.
void orphan(Device& device, wire::Part part, std::uint64_t bytes);
void remeasure_orphans();

}  // namespace vram::interpose
