// Which rows belong to living processes, and this process's own.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "sim/machine.h"
#include "sim/machine_file.h"
#include "sim/machine_guard.h"
#include "sim/machine_layout.h"

namespace vram::sim {
namespace {

// Looking whether a lock is held takes the kernel a walk over all locks of the file: 0.1 ms for 100
// processes, 17 ms for 1,000. With more than so many, figures may be that much behind.
constexpr uint32_t kManyRows = 256;
constexpr std::chrono::milliseconds kSweepInterval{20};

}  // namespace

// No process holds a row. The kernel does not tell a process of its own locks.
bool Machine::is_abandoned(int fd, const MachineLayout& layout) {
  struct flock all = row_lock(F_WRLCK, 0);
  all.l_len = 0;  // to the end
  if (::fcntl(fd, F_GETLK, &all) != 0 || all.l_type != F_UNLCK) return false;
  if (layout.version != MachineLayout::kVersion) return true;
  const uint64_t start_time = own_start_time();
  for (uint32_t row = 0; row < layout.row_limit; ++row) {
    const RowHead& head = layout.heads[row];
    if (head.in_use != 0 && head.pid == ::getpid() && head.start_time == start_time) return false;
  }
  return true;
}

// Closing any descriptor of the file drops all locks that this process has on it: those of the
// driver, when the management library is loaded beside it. They are taken again before anybody can
// look.
void Machine::close_low(int descriptor) {
  Guard guard(*this);
  ::close(descriptor);
  const uint64_t start_time = own_start_time();
  for (uint32_t row = 0; row < layout_->row_limit; ++row) {
    const RowHead& own = layout_->heads[row];
    if (own.in_use == 0 || own.pid != ::getpid() || own.start_time != start_time) continue;
    struct flock lock = row_lock(F_WRLCK, row);
    (void)::fcntl(fd_, F_SETLK, &lock);
  }
}

// exec keeps the process and frees what the program before held.
void Machine::sweep_earlier_program() {
  const uint64_t start_time = own_start_time();
  for (uint32_t row = 0; row < layout_->row_limit; ++row) {
    const RowHead& candidate = layout_->heads[row];
    if (candidate.in_use == 0 || candidate.pid != ::getpid()) continue;
    if (candidate.start_time == start_time && !locked_by_another(row)) clear_row(row);
  }
}

bool Machine::attach_free_row() {
  for (uint32_t row = 0; row < kMaxProcesses; ++row) {
    RowHead& head = layout_->heads[row];
    if (head.in_use != 0) continue;
    struct flock lock = row_lock(F_WRLCK, row);
    if (::fcntl(fd_, F_SETLK, &lock) != 0) continue;
    layout_->rows[row] = {};
    head.pid = ::getpid();
    head.start_time = own_start_time();
    head.generation = layout_->next_order++;
    if (layout_->row_limit <= row) layout_->row_limit = row + 1;
    __atomic_store_n(&head.in_use, 1u, __ATOMIC_RELEASE);
    row_ = row;
    generation_ = head.generation;
    return true;
  }
  return false;
}

// The program may have closed our descriptor, and opened something else under its number.
bool Machine::keep_descriptor() {
  struct stat status = {};
  if (::fstat(fd_, &status) == 0 && status.st_ino == inode_) return true;
  OpenFile file;
  if (!open_own_file(path_, 0, &file) || file.inode != inode_) return false;
  fd_ = file.high;
  if (row_ != kNoRow && layout_->heads[row_].generation == generation_) {
    struct flock lock = row_lock(F_WRLCK, row_);
    (void)::fcntl(fd_, F_SETLK, &lock);
  }
  return true;
}

// Without its lock a living process loses its row to the next sweep. It comes back with what the
// process holds of its own; shared objects are lost to it.
void Machine::keep_row() {
  const RowHead& head = layout_->heads[row_];
  if (head.in_use != 0 && head.generation == generation_) return;
  if (!keep_descriptor() || !attach_free_row()) return;
  for (uint32_t card = 0; card < layout_->card_count; ++card) {
    layout_->rows[row_].own[card] = own_[card];
    layout_->cards[card].used += own_[card];
  }
}

bool Machine::locked_by_another(uint32_t row) const {
  struct flock lock = row_lock(F_WRLCK, row);
  return ::fcntl(fd_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool Machine::is_dead(uint32_t row) const {
  if (row == row_ || locked_by_another(row)) return false;
  const RowHead& candidate = layout_->heads[row];
  // The kernel does not show a process its own locks, and another library of this process (the
  // driver beside the management library) may own the row.
  return candidate.pid != ::getpid() || candidate.start_time != own_start_time();
}

void Machine::sweep_dead() {
  if (!keep_descriptor()) return;
  for (uint32_t row = 0; row < layout_->row_limit; ++row) {
    if (layout_->heads[row].in_use != 0 && is_dead(row)) clear_row(row);
  }
  drop_closed_holds();
  swept_at_ = std::chrono::steady_clock::now();
}

void Machine::sweep_for_figures() {
  const bool recent = std::chrono::steady_clock::now() - swept_at_ < kSweepInterval;
  if (layout_->row_limit <= kManyRows || !recent) sweep_dead();
}

}  // namespace vram::sim
