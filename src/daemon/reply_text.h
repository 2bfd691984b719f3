#pragma once

// Texts in packets: cut to the room there is, and always ended.

#include <algorithm>
#include <cstring>
#include <string>

#include "wire/daemon_messages.h"

namespace vram::daemon {

template <std::size_t N>
void put_text(const std::string& text, char (&to)[N]) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

inline void put_text(const std::string& text, wire::DaemonReply* reply) {
  put_text(text, reply->text);
}

}  // namespace vram::daemon
