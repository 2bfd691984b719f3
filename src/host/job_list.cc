#include "host/job_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/process_identity.h"
#include "ledger/credits.h"
#include "ledger/fixed.h"
#include "ledger/ledger.h"
#include "ledger/parking.h"
#include "ledger/slots.h"
#include "probe/process.h"
#include "wire/job_file.h"

namespace vram::host {
namespace {

constexpr const char* kShared = "/dev/shm";
constexpr const char* kSimulatedCard = "vram simulated GPU";

// A private copy of a job file, as sparse as the file.
struct Unmap {
  void operator()(wire::Job* job) const { munmap(job, sizeof(wire::Job)); }
};
using JobCopy = std::unique_ptr<wire::Job, Unmap>;

JobCopy empty_copy() {
  void* at = mmap(nullptr, sizeof(wire::Job), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return JobCopy(at != MAP_FAILED ? static_cast<wire::Job*>(at) : nullptr);
}

bool copy_part(int fd, wire::Job* job, std::size_t at, std::size_t size) {
  char* to = reinterpret_cast<char*>(job) + at;
  return pread(fd, to, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
}

wire::FileError copy_file(int fd, wire::Job* job) {
  if (!copy_part(fd, job, 0, offsetof(wire::Job, cell))) return wire::FileError::kNotAJob;
  const wire::JobHeader& header = job->header;
  if (header.magic != wire::kJobMagic) return wire::FileError::kNotAJob;
  if (header.version != wire::kJobVersion || header.file_bytes != sizeof(wire::Job)) {
    return wire::FileError::kVersion;
  }
  const auto copy_row = [&](std::size_t start, std::size_t one, std::size_t d) {
    const std::size_t size = ledger::slots_used(*job) * one;
    return size == 0 || copy_part(fd, job, start + d * one * wire::kMaxProcesses, size);
  };
  for (std::size_t d = 0; d < wire::kMaxDevices; ++d) {
    if (job->device[d].key.load() == 0) continue;
    if (!copy_row(offsetof(wire::Job, cell), sizeof(wire::Cell), d) ||
        !copy_row(offsetof(wire::Job, fixed), sizeof job->fixed[0][0], d)) {
      return wire::FileError::kNotAJob;
    }
  }
  return wire::FileError::kNone;
}

template <std::size_t N>
std::string text_of(const char (&field)[N]) {
  std::string text(field, strnlen(field, N));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

std::string state_name(std::optional<char> state) {
  if (!state) return "?";
  switch (*state) {
    case 'T':
    case 't':
      return "stopped";
    case 'Z':
    case 'X':
      return "zombie";
    default:
      return "running";
  }
}

bool alive(std::uint64_t identity, std::uint64_t pid_namespace) {
  return identity != 0 && base::is_alive(identity, pid_namespace);
}

std::optional<JobParking> read_parking(const wire::Parking& parking) {
  JobParking read;
  read.place = parking.place.load();
  if (read.place == wire::Place::kNone) return std::nullopt;
  read.last_refusal = parking.refusal.load();
  read.times = parking.times.load();
  read.bytes = read.place == wire::Place::kCard ? 0 : parking.bytes.load();
  read.last_move_us = parking.move_us.load();
  return read;
}

std::string program_of(const std::string& command) {
  const std::string path = command.substr(0, command.find(' '));
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.empty() ? "?" : name;
}

JobProcess read_job_process(wire::Job& job, std::uint32_t device, std::uint32_t slot) {
  JobProcess process;
  const wire::Cell& cell = job.cell[device][slot];
  process.used = ledger::share_bytes(job, device, slot);
  process.peak = std::max(cell.peak.load(), process.used);
  process.denials = cell.denials.load();
  process.command = text_of(job.process[slot].command);
  process.parking = read_parking(job.parking[slot]);
  process.state = "?";
  const ledger::Owner owner = ledger::owner_of(job, slot);
  if (owner.pid_namespace != base::own_pid_namespace()) return process;
  process.pid = base::pid_of(owner.identity);
  const probe::Process seen = probe::read_process(*process.pid);
  process.uid = seen.uid;
  if (seen.command) process.command = *seen.command;
  process.state = state_name(seen.state);
  return process;
}

JobDevice read_job_device(wire::Job& job, std::uint32_t at) {
  const wire::DeviceAccount& account = job.device[at];
  JobDevice device;
  device.account = at;
  device.card.index = account.index;
  device.card.uuid = format_uuid(account.uuid);
  device.card.name = text_of(account.name);
  device.card.pci = text_of(account.pci);
  device.card.total = account.capacity;
  device.used = ledger::in_use(job, at, ledger::total_bytes(job, at));
  device.peak = std::max(account.peak.load(), device.used);
  device.limit = account.limit.load();
  device.reserve = __atomic_load_n(&account.reserve, __ATOMIC_ACQUIRE);
  device.stay_limit = account.stay_limit.load();
  device.fixed = ledger::fixed_bytes(job, at);
  device.denials = account.denials.load();
  for (std::uint32_t slot = 0; slot < ledger::slots_used(job); ++slot) {
    if (!ledger::occupied(ledger::identity_in(job, slot))) continue;
    JobProcess process = read_job_process(job, at, slot);
    if (process.peak != 0 || process.denials != 0) device.processes.push_back(std::move(process));
  }
  return device;
}

JobShare read_share(wire::Job& job, std::uint32_t device, std::uint32_t slot) {
  const ledger::Account account(&job, device, slot, &ledger::real_world());
  const std::uint64_t all = ledger::share_bytes(job, device, slot);
  const std::uint64_t pending = account.own_pending();
  const std::uint64_t fixed = ledger::fixed_bytes(job, device, slot);
  return {all > pending ? all - pending : 0, all > fixed ? all - fixed : 0};
}

JobMember read_member(const wire::Job& job, std::uint32_t slot, const ledger::Owner& owner) {
  const wire::Parking& parking = job.parking[slot];
  JobMember member;
  member.slot = slot;
  member.owner = owner;
  member.program = program_of(text_of(job.process[slot].command));
  member.place = parking.place.load();
  member.refusal = parking.refusal.load();
  member.times = parking.times.load();
  member.asked = ledger::open_request(parking).word != 0;
  member.parked = member.place == wire::Place::kCard ? 0 : parking.bytes.load();
  member.moved = parking.moved.load();
  member.move_us = parking.move_us.load();
  member.since_ns = parking.since_ns.load();
  member.idle_ns = parking.idle_ns.load();
  if (owner.pid_namespace == base::own_pid_namespace()) {
    member.pid = base::pid_of(owner.identity);
  }
  return member;
}

JobInfo read_job(wire::Job& job) {
  // On the copy: what the dead held is not shown.
  ledger::reap(job, ledger::real_world());
  const wire::JobHeader& header = job.header;
  JobInfo info;
  info.id = text_of(header.id);
  info.name = text_of(header.name);
  info.command = text_of(header.command);
  info.created_unix_ns = header.created_unix_ns;
  info.elastic = header.pools == wire::Pools::kElastic;
  info.stays = header.stays != 0;
  info.park_after_ms = header.park_after_ms;
  info.admission = header.admission.load();
  if (header.runner_pid_namespace == base::own_pid_namespace() &&
      alive(header.runner_identity, header.runner_pid_namespace)) {
    info.main_pid = base::pid_of(header.runner_identity);
  }
  for (std::uint32_t slot = 0; slot < ledger::slots_used(job); ++slot) {
    const ledger::Owner owner = ledger::owner_of(job, slot);
    if (!ledger::occupied(owner.identity)) continue;
    info.members.push_back(read_member(job, slot, owner));
    if (info.members.back().pid) info.pids.push_back(*info.members.back().pid);
  }
  for (std::uint32_t d = 0; d < wire::kMaxDevices; ++d) {
    if (job.device[d].key.load() == 0) continue;
    info.devices.push_back(read_job_device(job, d));
    for (JobMember& member : info.members) {
      member.shares.push_back(read_share(job, d, member.slot));
    }
    if (info.devices.back().card.name == kSimulatedCard) info.simulated = true;
  }
  return info;
}

bool any_alive(const wire::Job& job) {
  if (alive(job.header.runner_identity, job.header.runner_pid_namespace)) return true;
  for (std::uint32_t slot = 0; slot < ledger::slots_used(job); ++slot) {
    const ledger::Owner owner = ledger::owner_of(job, slot);
    if (ledger::occupied(owner.identity) && alive(owner.identity, owner.pid_namespace)) {
      return true;
    }
  }
  return false;
}

void read_file(const std::string& path, std::uint32_t owner, JobList* list) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    // Gone since the folder was read: the job ended.
    if (errno != ENOENT) list->unreadable.push_back(path + ": " + std::strerror(errno));
    return;
  }
  struct stat st {};
  const bool trusted =
      fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == owner || st.st_uid == 0);
  const JobCopy job = empty_copy();
  wire::FileError error = wire::FileError::kNotTrusted;
  if (trusted) error = job != nullptr ? copy_file(fd, job.get()) : wire::FileError::kSystem;
  close(fd);
  if (error != wire::FileError::kNone) {
    list->unreadable.push_back(path + ": " + wire::describe(error));
  } else if (job != nullptr && any_alive(*job)) {
    JobInfo info = read_job(*job);
    info.path = path;
    info.uid = st.st_uid;
    list->jobs.push_back(std::move(info));
  }
}

void read_folder(const StateFolder& folder, JobList* list) {
  DIR* entries = opendir(folder.path.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (name.size() < 5 || name.substr(name.size() - 4) != ".job") continue;
    read_file(folder.path + "/" + name, folder.owner, list);
  }
  closedir(entries);
}

}  // namespace

std::uint64_t movable_of(const JobMember& member) {
  std::uint64_t bytes = 0;
  for (const JobShare& share : member.shares) bytes += share.movable;
  return bytes;
}

std::string format_uuid(const std::uint8_t* bytes) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", bytes[i]);
    text += hex.data();
  }
  return text;
}

std::vector<StateFolder> state_folders() {
  char own[wire::kPathSize];
  wire::state_folder(own);
  std::vector<StateFolder> folders{{own, geteuid()}};
  if (geteuid() != 0 || std::getenv("VRAM_STATE_DIR") != nullptr) return folders;
  DIR* entries = opendir(kShared);
  if (entries == nullptr) return folders;
  while (const dirent* entry = readdir(entries)) {
    unsigned uid = 0;
    int end = 0;
    const std::string name = entry->d_name;
    if (std::sscanf(name.c_str(), "vram-%u%n", &uid, &end) != 1 || name[end] != '\0') continue;
    if (uid != geteuid()) folders.push_back({std::string(kShared) + "/" + name, uid});
  }
  closedir(entries);
  return folders;
}

JobList list_jobs() { return list_jobs(state_folders()); }

JobList list_jobs(const std::vector<StateFolder>& folders) {
  JobList list;
  for (const StateFolder& folder : folders) read_folder(folder, &list);
  std::sort(list.jobs.begin(), list.jobs.end(), [](const JobInfo& a, const JobInfo& b) {
    return a.created_unix_ns < b.created_unix_ns;
  });
  return list;
}

Result<JobInfo> find_job(const JobList& list, const std::string& text) {
  std::vector<const JobInfo*> found;
  const bool number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  for (const JobInfo& job : list.jobs) {
    const auto is_it = [&](std::int32_t pid) { return std::to_string(pid) == text; };
    const bool by_pid = number && ((job.main_pid && is_it(*job.main_pid)) ||
                                   std::any_of(job.pids.begin(), job.pids.end(), is_it));
    if (job.id == text) return job;
    if (by_pid || (!job.name.empty() && job.name == text)) found.push_back(&job);
  }
  if (found.size() == 1) return *found.front();
  if (found.empty()) {
    return Failure{"there is no job '" + text + "'; 'vram ps' shows those that run"};
  }
  std::string ids;
  for (const JobInfo* job : found) ids += (ids.empty() ? "" : ", ") + job->id;
  return Failure{"'" + text + "' is the name of several jobs (" + ids + "); use an id"};
}

}  // namespace vram::host
