#include "members.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "base/process_identity.h"
#include "ledger/devices.h"

namespace vram::ledger_tests {
namespace {

constexpr std::uint8_t kCard[16] = {1, 2, 3};
constexpr std::uint64_t kCapacity = std::uint64_t{141} << 30;

}  // namespace

SharedJob::SharedJob(std::uint64_t limit) {
  const char* where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  folder_ = std::string(where) + "/vram-ledger-test-XXXXXX";
  if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = folder_ + "/a.job";
  job_ = wire::create_job(path_.c_str()).job;
  if (job_ == nullptr) throw std::runtime_error("create_job");
  device_ = ledger::find_or_add_device(*job_, kCard, kCapacity);
  ledger::set_limit(job_->device[device_], limit);
}

SharedJob::~SharedJob() {
  wire::unmap_job(job_);
  std::filesystem::remove_all(folder_);
}

ledger::Account join(wire::Job& job) {
  const std::uint32_t slot = ledger::claim_slot(
      job, {base::identity_of(getpid()), base::own_pid_namespace()}, ledger::real_world());
  const std::uint32_t device = ledger::find_or_add_device(job, kCard, kCapacity);
  if (slot == ledger::kNoSlot || device == ledger::kNoDevice) _exit(99);
  return {&job, device, slot, &ledger::real_world()};
}

ledger::Account join(const std::string& path) {
  wire::Job* job = wire::open_job(path.c_str(), wire::Access::kWrite).job;
  if (job == nullptr) _exit(98);
  return join(*job);
}

pid_t start(const std::function<int()>& body) {
  const pid_t child = fork();
  // A test that went on with -1 would later kill every process there is.
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    // A test that is stopped leaves nobody behind.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(body());
  }
  return child;
}

bool ended_well(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void* shared_memory(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return at;
}

}  // namespace vram::ledger_tests
