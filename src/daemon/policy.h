#pragma once

// What the administrator declared, or a user for its own jobs: who may take how much, whose memory
// may be moved for whom, and who goes first. Without a file everybody shares its own memory only.
//
// Threads: any; nothing changes after reading.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/size.h"
#include "host/failure.h"
#include "host/toml_file.h"
#include "probe/nvml.h"

namespace vram::daemon {

// Whose memory may be moved to make room for a user's jobs.
enum class MayPark : std::uint8_t {
  kOwn,   // its own
  kIdle,  // also what idles of others
  kAny,   // also what is at work, in turns; and by hand, with `vram park`
};
const char* name_of(MayPark value);

// What one section says; absent: another section decides.
struct Rule {
  std::optional<base::Size> limit;    // highest limit of a job on each card
  std::optional<base::Size> reserve;  // of a job that asks for none; zero permille: none
  std::optional<MayPark> may_park;
  std::optional<std::int64_t> priority;
};

// A user, with everything that sections name it by.
struct User {
  std::uint32_t uid = 0;
  std::string name;
  std::vector<std::string> groups;
};

// What holds for one user.
struct Standing {
  std::optional<base::Size> limit;
  std::optional<base::Size> reserve;
  MayPark may_park = MayPark::kOwn;
  std::int64_t priority = 0;  // memory of lower ones is moved first
  std::string origin;         // as messages name the policy: its file, or "no policy file"
};

class Policy {
 public:
  Standing of(const User& user) const;
  // The part of a card's capacity that jobs may have reserved, bytes.
  std::uint64_t budget_on(const probe::Card& card) const;

  const std::string& origin() const { return origin_; }
  // A pause shorter than this is none: between two steps a training idles for milliseconds.
  std::uint64_t idle_after_ms() const { return idle_after_ms_; }
  // Nobody who was let in has to go earlier.
  std::uint64_t quantum_ms() const { return quantum_ms_; }
  // Bytes of host memory that parked memory may take, of all jobs together.
  std::uint64_t host_memory() const { return host_memory_; }

 private:
  struct Named {
    std::string name;  // of a user, its number, or of a group
    Rule rule;
  };
  struct Budget {
    std::string card;  // number, beginning of the UUID, or "all"
    base::Size size;
  };
  friend host::Result<Policy> read_policy(const std::string& path);
  host::Result<host::Done> take(const host::TomlEntry& entry);
  host::Result<host::Done> take_top(const host::TomlEntry& entry);
  host::Result<host::Done> take_card(const host::TomlEntry& entry);
  Rule* section(const host::TomlEntry& entry);

  std::string origin_ = "no policy file";
  std::uint64_t idle_after_ms_ = 2000;
  std::uint64_t quantum_ms_ = 2000;
  std::uint64_t host_memory_ = ~std::uint64_t{0};
  Rule default_;
  std::vector<Named> users_, groups_;
  std::vector<Budget> budgets_;
};

// A file that is missing, or says anything that is not understood, is an error: what it was to
// forbid would be allowed.
host::Result<Policy> read_policy(const std::string& path);

// As the system knows the user.
User look_up_user(std::uint32_t uid);

}  // namespace vram::daemon
