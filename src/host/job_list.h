#pragma once

// The jobs of this host, as their files tell. Reading asks nothing of the jobs and changes nothing.
//
// A file is copied with read(2), never mapped: its owner may cut it short at any time, which would
// kill whoever has it mapped, an administrator's `vram ps` for example.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/failure.h"
#include "ledger/slots.h"
#include "probe/nvml.h"

namespace vram::host {

// Where the memory of an elastic process is.
struct JobParking {
  wire::Place place = wire::Place::kNone;
  wire::Refusal last_refusal = wire::Refusal::kNone;
  std::uint32_t times = 0;                    // parked, ever
  std::uint64_t bytes = 0, last_move_us = 0;  // bytes in host memory
};

struct JobProcess {
  std::optional<std::int32_t> pid;  // absent: it is in another pid namespace
  std::optional<std::uint32_t> uid;
  std::string command;
  std::string state;                              // "running", "stopped", "zombie", "?"
  std::uint64_t used = 0, peak = 0, denials = 0;  // bytes, bytes, requests; on one card
  std::optional<JobParking> parking;              // absent: it is not elastic
};

struct JobDevice {
  std::uint32_t account = 0;  // its place in the job's file
  probe::Card card;  // of it: index (-1: not known), UUID, name, pci; the capacity as its total
  std::uint64_t used = 0, peak = 0;  // bytes, of all processes
  std::uint64_t limit = 0;           // bytes; wire::kUnlimited: none
  std::uint64_t reserve = 0;         // bytes always there for the job
  std::uint64_t stay_limit = 0;      // bytes; 0: not set; see ledger/fixed.h
  std::uint64_t fixed = 0;           // of what is used, bytes that nobody can take back
  std::uint64_t denials = 0;
  std::vector<JobProcess> processes;
};

// What one process holds of one card, bytes.
struct JobShare {
  std::uint64_t settled = 0;  // without what its calls under way may still take or give back
  std::uint64_t movable = 0;  // what is not fixed
};

// A process that is attached to the job and lives.
struct JobMember {
  std::uint32_t slot = ledger::kNoSlot;
  ledger::Owner owner{};
  std::optional<std::int32_t> pid;  // absent: it is in another pid namespace
  std::string program;              // without its folder and arguments
  wire::Place place = wire::Place::kNone;
  wire::Refusal refusal = wire::Refusal::kNone;  // of the last request it dealt with
  std::uint32_t times = 0;                       // parked, ever
  bool asked = false;                            // a request that it has not dealt with is open
  std::uint64_t parked = 0, moved = 0;           // bytes in host memory or moving; there already
  std::uint64_t move_us = 0, since_ns = 0, idle_ns = 0;  // as in wire::Parking
  std::vector<JobShare> shares;                          // one a device of the job
};

// What could be moved, on all cards.
std::uint64_t movable_of(const JobMember& member);

struct JobInfo {
  std::string path, id, name, command;
  std::uint32_t uid = 0;
  std::uint64_t created_unix_ns = 0;
  std::optional<std::int32_t> main_pid;  // absent: ended, or in another pid namespace
  std::vector<std::int32_t> pids;        // of every attached process that lives
  std::vector<JobDevice> devices;
  std::vector<JobMember> members;
  bool simulated = false;
  bool elastic = false;
  bool stays = false;
  std::uint64_t park_after_ms = 0;  // 0: never
  wire::Admission admission = wire::Admission::kNotAsked;
};

struct JobList {
  std::vector<JobInfo> jobs;            // oldest first; living ones
  std::vector<std::string> unreadable;  // "PATH: why"
};

// A folder with job files, and whose they are.
struct StateFolder {
  std::string path;
  std::uint32_t owner = 0;
};
// The caller's; of root everybody's, unless VRAM_STATE_DIR names one folder.
std::vector<StateFolder> state_folders();
JobList list_jobs(const std::vector<StateFolder>& folders);

// The caller's jobs; root sees everybody's, unless VRAM_STATE_DIR names one folder.
JobList list_jobs();

// The job of this id or name, or in which this pid is.
Result<JobInfo> find_job(const JobList& list, const std::string& text);

std::string format_uuid(const std::uint8_t* bytes);  // 16 of them

}  // namespace vram::host
