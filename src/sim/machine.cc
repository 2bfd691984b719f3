#include "sim/machine.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "sim/machine_guard.h"
#include "sim/machine_layout.h"

namespace vram::sim {
namespace {

// High enough that programs which close their low descriptors one by one do not meet it.
constexpr int kDescriptorFloor = 700;

// Field 22 of /proc/self/stat; 0 where it cannot be read.
uint64_t own_start_time() {
  char text[1024];
  const int fd = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t length = ::read(fd, text, sizeof(text) - 1);
  ::close(fd);
  if (length <= 0) return 0;
  text[length] = '\0';
  const char* field = std::strrchr(text, ')');  // the command may hold spaces
  for (int i = 0; field != nullptr && i < 20; ++i) field = std::strchr(field + 1, ' ');
  unsigned long long value = 0;
  if (field == nullptr || std::sscanf(field, " %llu", &value) != 1) return 0;
  return value;
}

struct flock row_lock(short type, uint32_t row) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = kLockOffset + row;
  lock.l_len = 1;
  return lock;
}

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

// A descriptor of the file, locked exclusively; -1 when it cannot be had or belongs to another.
// `*low` is another one, to be closed by close_low(), or the same.
int open_locked(const std::string& path, int* low) {
  *low = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (*low < 0) return -1;
  int fd = ::fcntl(*low, F_DUPFD_CLOEXEC, kDescriptorFloor);
  if (fd < 0) fd = *low;  // a low limit of descriptors
  struct stat status = {};
  if (::fstat(fd, &status) != 0 || status.st_uid != ::geteuid() || !S_ISREG(status.st_mode)) {
    ::close(fd);
    return -1;
  }
  while (::flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) {
      ::close(fd);
      return -1;
    }
  }
  return fd;
}

}  // namespace

OpenStatus Machine::open(const MachineSpec& spec, Machine** out) {
  const std::string path = "/dev/shm/vram-sim-" + std::to_string(::geteuid()) + "-" + spec.name;
  int low = -1;
  const int fd = open_locked(path, &low);
  if (fd < 0) return OpenStatus::kUnavailable;
  // From here on the descriptor stays open: closing it would drop a lock that another Machine of
  // this process may hold on the same file.
  if (::ftruncate(fd, sizeof(MachineLayout)) != 0) return OpenStatus::kUnavailable;
  void* memory = ::mmap(nullptr, sizeof(MachineLayout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return OpenStatus::kUnavailable;
  auto* layout = static_cast<MachineLayout*>(memory);
  if (__atomic_load_n(&layout->magic, __ATOMIC_ACQUIRE) != MachineLayout::kMagic) {
    initialise(layout, spec);
  }
  ::flock(fd, LOCK_UN);
  if (!same_cards(*layout, spec)) return OpenStatus::kMismatch;
  auto* machine = new Machine;
  machine->name_ = spec.name;
  machine->layout_ = layout;
  machine->fd_ = fd;
  if (low != fd) machine->close_low(low);
  *out = machine;
  return OpenStatus::kOk;
}

// Closing any descriptor of the file drops all locks that this process has on it: those of the
// driver, when the management library is loaded beside it. They are taken again before anybody can
// look.
void Machine::close_low(int descriptor) {
  Guard guard(*this);
  ::close(descriptor);
  const uint64_t start_time = own_start_time();
  for (uint32_t row = 0; row < layout_->row_limit; ++row) {
    const ProcessRow& own = layout_->rows[row];
    if (own.in_use == 0 || own.pid != ::getpid() || own.start_time != start_time) continue;
    struct flock lock = row_lock(F_WRLCK, row);
    (void)::fcntl(fd_, F_SETLK, &lock);
  }
}

int Machine::card_count() const { return static_cast<int>(layout_->card_count); }
uint64_t Machine::card_bytes(int card) const { return layout_->cards[card].bytes; }

// exec keeps the process and frees what the program before held.
void Machine::sweep_earlier_program() {
  const uint64_t start_time = own_start_time();
  for (uint32_t row = 0; row < layout_->row_limit; ++row) {
    const ProcessRow& candidate = layout_->rows[row];
    if (candidate.in_use == 0 || candidate.pid != ::getpid()) continue;
    if (candidate.start_time == start_time && !locked_by_another(row)) clear_row(row);
  }
}

bool Machine::attach() {
  Guard guard(*this);
  sweep_earlier_program();
  if (attach_free_row()) return true;
  sweep_dead();
  return attach_free_row();
}

bool Machine::attach_free_row() {
  for (uint32_t row = 0; row < kMaxProcesses; ++row) {
    ProcessRow& candidate = layout_->rows[row];
    if (candidate.in_use != 0) continue;
    struct flock lock = row_lock(F_WRLCK, row);
    if (::fcntl(fd_, F_SETLK, &lock) != 0) continue;
    candidate = {};
    candidate.pid = ::getpid();
    candidate.start_time = own_start_time();
    if (layout_->row_limit <= row) layout_->row_limit = row + 1;
    __atomic_store_n(&candidate.in_use, 1u, __ATOMIC_RELEASE);
    row_ = row;
    return true;
  }
  return false;
}

bool Machine::take(int card, uint64_t bytes) {
  CardState& state = layout_->cards[card];
  if (bytes > state.bytes) return false;
  if (state.used > state.bytes - bytes) sweep_dead();
  return state.used <= state.bytes - bytes;
}

bool Machine::charge(int card, uint64_t bytes) {
  Guard guard(*this);
  if (!take(card, bytes)) return false;
  layout_->rows[row_].own[card] += bytes;
  layout_->cards[card].used += bytes;
  return true;
}

void Machine::uncharge(int card, uint64_t bytes) {
  Guard guard(*this);
  layout_->rows[row_].own[card] -= bytes;
  layout_->cards[card].used -= bytes;
}

void Machine::count_context(int card, int change) {
  Guard guard(*this);
  layout_->rows[row_].contexts[card] += change;
}

uint64_t Machine::used_bytes(int card) {
  Guard guard(*this);
  sweep_dead();
  return layout_->cards[card].used;
}

std::vector<CardProcess> Machine::processes(int card) {
  Guard guard(*this);
  sweep_dead();
  std::vector<CardProcess> found;
  for (uint32_t i = 0; i < layout_->row_limit; ++i) {
    const ProcessRow& row = layout_->rows[i];
    if (row.in_use == 0) continue;
    const uint64_t used = row.own[card] + row.shared[card];
    if (used != 0 || row.contexts[card] != 0) found.push_back({row.pid, used});
  }
  return found;
}

bool Machine::locked_by_another(uint32_t row) const {
  struct flock lock = row_lock(F_WRLCK, row);
  return ::fcntl(fd_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool Machine::is_dead(uint32_t row) const {
  if (row == row_ || locked_by_another(row)) return false;
  const ProcessRow& candidate = layout_->rows[row];
  // The kernel does not show a process its own locks, and another library of this process (the
  // driver beside the management library) may own the row.
  return candidate.pid != ::getpid() || candidate.start_time != own_start_time();
}

void Machine::sweep_dead() {
  for (uint32_t row = 0; row < layout_->row_limit; ++row) {
    if (layout_->rows[row].in_use != 0 && is_dead(row)) clear_row(row);
  }
}

void Machine::clear_row(uint32_t index) {
  for (uint32_t i = 0; i < layout_->hold_limit; ++i) {
    if (layout_->holds[i].object != 0 && layout_->holds[i].row == index) drop_hold(i);
  }
  ProcessRow& row = layout_->rows[index];
  __atomic_store_n(&row.in_use, 0u, __ATOMIC_RELEASE);
  for (uint32_t card = 0; card < layout_->card_count; ++card) {
    layout_->cards[card].used -= row.own[card];
    row.own[card] = 0;
  }
}

}  // namespace vram::sim
