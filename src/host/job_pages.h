#pragma once

// What of a running job is not an account of memory, mapped so that it can be changed: the header,
// limits, who sits where, and what each process is asked.

#include "host/failure.h"
#include "host/job_list.h"
#include "wire/job_layout.h"

namespace vram::host {

class JobPages {
 public:
  // Cells are not mapped.
  static constexpr std::size_t kSize = offsetof(wire::Job, cell);

  explicit JobPages(void* at) : job_(static_cast<wire::Job*>(at)) {}
  JobPages(JobPages&& other) noexcept : job_(other.job_) { other.job_ = nullptr; }
  JobPages& operator=(JobPages&&) = delete;
  ~JobPages();

  wire::Job& operator*() const { return *job_; }
  wire::Job* operator->() const { return job_; }

 private:
  wire::Job* job_;
};

Result<JobPages> open_for_writing(const JobInfo& job);

}  // namespace vram::host
