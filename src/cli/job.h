#pragma once

// Makes the shared-memory file of a job, and removes it when nobody needs it any more.

#include <cstdint>
#include <string>
#include <vector>

#include "cli/failure.h"
#include "cli/settings.h"
#include "probe/nvml.h"
#include "wire/job_file.h"

namespace vram::cli {

struct JobRequest {
  std::string name;     // may be empty
  std::string command;  // as typed
  OnFailure on_failure = OnFailure::kRefuse;
  wire::Pools pools = wire::Pools::kDriver;
  Limit limit;  // for cards that appear later
  std::vector<probe::Card> cards;
  std::vector<std::uint64_t> caps;      // bytes, one a card
  std::vector<std::uint64_t> reserves;  // bytes, one a card
  std::uint64_t default_reserve = 0;    // bytes, on cards that appear later
  std::uint64_t park_after_ms = 0;      // 0: never
  bool stays = false;                   // parked by nobody
  std::vector<std::uint64_t>
      contexts;  // what a CUDA context takes, bytes, one a card; 0: not known
  std::string driver_path, nvml_path;
  std::string trace_path;   // log of a recording; empty: none
  std::string daemon_path;  // socket of vramd; empty: none
};

// A job file, mapped for writing. Owns the mapping, not the file: that outlives the command when
// processes of the job do.
class JobFile {
 public:
  JobFile(std::string path, wire::Job* job) : path_(std::move(path)), job_(job) {}
  JobFile(JobFile&& other) noexcept : path_(std::move(other.path_)), job_(other.job_) {
    other.job_ = nullptr;
  }
  JobFile& operator=(JobFile&&) = delete;
  ~JobFile() {
    if (job_ != nullptr) wire::unmap_job(job_);
  }

  const std::string& path() const { return path_; }
  wire::Job& operator*() const { return *job_; }
  wire::Job* operator->() const { return job_; }

 private:
  std::string path_;
  wire::Job* job_;
};

Result<JobFile> make_job(const JobRequest& request);

// From now on the job counts as living as long as `pid` does, whoever started it.
void set_main_process(wire::Job& job, pid_t pid);

// Gives back what dead processes held; then removes the file unless somebody of the job lives.
void finish_job(const JobFile& file);

// Removes files of the caller's whose job is over: their command was killed before it could.
void sweep_finished_jobs(const std::string& folder);

}  // namespace vram::cli
