#pragma once

// Processes that are members of one job, and a job file of their own in a fresh folder.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "ledger/ledger.h"
#include "ledger/slots.h"
#include "wire/job_file.h"

namespace vram::ledger_tests {

// A job file in a folder of its own, made by the parent and mapped again by whoever joins. One
// card.
class SharedJob {
 public:
  explicit SharedJob(std::uint64_t limit);
  ~SharedJob();
  SharedJob(const SharedJob&) = delete;
  SharedJob& operator=(const SharedJob&) = delete;

  wire::Job& operator*() const { return *job_; }
  wire::Job* operator->() const { return job_; }
  const std::string& path() const { return path_; }
  std::uint32_t device() const { return device_; }

 private:
  std::string folder_, path_;
  wire::Job* job_ = nullptr;
  std::uint32_t device_ = 0;
};

// Opens the file, takes a slot and an account, as a governed process does at its start.
ledger::Account join(const std::string& path);

// The calling process's, with its slot in `job`.
ledger::Account join(wire::Job& job);

// Forks; the child runs `body` and exits with what it returns.
pid_t start(const std::function<int()>& body);

// True when the child exited with 0.
[[nodiscard]] bool ended_well(pid_t child);

// Zeroed memory which children share with their parent.
void* shared_memory(std::size_t bytes);

}  // namespace vram::ledger_tests
