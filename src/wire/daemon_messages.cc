#include "wire/daemon_messages.h"

#include <string.h>

namespace vram::wire {

RequestFault read_request(const void* data, std::size_t size, DaemonRequest* out) {
  DaemonRequest request{};
  // Whoever speaks another version is told so, however long its packets are.
  constexpr std::size_t kMark = offsetof(DaemonRequest, ask);
  if (size < kMark) return RequestFault::kSize;
  memcpy(&request, data, kMark);
  if (request.magic != kDaemonMagic) return RequestFault::kMagic;
  if (request.version != kDaemonVersion) return RequestFault::kVersion;
  if (size != sizeof request) return RequestFault::kSize;
  memcpy(&request, data, sizeof request);
  if (request.ask < DaemonAsk::kAdmit || request.ask > DaemonAsk::kStay) {
    return RequestFault::kAsk;
  }
  if (memchr(request.job, '\0', sizeof request.job) == nullptr) return RequestFault::kText;
  *out = request;
  return RequestFault::kNone;
}

const char* describe(RequestFault fault) {
  switch (fault) {
    case RequestFault::kNone:
      return "no fault";
    case RequestFault::kSize:
      return "a packet of another size";
    case RequestFault::kMagic:
      return "no request of vram's";
    case RequestFault::kVersion:
      return "a request of another version of vram";
    case RequestFault::kAsk:
      return "an unknown request";
    case RequestFault::kText:
      break;
  }
  return "a text without an end";
}

DaemonRequest make_request(DaemonAsk ask) {
  DaemonRequest request{};
  request.magic = kDaemonMagic;
  request.version = kDaemonVersion;
  request.ask = ask;
  return request;
}

DaemonReply make_reply(DaemonAsk ask, Verdict verdict) {
  DaemonReply reply{};
  reply.magic = kDaemonMagic;
  reply.version = kDaemonVersion;
  reply.ask = ask;
  reply.verdict = verdict;
  return reply;
}

}  // namespace vram::wire
