// A peer, loaded from its library.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "peers/peer.h"

namespace vram::bench {

struct Peer {
  decltype(&peer_name) name;
  decltype(&peer_open) open;
  decltype(&peer_allocate) allocate;
  decltype(&peer_free) free;
  decltype(&peer_reserved) reserved;
  decltype(&peer_peak_reserved) peak_reserved;
  decltype(&peer_trim) trim;
  decltype(&peer_close) close;
};

// False: the reason is on the error stream.
inline bool load_peer(const std::string& path, Peer* peer) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return false;
  }
  bool whole = true;
  const auto find = [&](auto* slot, const char* name) {
    *slot = reinterpret_cast<std::remove_pointer_t<decltype(slot)>>(dlsym(library, name));
    whole = whole && *slot != nullptr;
  };
  find(&peer->name, "peer_name");
  find(&peer->open, "peer_open");
  find(&peer->allocate, "peer_allocate");
  find(&peer->free, "peer_free");
  find(&peer->reserved, "peer_reserved");
  find(&peer->peak_reserved, "peer_peak_reserved");
  find(&peer->trim, "peer_trim");
  find(&peer->close, "peer_close");
  if (!whole) fprintf(stderr, "%s: not all of the functions of peers/peer.h\n", path.c_str());
  return whole;
}

}  // namespace vram::bench
