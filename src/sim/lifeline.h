// A descriptor whose end can be seen by any process of the machine.
//
// Model. Two descriptors of one file: the keeper stays with the process that made them, the other
// is given away and carries a lock. The kernel drops the lock with the last copy of that one,
// wherever it went. Whoever can open the keeper's file asks for the lock.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace vram::sim {

struct Lifeline {
  int keeper = -1;
  int given = -1;  // shows `bytes` when its end is sought; what can be read there is zeroes
};

// False when there are no descriptors to be had.
[[nodiscard]] bool make_lifeline(uint64_t bytes, Lifeline* out);
// Whether anybody has the given descriptor of the lifeline whose keeper is `keeper` of `pid`.
[[nodiscard]] bool is_given_open(pid_t pid, int keeper);

}  // namespace vram::sim
