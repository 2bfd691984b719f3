#include "arena/shared_bfc.h"

namespace vram::arena {

base::Expected<std::uint64_t, BfcError> SharedBfc::allocate(const SharedBfcRequest& request) {
  std::optional<BfcWait::Time> until;
  BfcRequest one_try{request.bytes, request.alignment, 0};
  std::unique_lock lock(mutex_);
  while (true) {
    if (request.freed_before) one_try.freed_before = request.freed_before();
    const auto address = bfc_.allocate(one_try);
    if (address || address.error() != BfcError::kOutOfMemory) return address;
    const BfcWait::Time now = wait_.now();
    if (!until) until = now + request.patience;
    if (now >= *until) break;
    wait_.wait(returned_, lock, *until);
  }
  if (request.report != nullptr) *request.report = bfc_.report(one_try);
  return BfcError::kOutOfMemory;
}

bool SharedBfc::free(std::uint64_t address) {
  {
    const std::lock_guard lock(mutex_);
    if (!bfc_.free(address)) return false;
  }
  returned_.notify_all();
  return true;
}

void SharedBfc::set_safe_frontier(std::uint64_t count) {
  {
    const std::lock_guard lock(mutex_);
    if (!bfc_.set_safe_frontier(count)) return;
  }
  returned_.notify_all();
}

std::optional<BfcAllocation> SharedBfc::find(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  return bfc_.find(address);
}

void SharedBfc::set_timing_counter(std::atomic<std::uint64_t>* counter) {
  const std::lock_guard lock(mutex_);
  bfc_.set_timing_counter(counter);
}

BfcStats SharedBfc::stats() const {
  const std::lock_guard lock(mutex_);
  return bfc_.stats();
}

void SharedBfc::clear_stats() {
  const std::lock_guard lock(mutex_);
  bfc_.clear_stats();
}

double SharedBfc::fragmentation() const {
  const std::lock_guard lock(mutex_);
  return bfc_.fragmentation();
}

BfcReport SharedBfc::report(const BfcRequest& request) const {
  const std::lock_guard lock(mutex_);
  return bfc_.report(request);
}

}  // namespace vram::arena
