#include "cli/job.h"

#include <dirent.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/process_identity.h"
#include "ledger/devices.h"
#include "ledger/ledger.h"
#include "ledger/slots.h"

namespace vram::cli {
namespace {

// Between the making of a file and the writing of its maker's identity a sweep must not take it.
constexpr std::time_t kYoung_s = 10;

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

Result<Done> add_card(wire::Job& job, const probe::Card& card, std::uint64_t cap) {
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
  ledger::set_limit(account, cap);
  return Done{};
}

void fill_header(wire::JobHeader& header, const JobRequest& request, const std::string& id) {
  copy(header.id, id);
  copy(header.name, request.name);
  copy(header.command, request.command);
  copy(header.driver_path, request.driver_path);
  copy(header.nvml_path, request.nvml_path);
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
  header.visible_count = request.restricted ? static_cast<std::uint32_t>(request.cards.size()) : 0;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  header.created_unix_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                           static_cast<std::uint64_t>(now.tv_nsec);
}

Failure folder_failure(const std::string& folder, wire::FileError error) {
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
  const std::uint32_t used = std::min(header.slots_used.load(), wire::kMaxProcesses);
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
  return stat(path.c_str(), &st) != 0 || std::time(nullptr) - st.st_ctime < kYoung_s;
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
    const std::string path = std::string(folder) + "/" + id + ".job";
    const wire::Mapping mapping = wire::create_job(path.c_str());
    if (mapping.error == wire::FileError::kExists) continue;
    if (mapping.job == nullptr) return folder_failure(folder, mapping.error);
    JobFile file(path, mapping.job);
    set_main_process(*file, getpid());
    fill_header(file->header, request, id);
    for (std::size_t i = 0; i < request.cards.size(); ++i) {
      if (const Result<Done> added = add_card(*file, request.cards[i], request.caps[i]); !added) {
        (void)unlink(path.c_str());
        return added.error();
      }
    }
    return file;
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
    const std::string name = entry->d_name;
    if (name.size() < 5 || name.substr(name.size() - 4) != ".job") continue;
    const std::string path = folder + "/" + name;
    const wire::Mapping mapping = wire::open_job(path.c_str(), wire::Access::kRead);
    if (mapping.job == nullptr) continue;
    if (over(*mapping.job) && !is_young(path)) (void)unlink(path.c_str());
    wire::unmap_job(mapping.job);
  }
  closedir(entries);
}

}  // namespace vram::cli
