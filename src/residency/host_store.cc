#include "residency/host_store.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/quiet_thread.h"

namespace vram::residency {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kStack = 128 << 10;

unsigned helpers_wanted(std::uint64_t pieces) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  unsigned processors = 1;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    processors = static_cast<unsigned>(CPU_COUNT(&allowed));
  }
  const unsigned most = processors > 1 ? processors - 1 : 1;
  return pieces < most ? static_cast<unsigned>(pieces) : most;
}

// Nothing but faults: a call that changes the mapping would make all helpers wait for each other.
void touch(unsigned char* at, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kPage) {
    *const_cast<volatile unsigned char*>(at + i) = 0;
  }
}

void nap() {
  constexpr timespec kNap{0, 50'000};
  nanosleep(&kNap, nullptr);
}

}  // namespace

bool HostStore::reserve(std::uint64_t bytes) {
  if (bytes <= span_) return true;
  give_back();
  const std::uint64_t span = (bytes + kPiece - 1) / kPiece * kPiece;
  void* at = mmap(nullptr, span + kHugePage, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return false;
  if (!piece_.reserve(span / kPiece)) {
    munmap(at, span + kHugePage);
    return false;
  }
  // On a boundary of huge pages; what lies beside it goes.
  auto* const begin = static_cast<unsigned char*>(at);
  const std::size_t skip =
      (kHugePage - reinterpret_cast<std::uintptr_t>(at) % kHugePage) % kHugePage;
  if (skip != 0) munmap(begin, skip);
  if (skip != kHugePage) munmap(begin + skip + span, kHugePage - skip);
  memory_ = begin + skip;
  span_ = span;
  (void)madvise(memory_, span_, MADV_DONTFORK);
  (void)madvise(memory_, span_, MADV_HUGEPAGE);
  return true;
}

bool HostStore::begin(const Calls& driver, CUcontext context, std::uint64_t bytes) {
  driver_ = &driver;
  context_ = context;
  const std::uint64_t kept = bytes_kept();
  if (bytes > span_ || (bytes > kept && bytes - kept > driver.host_room())) return false;
  pieces_ = (bytes + kPiece - 1) / kPiece;
  next_.store(0, std::memory_order_relaxed);
  stop_.store(false, std::memory_order_relaxed);
  std::uint64_t missing = 0;
  for (std::uint64_t i = 0; i < pieces_; ++i) {
    missing += piece_[i].state.load(std::memory_order_relaxed) == kAbsent ? 1 : 0;
  }
  const unsigned wanted = helpers_wanted(missing);
  while (
      helpers_ < wanted && helpers_ < kMostHelpers &&
      base::start_quiet_thread(&helper_[helpers_], base::ThreadEnd::kJoined, kStack, help, this)) {
    ++helpers_;
  }
  return true;
}

void* HostStore::help(void* store) {
  static_cast<HostStore*>(store)->prepare_pieces();
  return nullptr;
}

void HostStore::prepare_pieces() {
  const InContext current(*driver_, context_);
  while (!stop_.load(std::memory_order_relaxed)) {
    const std::uint64_t piece = next_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= pieces_) return;
    if (piece_[piece].state.load(std::memory_order_acquire) != kAbsent) continue;
    piece_[piece].state.store(prepare(piece), std::memory_order_release);
  }
}

HostStore::State HostStore::prepare(std::uint64_t piece) const {
  unsigned char* const at = memory_ + piece * kPiece;
  touch(at, kPiece);
  if (driver_->host_register == nullptr ||
      driver_->host_register(at, kPiece, CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS) {
    return kTouched;
  }
  return kRegistered;
}

void HostStore::wait_for(std::uint64_t offset) {
  const std::atomic<std::uint32_t>& state = piece_[offset / kPiece].state;
  if (helpers_ == 0) prepare_pieces();
  while (state.load(std::memory_order_acquire) == kAbsent) nap();
}

bool HostStore::all_ready() const {
  for (std::uint64_t i = 0; i < pieces_; ++i) {
    if (piece_[i].state.load(std::memory_order_acquire) == kAbsent) return false;
  }
  return true;
}

void HostStore::finish() {
  stop_.store(true, std::memory_order_relaxed);
  for (unsigned i = 0; i < helpers_; ++i) (void)pthread_join(helper_[i], nullptr);
  helpers_ = 0;
}

std::uint64_t HostStore::bytes_kept() const {
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < span_ / kPiece; ++i) {
    const std::uint32_t state = piece_[i].state.load(std::memory_order_relaxed);
    if (state != kAbsent) bytes += kPiece;
  }
  return bytes;
}

void HostStore::give_back() {
  if (span_ == 0) return;
  if (driver_ != nullptr) {
    const InContext current(*driver_, context_);
    for (std::uint64_t i = 0; i < span_ / kPiece; ++i) {
      if (piece_[i].state.load(std::memory_order_relaxed) == kRegistered) {
        (void)driver_->host_unregister(memory_ + i * kPiece);
      }
    }
  }
  munmap(memory_, span_);
  memory_ = nullptr;
  span_ = 0;
}

}  // namespace vram::residency
