// What another allocator must offer to be measured beside vram's pools: a library with these C
// functions, loaded by pool_cost and pool_traces. All are called after the first device's primary
// context is current; streams are CUstream, null the default stream. Each is the allocator's
// fastest C++ way, at its best settings.
#pragma once

#include <cstddef>

extern "C" {
const char* peer_name();
// `limit`: bytes the allocator may hold; 0: as much as it likes. 0: it works.
int peer_open(std::size_t limit);
void* peer_allocate(std::size_t bytes, void* stream);  // null: refused
void peer_free(void* block, std::size_t bytes, void* stream);
std::size_t peer_reserved();       // held from the driver now
std::size_t peer_peak_reserved();  // at its highest since peer_open
void peer_trim();                  // give back what can be given back
void peer_close();
}
