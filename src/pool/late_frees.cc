#include "pool/late_frees.h"

#include "pool/current.h"

namespace vram::pool {

CUresult LateFrees::open(const DriverCalls& driver, CUcontext context) {
  driver_ = &driver;
  context_ = context;
  const Current current(driver, context);
  return streams_.open(driver);
}

void LateFrees::close() {
  if (driver_ == nullptr) return;
  const Current current(*driver_, context_);
  streams_.close();
}

void LateFrees::wait_for(CUstream stream) {
  const Current current(*driver_, context_);
  // A per-thread stream's handle means another stream here than in the thread that used it.
  if (stream == CU_STREAM_PER_THREAD || driver_->stream_synchronize(stream) != CUDA_SUCCESS) {
    (void)driver_->context_synchronize();
  }
}

bool LateFrees::meet(CUstream stream) {
  if (several_) return false;
  const StreamId id = streams_.id_of(stream);
  if (!met_) {
    met_ = true;
    only_ = id;
    only_handle_ = stream;
  }
  several_ = id != only_;
  return several_;
}

void LateFrees::enter(StreamId id, CUdeviceptr address, std::uint64_t ticket) {
  waiting_[id].push_back({address, ticket});
  addresses_.insert(address);
}

void LateFrees::add_of_only(CUdeviceptr address) {
  enter(only_, address, streams_.next_ticket(only_));
}

void LateFrees::add(CUdeviceptr address, CUstream stream) {
  const StreamId id = streams_.id_of(stream);
  // Too many streams to tell them apart.
  if (id == 0) wait_for(stream);
  enter(id, address, id == 0 ? 0 : streams_.next_ticket(id));
}

std::size_t LateFrees::settle(const std::function<void(CUdeviceptr)>& release) {
  std::size_t settled = 0;
  for (auto& [id, frees] : waiting_) {
    if (!frees.empty() && id != 0 && !streams_.asked(id, frees.front().ticket)) {
      const Current current(*driver_, context_);
      (void)streams_.issue(id);
    }
    while (!frees.empty() && streams_.passed(id, frees.front().ticket)) {
      addresses_.erase(frees.front().address);
      release(frees.front().address);
      frees.pop_front();
      ++settled;
    }
  }
  return settled;
}

void LateFrees::forget(CUstream stream) {
  if (is_only(stream)) met_ = false;
  const Current current(*driver_, context_);
  streams_.forget(stream);
}

}  // namespace vram::pool
