// The simulated machine: cards whose memory all processes of a user share.
//
// Model. A file in /dev/shm holds one row for each process and one figure for each card. A charge
// goes to the process's row and the card at once, under a mutex that survives the death of its
// holder: whoever finds it orphaned recomputes the cards' figures from the rows. Each row is
// written so that a death between any two stores leaves it true or leaves it to a dead process.
//
// Death. A process holds a POSIX record lock on its row's byte for as long as it lives. The kernel
// drops it at exit, kill and exec, before the process can be waited for, and a forked child does
// not inherit it. Whoever needs memory or figures returns what rows without a lock hold. The lock
// goes when any descriptor of the file is closed, so a Machine never closes its own; where the
// program closes it, the next call takes a row anew with what the process holds of its own.
//
// Shared memory. Physical memory that several processes hold is an object with one hold a process;
// the oldest hold is charged, and the next oldest when that one ends.
//
// Invariants under the mutex: card.used = sum over rows of own + shared <= card.bytes;
// row.shared = sum of the bytes of its paying holds; each object has exactly one paying hold.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/spec.h"

namespace vram::sim {

struct MachineLayout;

enum class OpenStatus {
  kOk,
  kUnavailable,  // the file cannot be made or mapped, or is not ours
  kMismatch,     // a machine of this name exists with other cards, and is in use
};

struct CardProcess {
  pid_t pid = 0;
  uint64_t used_bytes = 0;
};

class Machine {
 public:
  // Makes the machine or joins it. Lives until the process ends.
  [[nodiscard]] static OpenStatus open(const MachineSpec& spec, Machine** out);

  [[nodiscard]] int card_count() const;
  [[nodiscard]] uint64_t card_bytes(int card) const;
  [[nodiscard]] const std::string& name() const { return name_; }

  // Takes a row for this process; false when all are taken. Once, before the functions below.
  [[nodiscard]] bool attach();

  // False, with nothing changed, when the card has no room.
  [[nodiscard]] bool charge(int card, uint64_t bytes);
  void uncharge(int card, uint64_t bytes);

  // What the process list goes by: a process with a context is shown, even with no memory.
  void count_context(int card, int change);

  // A number no other object of the machine has had.
  [[nodiscard]] uint64_t new_object();
  // Turns a part of what this process is charged for into an object it holds. False when the
  // table is full.
  [[nodiscard]] bool share(uint64_t object, int card, uint64_t bytes);
  enum class HoldStatus { kOk, kNoSuchObject, kNoRoom };
  // Joins an object of another process. The caller holds each object once at most.
  [[nodiscard]] HoldStatus hold(uint64_t object);
  // As hold(); an object nobody holds is made anew and charged to this process.
  [[nodiscard]] HoldStatus hold_or_create(uint64_t object, int card, uint64_t bytes);
  // Ends this process's hold. True when nobody else holds the object any more, nor a descriptor.
  bool drop(uint64_t object);
  [[nodiscard]] bool held_by_others(uint64_t object);
  // One hold more of an object that this process holds, for as long as the given descriptor of the
  // lifeline is open anywhere and the process lives. False when the table is full.
  [[nodiscard]] bool hold_while_open(uint64_t object, int keeper);
  void end_closed_holds();

  // Figures; memory of dead processes has been returned first (with hundreds of processes, of those
  // that died more than some milliseconds ago).
  [[nodiscard]] uint64_t used_bytes(int card);
  [[nodiscard]] std::vector<CardProcess> processes(int card);

 private:
  Machine() = default;
  class Guard;

  [[nodiscard]] static bool is_abandoned(int fd, const MachineLayout& layout);
  void close_low(int descriptor);
  [[nodiscard]] bool attach_free_row();
  void keep_row();
  void recompute();
  void sweep_dead();
  void sweep_for_figures();
  void sweep_earlier_program();
  [[nodiscard]] bool keep_descriptor();
  [[nodiscard]] bool locked_by_another(uint32_t row) const;
  [[nodiscard]] bool is_dead(uint32_t row) const;
  void clear_row(uint32_t row);
  void drop_hold(uint32_t index);
  void drop_closed_holds();
  [[nodiscard]] bool take(int card, uint64_t bytes);
  [[nodiscard]] HoldStatus join(uint64_t object);
  [[nodiscard]] HoldStatus add_hold(uint64_t object, int card, uint64_t bytes, bool paying,
                                    int keeper = kNoKeeper);

  static constexpr uint32_t kNoRow = UINT32_MAX;
  static constexpr int kNoKeeper = -1;

  std::string name_;
  MachineLayout* layout_ = nullptr;
  std::string path_;
  int fd_ = -1;
  uint64_t inode_ = 0;
  std::chrono::steady_clock::time_point swept_at_{};
  uint32_t row_ = kNoRow;
  uint64_t generation_ = 0;
  uint64_t own_[kMaxCards] = {};  // what the row says, while the process has it
};

}  // namespace vram::sim
