#include "cli/job.h"

#include <dirent.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/process_identity.h"
#include "ledger/devices.h"
#include "ledger/ledger.h"
#include "ledger/slots.h"

namespace vram::cli {
namespace {

constexpr const char* kJobEnd = ".job";
// A file that is being filled; older ones were left by a command that was killed meanwhile.
constexpr const char* kUnfinishedEnd = ".new";
constexpr std::time_t kYoung_s = 60;

constexpr std::size_t kIdLength = 4;
constexpr int kIdAttempts = 64;

// Without letters that are read as digits; a letter first, so that no id looks like a pid.
std::string random_id() {
  constexpr char letters[] = "abcdefghjkmnpqrstuvwxyz";
  constexpr char others[] = "abcdefghjkmnpqrstuvwxyz23456789";
  unsigned char bytes[kIdLength] = {};
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    std::memcpy(bytes, &now.tv_nsec, sizeof bytes);
  }
  std::string id;
  for (const unsigned char byte : bytes) {
    id += id.empty() ? letters[byte % (sizeof letters - 1)] : others[byte % (sizeof others - 1)];
  }
  return id;
}

template <std::size_t N>
void copy(char (&to)[N], const std::string& from) {
  const std::size_t length = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

Result<Done> add_card(wire::Job& job, const probe::Card& card, std::uint64_t cap,
                      std::uint64_t reserve, std::uint64_t context) {
  const std::uint32_t at = ledger::find_or_add_device(job, card.uuid_bytes.data(), card.capacity());
  if (at == ledger::kNoDevice) {
    return Failure{"this host has more than " + std::to_string(wire::kMaxDevices) +
                   " cards; choose some with --gpu"};
  }
  wire::DeviceAccount& account = job.device[at];
  account.index = card.index;
  account.capacity = card.capacity();
  copy(account.name, card.name);
  copy(account.pci, card.pci);
  account.reserve = reserve;
  ledger::set_limit(account, cap);
  account.context_bytes.store(context);
  return Done{};
}

void fill_header(wire::JobHeader& header, const JobRequest& request, const std::string& id) {
  copy(header.id, id);
  copy(header.name, request.name);
  copy(header.command, request.command);
  copy(header.driver_path, request.driver_path);
  copy(header.nvml_path, request.nvml_path);
  copy(header.trace_path, request.trace_path);
  copy(header.daemon_path, request.daemon_path);
  header.default_reserve = request.default_reserve;
  header.park_after_ms = request.park_after_ms;
  header.stays = request.stays ? 1 : 0;
  header.pools = request.pools;
  header.on_failure =
      request.on_failure == OnFailure::kAllow ? wire::OnFailure::kAllow : wire::OnFailure::kRefuse;
  if (request.limit.every) {
    const base::Size& size = *request.limit.every;
    if (size.kind == base::Size::Kind::kBytes) {
      header.default_limit = bytes_on(size, 0);
    } else {
      header.default_limit_permille = static_cast<std::uint32_t>(size.amount);
    }
  }
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  header.created_unix_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                           static_cast<std::uint64_t>(now.tv_nsec);
}

Failure folder_failure(const std::string& folder, wire::FileError error) {
  if (error == wire::FileError::kNotFound) {
    return {"state folder " + folder +
            ": the folder it would lie in does not exist; make that, or set " +
            "VRAM_STATE_DIR to another"};
  }
  return {
      "state folder " + folder + ": " + wire::describe(error) +
      (error == wire::FileError::kSystem ? std::string(" (") + std::strerror(errno) + ")" : "") +
      "; remove it, or set VRAM_STATE_DIR to a folder of your own"};
}

bool over(const wire::Job& job) {
  const wire::JobHeader& header = job.header;
  if (header.runner_identity != 0 &&
      base::is_alive(header.runner_identity, header.runner_pid_namespace)) {
    return false;
  }
  const std::uint32_t used = ledger::slots_used(job);
  for (std::uint32_t slot = 0; slot < used; ++slot) {
    const ledger::Owner owner = ledger::owner_of(job, slot);
    if (ledger::occupied(owner.identity) && base::is_alive(owner.identity, owner.pid_namespace)) {
      return false;
    }
  }
  return true;
}

bool is_young(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) != 0 || std::time(nullptr) - st.st_mtime < kYoung_s;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

Result<Done> fill(const JobRequest& request, const std::string& id, wire::Job* job) {
  set_main_process(*job, getpid());
  fill_header(job->header, request, id);
  for (std::size_t i = 0; i < request.cards.size(); ++i) {
    const Result<Done> added =
        add_card(*job, request.cards[i], request.caps[i], request.reserves[i], request.contexts[i]);
    if (!added) return added;
  }
  return Done{};
}

}  // namespace

Result<JobFile> make_job(const JobRequest& request) {
  char folder[wire::kPathSize];
  wire::state_folder(folder);
  if (const auto error = wire::ensure_state_folder(folder); error != wire::FileError::kNone) {
    return folder_failure(folder, error);
  }
  sweep_finished_jobs(folder);
  for (int attempt = 0; attempt < kIdAttempts; ++attempt) {
    const std::string id = random_id();
    const std::string path = std::string(folder) + "/" + id + kJobEnd;
    const std::string aside = path + kUnfinishedEnd;
    const wire::Mapping mapping = wire::create_job(aside.c_str());
    if (mapping.error == wire::FileError::kExists) continue;
    if (mapping.job == nullptr) return folder_failure(folder, mapping.error);
    JobFile file(path, mapping.job);
    const Result<Done> filled = fill(request, id, &*file);
    // Only a whole file gets its name, and only one that nobody has.
    const bool named = filled && link(aside.c_str(), path.c_str()) == 0;
    const bool taken = errno == EEXIST;
    (void)unlink(aside.c_str());
    if (!filled) return filled.error();
    if (named) return file;
    if (!taken) return folder_failure(folder, wire::FileError::kSystem);
  }
  return folder_failure(folder, wire::FileError::kExists);
}

void set_main_process(wire::Job& job, pid_t pid) {
  job.header.runner_pid_namespace = base::own_pid_namespace();
  job.header.runner_identity = base::identity_of(pid);
}

void finish_job(const JobFile& file) {
  ledger::reap(*file, ledger::real_world());
  if (over(*file)) (void)unlink(file.path().c_str());
}

void sweep_finished_jobs(const std::string& folder) {
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries)) {
    const std::string path = folder + "/" + entry->d_name;
    if (ends_with(path, kUnfinishedEnd) && !is_young(path)) (void)unlink(path.c_str());
    if (!ends_with(path, kJobEnd)) continue;
    const wire::Mapping mapping = wire::open_job(path.c_str(), wire::Access::kRead);
    if (mapping.job == nullptr) continue;
    if (over(*mapping.job)) (void)unlink(path.c_str());
    wire::unmap_job(mapping.job);
  }
  closedir(entries);
}

}  // namespace vram::cli
