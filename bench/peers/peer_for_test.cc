// A peer that fails as a test wants: PEER_FAILS is "open", "refuse" or "throw"; otherwise it holds
// twice of what is live. Opened twice, or closed when it is not open, it aborts.

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "peer.h"

namespace {

std::size_t most = 0;
std::size_t live = 0;
std::size_t peak = 0;
std::size_t next = 0;
bool is_open = false;

bool fails(const char* how) {
  const char* wanted = getenv("PEER_FAILS");
  return wanted != nullptr && std::string(wanted) == how;
}

}  // namespace

extern "C" {

const char* peer_name() { return "peer"; }
int peer_open(std::size_t limit) {
  if (is_open) abort();
  most = limit == 0 ? ~std::size_t{0} : limit;
  live = peak = next = 0;
  is_open = !fails("open");
  return is_open ? 0 : 1;
}
void* peer_allocate(std::size_t bytes, void*) {
  if (next > 100 && fails("throw")) throw std::runtime_error("a block too many");
  if ((next > 100 && fails("refuse")) || 2 * (live + bytes) > most) return nullptr;
  live += bytes;
  peak = std::max(peak, live);
  return reinterpret_cast<void*>(++next * 512);
}
void peer_free(void*, std::size_t bytes, void*) { live -= bytes; }
std::size_t peer_reserved() { return 2 * live; }
std::size_t peer_peak_reserved() { return 2 * peak; }
void peer_trim() {}
void peer_close() {
  if (!is_open) abort();
  is_open = false;
}
}
