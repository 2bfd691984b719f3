#pragma once

// What is said on the daemon's socket: one packet a request, one or more packets an answer, all of
// fixed size. A packet begins with the mark and the version, in every version, so that either side
// can tell the other what it speaks; version changes with any other part of the layout.
//
// Texts are ended by a zero. What is not used is zero. Who asks is known from the socket, never
// from a message.

#include <cstddef>
#include <cstdint>

namespace vram::wire {

inline constexpr std::uint32_t kDaemonMagic = 0x646d7276;  // "vrmd", little-endian
inline constexpr std::uint32_t kDaemonVersion = 2;

enum class DaemonAsk : std::uint32_t {
  kAdmit = 1,  // a job to the cards; `job`: its id
  kRoom,       // free memory on a card, for the process that asks
  kStatus,     // what the daemon does at the moment
  kPark,       // a job, also another user's where the policy allows it; `job`: its id
  kUnpark,
  kStay,  // whether the job may hold more of a card that nobody can take back
};

enum class Verdict : std::uint32_t {
  kGranted = 1,
  kWaits,    // nothing is decided; another answer follows
  kLater,    // not in time; to be asked again
  kNever,    // it will not be otherwise: see `text`
  kVersion,  // the daemon speaks another version: the one in this packet
};

// kAdmit: wait until there is room, instead of being told that there is none.
inline constexpr std::uint32_t kAskToWait = 1;

struct DaemonRequest {
  std::uint32_t magic;
  std::uint32_t version;
  DaemonAsk ask;
  std::uint32_t flags;
  std::uint64_t bytes;       // kRoom, kStay
  std::uint32_t timeout_ms;  // kRoom, kPark, kUnpark
  std::uint32_t reserved;
  std::uint8_t uuid[16];  // kRoom, kStay
  char job[64];
};

struct DaemonReply {
  std::uint32_t magic;
  std::uint32_t version;
  DaemonAsk ask;
  Verdict verdict;
  std::uint32_t more;      // packets of this answer that follow
  std::uint32_t left_ms;   // kStatus: of the turn
  std::uint32_t moved;     // kPark, kUnpark: processes
  std::uint32_t failed;    // kPark, kUnpark: processes that were not moved
  std::uint64_t bytes;     // kPark, kUnpark: moved; kStatus: promised to processes, not taken yet
  std::uint64_t reserves;  // kStatus: of the jobs admitted to the card
  std::uint8_t uuid[16];   // kStatus: the card
  char job[16];            // kStatus: whose turn it is; empty: nobody waits
  char waiting[16];        // kStatus: whose turn comes next
  char text[384];          // for people: why, and what can be done
};

static_assert(sizeof(DaemonRequest) == 112);
static_assert(offsetof(DaemonRequest, uuid) == 32);
static_assert(sizeof(DaemonReply) == 480);
static_assert(offsetof(DaemonReply, text) == 96);

enum class RequestFault : std::uint8_t { kNone, kSize, kMagic, kVersion, kAsk, kText };

// Whether these bytes are a request; `*out` is set on kNone only.
[[nodiscard]] RequestFault read_request(const void* data, std::size_t size, DaemonRequest* out);
const char* describe(RequestFault fault);

// With mark and version, everything else zero.
DaemonRequest make_request(DaemonAsk ask);
DaemonReply make_reply(DaemonAsk ask, Verdict verdict);

}  // namespace vram::wire
