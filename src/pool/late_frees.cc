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

void LateFrees::meet(CUstream stream) {
  if (several_) return;
  const StreamId id = streams_.id_of(stream);
  if (!met_) {
    met_ = true;
    first_ = id;
    first_handle_ = stream;
  }
  if (id == first_) return;
  wait_for(first_handle_);
  several_ = true;
}

void LateFrees::add(CUdeviceptr address, std::uint64_t bytes, CUstream stream) {
  const StreamId id = streams_.id_of(stream);
  // Too many streams to tell them apart.
  if (id == 0) wait_for(stream);
  waiting_[id].push_back({address, bytes, id == 0 ? 0 : streams_.next_ticket(id)});
  addresses_.insert(address);
  bytes_ += bytes;
}

std::size_t LateFrees::settle(const std::function<void(CUdeviceptr)>& release) {
  std::size_t settled = 0;
  for (auto& [id, frees] : waiting_) {
    if (!frees.empty() && id != 0 && frees.front().ticket == streams_.next_ticket(id)) {
      const Current current(*driver_, context_);
      (void)streams_.issue(id);
    }
    while (!frees.empty() && streams_.passed(id, frees.front().ticket)) {
      addresses_.erase(frees.front().address);
      bytes_ -= frees.front().bytes;
      release(frees.front().address);
      frees.pop_front();
      ++settled;
    }
  }
  return settled;
}

void LateFrees::forget(CUstream stream) {
  if (met_ && !several_ && stream == first_handle_) {
    wait_for(stream);
    met_ = false;
  }
  const Current current(*driver_, context_);
  streams_.forget(stream);
}

}  // namespace vram::pool
