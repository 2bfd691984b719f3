#include "interpose/process.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "base/process_identity.h"
#include "interpose/elastic.h"
#include "interpose/job.h"
#include "interpose/own_pools.h"
#include "interpose/pools.h"
#include "interpose/trace.h"
#include "ledger/devices.h"
#include "ledger/slots.h"

namespace vram::interpose {
namespace {

using driver::real;

constexpr std::size_t kPage = 4096;

// Zero is the fresh state, so the storage is a Process from the start; whole pages of it, so that
// the kernel can wipe them.
struct alignas(kPage) Storage {
  unsigned char bytes[round_up(sizeof(Process), kPage)];
};
Storage storage;

thread_local unsigned depth = 0;

ledger::Owner joining;  // this process, while it joins

void wipe_by_hand() { memset(&storage, 0, sizeof storage); }

void describe_self(wire::Job* shared, std::uint32_t slot) {
  wire::ProcessInfo& info = shared->process[slot];
  char text[sizeof info.command] = "";
  FILE* file = fopen("/proc/self/cmdline", "re");
  if (file != nullptr) {
    const std::size_t got = fread(text, 1, sizeof text - 1, file);
    for (std::size_t i = 0; i + 1 < got; ++i) {
      if (text[i] == '\0') text[i] = ' ';
    }
    fclose(file);
  }
  memcpy(info.command, text, sizeof text);
}

std::uint64_t capacity_of(CUdevice ordinal) {
  std::size_t bytes = 0;
  return real.cuDeviceTotalMem_v2(&bytes, ordinal) == CUDA_SUCCESS ? bytes : 0;
}

std::uint64_t resident_threads(CUdevice ordinal) {
  int units = 0;
  int each = 0;
  if (real.cuDeviceGetAttribute(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal) !=
          CUDA_SUCCESS ||
      real.cuDeviceGetAttribute(&each, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
                                ordinal) != CUDA_SUCCESS) {
    return 0;
  }
  return static_cast<std::uint64_t>(units) * static_cast<std::uint64_t>(each);
}

bool join_device(Process& self, wire::Job* shared, CUdevice ordinal) {
  CUuuid uuid{};
  const auto get =
      real.cuDeviceGetUuid_v2 != nullptr ? real.cuDeviceGetUuid_v2 : real.cuDeviceGetUuid;
  if (get == nullptr || get(&uuid, ordinal) != CUDA_SUCCESS) return false;
  Device& device = self.device[ordinal];
  memcpy(device.uuid, uuid.bytes, sizeof device.uuid);
  device.capacity = capacity_of(ordinal);
  device.threads = resident_threads(ordinal);
  const std::uint32_t account = ledger::find_or_add_device(*shared, device.uuid, device.capacity);
  if (account == ledger::kNoDevice) return false;
  device.account = ledger::Account(shared, account, self.slot, &ledger::real_world());
  CUmemoryPool pool = nullptr;
  if (real.cuDeviceGetDefaultMemPool == nullptr ||
      real.cuDeviceGetDefaultMemPool(&pool, ordinal) != CUDA_SUCCESS) {
    return true;  // a card without stream-ordered memory
  }
  if (!add_pool(pool, static_cast<std::uint32_t>(ordinal))) return false;
  refresh_current_pool(static_cast<std::uint32_t>(ordinal));
  return true;
}

// exec keeps the process and ends all it held: a slot under this process's own identity is that of
// the program it ran before.
bool is_another_process(std::uint64_t identity, std::uint64_t pid_namespace) {
  return !(joining == ledger::Owner{identity, pid_namespace});
}

void leave_earlier_slots(wire::Job& shared) {
  static constexpr ledger::World world{is_another_process, nullptr, nullptr};
  (void)ledger::reap(shared, world);
}

// Takes a slot of the job and an account for every card that this process sees.
bool join(Process& self, wire::Job* shared) {
  joining = {base::identity_of(getpid()), base::own_pid_namespace()};
  if (joining.identity == 0) return false;
  leave_earlier_slots(*shared);
  self.slot = ledger::claim_slot(*shared, joining, ledger::real_world());
  if (self.slot == ledger::kNoSlot) return false;
  describe_self(shared, self.slot);
  int count = 0;
  if (real.cuDeviceGetCount(&count) != CUDA_SUCCESS) return false;
  if (count > static_cast<int>(wire::kMaxDevices)) count = wire::kMaxDevices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    if (!join_device(self, shared, ordinal)) return false;
  }
  self.device_count = static_cast<std::uint32_t>(count);
  join_trace(self);
  join_own_pools(self);
  return join_elastic(self);
}

// The one line that is ever written into a host program's error stream: a limit was asked for and
// cannot hold. Without it the program would only say that CUDA does not start.
Phase fail_to_join(const char* why) {
  char line[4608];
  const bool allow = allowed_to_fail();
  const int length = snprintf(
      line, sizeof line, "vram: %s; %s\n", why,
      allow ? "this program runs without a limit, as --on-failure allow says"
            : "CUDA is refused to this program; start it with 'vram run', or accept to run "
              "without a limit with VRAM_ON_FAILURE=allow");
  if (length > 0) (void)!write(STDERR_FILENO, line, static_cast<std::size_t>(length));
  return allow ? Phase::kFree : Phase::kRefused;
}

Phase try_to_join(Process& self) {
  if (job() != nullptr && join(self, job())) return Phase::kGoverned;
  if (job() == nullptr && job_failure() == nullptr) return Phase::kFree;
  return fail_to_join(job() == nullptr ? job_failure() : "the job has no room for this process");
}

// Before cuInit, and in a child of a process that called it, the driver refuses everything; there
// is nothing to govern and nothing to join with yet.
bool driver_ready() {
  int count = 0;
  return real.cuDeviceGetCount != nullptr && real.cuDeviceGetCount(&count) == CUDA_SUCCESS;
}

Phase settled_phase_slowly() {
  Process& self = process();
  Phase phase = self.phase.load(std::memory_order_acquire);
  if (phase == Phase::kFresh && !driver_ready()) return phase;
  if (phase == Phase::kFresh &&
      self.phase.compare_exchange_strong(phase, Phase::kJoining, std::memory_order_acq_rel)) {
    phase = try_to_join(self);
    self.phase.store(phase, std::memory_order_release);
  }
  while (phase == Phase::kJoining) {
    sched_yield();
    phase = self.phase.load(std::memory_order_acquire);
  }
  return phase;
}

inline Phase settled_phase() {
  const Phase phase = process().phase.load(std::memory_order_acquire);
  return phase > Phase::kJoining ? phase : settled_phase_slowly();
}

}  // namespace

Process& process() { return *std::launder(reinterpret_cast<Process*>(storage.bytes)); }

void wipe_on_fork() {
  const int saved = errno;
  if (madvise(&storage, sizeof storage, MADV_WIPEONFORK) != 0) {
    pthread_atfork(nullptr, nullptr, wipe_by_hand);
  }
  errno = saved;
}

bool joined() { return settled_phase() == Phase::kGoverned; }
bool refused() { return settled_phase() == Phase::kRefused; }

Device* device_at(CUdevice ordinal) {
  if (!joined()) return nullptr;
  Process& self = process();
  const bool known = ordinal >= 0 && static_cast<std::uint32_t>(ordinal) < self.device_count;
  return known ? &self.device[ordinal] : nullptr;
}

std::uint64_t note_context(CUcontext context, CUdevice ordinal) {
  Process& self = process();
  base::LevelTable::Entry* entry =
      self.contexts.find_or_insert(reinterpret_cast<std::uint64_t>(context));
  if (entry == nullptr) return 0;
  std::uint64_t value = entry->value.load(std::memory_order_acquire);
  if (value != 0) return value;
  const std::uint64_t number = self.next_context.fetch_add(1) % kMaxContexts;
  const std::uint64_t made = number << 8 | static_cast<std::uint64_t>(ordinal) | 1u << 7;
  return entry->value.compare_exchange_strong(value, made) ? made : value;
}

bool locate_context(CUcontext context, Here* here) {
  if (!joined()) return false;
  Process& self = process();
  const base::LevelTable::Entry* entry =
      self.contexts.find(reinterpret_cast<std::uint64_t>(context));
  std::uint64_t value = entry == nullptr ? 0 : entry->value.load(std::memory_order_acquire);
  if (value == 0) {
    CUdevice ordinal = 0;
    if (real.cuCtxGetDevice(&ordinal) != CUDA_SUCCESS || device_at(ordinal) == nullptr) {
      return false;
    }
    value = note_context(context, ordinal);
    if (value == 0) return false;
  }
  here->ordinal = static_cast<std::uint32_t>(value & 0x7f);
  here->context = static_cast<std::uint32_t>(value >> 8);
  here->device = &self.device[here->ordinal];
  return true;
}

bool locate(Here* here) {
  CUcontext context = nullptr;
  if (real.cuCtxGetCurrent == nullptr || real.cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
      context == nullptr) {
    return false;
  }
  return locate_context(context, here);
}

Guard::Guard() : errno_(errno), nested_(depth++ != 0) {}

Guard::~Guard() {
  --depth;
  errno = errno_;
}

}  // namespace vram::interpose
