#include "sim/machine.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "sim/machine_file.h"
#include "sim/machine_guard.h"
#include "sim/machine_layout.h"

namespace vram::sim {
namespace {

void initialise(MachineLayout* layout, const MachineSpec& spec) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&layout->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  layout->version = MachineLayout::kVersion;
  layout->card_count = static_cast<uint32_t>(spec.card_bytes.size());
  for (size_t i = 0; i < spec.card_bytes.size(); ++i) layout->cards[i].bytes = spec.card_bytes[i];
  layout->next_object = 1;
  layout->next_order = 1;
  __atomic_store_n(&layout->magic, MachineLayout::kMagic, __ATOMIC_RELEASE);
}

bool same_cards(const MachineLayout& layout, const MachineSpec& spec) {
  if (layout.version != MachineLayout::kVersion) return false;
  if (layout.card_count != spec.card_bytes.size()) return false;
  for (size_t i = 0; i < spec.card_bytes.size(); ++i) {
    if (layout.cards[i].bytes != spec.card_bytes[i]) return false;
  }
  return true;
}

// Waits for its turn to look at the file or to make it.
bool lock_file(int fd) {
  while (::flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace

OpenStatus Machine::open(const MachineSpec& spec, Machine** out) {
  const std::string path = "/dev/shm/vram-sim-" + std::to_string(::geteuid()) + "-" + spec.name;
  OpenFile file;
  if (!open_own_file(path, O_CREAT, &file)) return OpenStatus::kUnavailable;
  // From here on the descriptor stays open: closing it would drop a lock that another Machine of
  // this process may hold on the same file.
  if (!lock_file(file.high) || ::ftruncate(file.high, sizeof(MachineLayout)) != 0) {
    return OpenStatus::kUnavailable;
  }
  void* memory =
      ::mmap(nullptr, sizeof(MachineLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file.high, 0);
  if (memory == MAP_FAILED) return OpenStatus::kUnavailable;
  auto* layout = static_cast<MachineLayout*>(memory);
  // Left behind by processes that are gone: other cards, or an older version of this code.
  if (!same_cards(*layout, spec) && is_abandoned(file.high, *layout)) {
    ::fallocate(file.high, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, sizeof(MachineLayout));
  }
  if (__atomic_load_n(&layout->magic, __ATOMIC_ACQUIRE) != MachineLayout::kMagic) {
    initialise(layout, spec);
  }
  ::flock(file.high, LOCK_UN);
  if (!same_cards(*layout, spec)) return OpenStatus::kMismatch;
  // All that the process has, so that a checker of leaks finds them.
  static std::vector<Machine*>* const kept = new std::vector<Machine*>;
  auto* machine = new Machine;
  kept->push_back(machine);
  machine->name_ = spec.name;
  machine->path_ = path;
  machine->layout_ = layout;
  machine->fd_ = file.high;
  machine->inode_ = file.inode;
  if (file.low != file.high) machine->close_low(file.low);
  *out = machine;
  return OpenStatus::kOk;
}

int Machine::card_count() const { return static_cast<int>(layout_->card_count); }
uint64_t Machine::card_bytes(int card) const { return layout_->cards[card].bytes; }

bool Machine::attach() {
  Guard guard(*this);
  sweep_earlier_program();
  if (attach_free_row()) return true;
  sweep_dead();
  return attach_free_row();
}

bool Machine::take(int card, uint64_t bytes) {
  CardState& state = layout_->cards[card];
  if (bytes > state.bytes) return false;
  if (state.used > state.bytes - bytes) sweep_dead();
  return state.used <= state.bytes - bytes;
}

bool Machine::charge(int card, uint64_t bytes) {
  Guard guard(*this);
  keep_row();
  if (!take(card, bytes)) return false;
  own_[card] += bytes;
  layout_->rows[row_].own[card] += bytes;
  layout_->cards[card].used += bytes;
  return true;
}

void Machine::uncharge(int card, uint64_t bytes) {
  Guard guard(*this);
  keep_row();
  own_[card] -= bytes;
  layout_->rows[row_].own[card] -= bytes;
  layout_->cards[card].used -= bytes;
}

void Machine::count_context(int card, int change) {
  Guard guard(*this);
  keep_row();
  layout_->rows[row_].contexts[card] += change;
}

uint64_t Machine::used_bytes(int card) {
  Guard guard(*this);
  sweep_for_figures();
  return layout_->cards[card].used;
}

std::vector<CardProcess> Machine::processes(int card) {
  Guard guard(*this);
  sweep_for_figures();
  std::vector<CardProcess> found;
  for (uint32_t i = 0; i < layout_->row_limit; ++i) {
    if (layout_->heads[i].in_use == 0) continue;
    const ProcessRow& row = layout_->rows[i];
    const uint64_t used = row.own[card] + row.shared[card];
    if (used != 0 || row.contexts[card] != 0) found.push_back({layout_->heads[i].pid, used});
  }
  return found;
}

void Machine::clear_row(uint32_t index) {
  for (uint32_t i = 0; i < layout_->hold_limit; ++i) {
    if (layout_->holds[i].object != 0 && layout_->holds[i].row == index) drop_hold(i);
  }
  __atomic_store_n(&layout_->heads[index].in_use, 0u, __ATOMIC_RELEASE);
  ProcessRow& row = layout_->rows[index];
  for (uint32_t card = 0; card < layout_->card_count; ++card) {
    layout_->cards[card].used -= row.own[card];
    row.own[card] = 0;
  }
}

}  // namespace vram::sim
