// Programs in awkward situations, each named after its own. What they print is the same with and
// without a limit; what they check of the limit holds under `vram run`.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "base/process_identity.h"
#include "harness.h"
#include "wire/job_file.h"

namespace vram::interpose_test {
namespace {

// Ends well under a limit, and without one the same is printed.
void expect_same_as_bare(const std::string& program, const Words& arguments = {}) {
  const Bench bench;
  const Outcome governed = bench.governed({}, program, arguments);
  const Outcome bare = bench.bare(program, arguments);
  EXPECT_EQ(governed.status, 0) << shown(governed);
  EXPECT_EQ(governed.out, bare.out);
}

// Checks the limit itself, so that it makes sense under one only.
void expect_holds(const std::string& program, const Words& arguments = {},
                  const Words& options = {}, const std::string& cards = "1x24GiB") {
  const Bench bench(cards);
  const Outcome governed = bench.governed(options, program, arguments);
  EXPECT_EQ(governed.status, 0) << shown(governed);
}

TEST(Hazard, ForkWithoutExec) { expect_same_as_bare("fork_without_exec"); }
TEST(Hazard, ForkInThread) { expect_same_as_bare("fork_in_thread"); }
TEST(Hazard, VforkExec) { expect_holds("vfork_exec"); }
TEST(Hazard, ExecKeepsJob) { expect_holds("exec_keeps_job"); }
TEST(Hazard, ThreadsWithoutContext) {
  const Bench bench;
  const Outcome governed = bench.governed({}, "threads_without_context");
  const Outcome bare = bench.bare("threads_without_context");
  EXPECT_EQ(governed.status, 0) << shown(governed);
  EXPECT_EQ(governed.out.substr(0, governed.out.find('\n')),
            bare.out.substr(0, bare.out.find('\n')));
  EXPECT_NE(governed.out.find("\n1\n"), std::string::npos) << "the limit does not hold";
}
TEST(Hazard, ContextOnAAllocOnB) {
  expect_holds("context_on_a_alloc_on_b", {}, {"-m", "0=4GiB,1=2GiB"}, "2x24GiB");
}
TEST(Hazard, AllocAtExit) { expect_same_as_bare("alloc_at_exit"); }
TEST(Hazard, ExitWhileThreadsAllocate) { expect_same_as_bare("exit_while_threads_allocate"); }
TEST(Hazard, DoubleFree) { expect_same_as_bare("wrong_calls", {"double_free"}); }
TEST(Hazard, FreeOfUnknown) { expect_same_as_bare("wrong_calls", {"free_of_unknown"}); }
TEST(Hazard, NullOutPointers) { expect_same_as_bare("wrong_calls", {"null_out_pointers"}); }
TEST(Hazard, ZeroSizes) { expect_same_as_bare("wrong_calls", {"zero_sizes"}); }
TEST(Hazard, HugeSizes) { expect_same_as_bare("wrong_calls", {"huge_sizes"}); }
TEST(Hazard, ErrnoKept) { expect_holds("errno_kept"); }
TEST(Hazard, ErrnoKeptWhileTheDriverIsLookedFor) {
  const Bench bench;
  const Outcome outcome =
      bench.governed({}, "/usr/bin/env",
                     {"-u", "VRAM_JOB", "LD_LIBRARY_PATH=/nowhere:" + built("lib/sim"),
                      program_path("errno_kept")});
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}
TEST(Hazard, SignalDuringAlloc) { expect_holds("signal_during_alloc"); }
TEST(Hazard, NoDescriptorsAtFirstCall) { expect_same_as_bare("no_descriptors", {"first"}); }
TEST(Hazard, NoDescriptorsLater) { expect_holds("no_descriptors", {"later"}); }
TEST(Hazard, ClosefromThenUse) { expect_same_as_bare("closefrom_then_use"); }
TEST(Hazard, ChdirAndChroot) {
  const Bench bench;
  const Outcome outcome = bench.governed({}, "chdir_and_chroot", {bench.folder()});
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}
TEST(Hazard, Kill9ShareReturns) { expect_holds("kill9_share_returns"); }
TEST(Hazard, Kill9MidReserve) { expect_holds("kill9_mid_reserve", {"40"}); }

TEST(Hazard, LinkedButUnused) { expect_same_as_bare("linked_but_unused"); }

// A host whose management library says nothing: contexts are charged by estimate, all else as ever.
TEST(Hazard, NoManagementLibrary) {
  const Bench bench;
  const std::string path = bench.folder() + "/job";
  const wire::Mapping made = wire::create_job(path.c_str());
  ASSERT_NE(made.job, nullptr);
  made.job->header.default_limit = std::uint64_t{2} << 30;
  std::snprintf(made.job->header.driver_path, sizeof made.job->header.driver_path, "%s",
                built("lib/sim/libcuda.so.1").c_str());
  std::snprintf(made.job->header.nvml_path, sizeof made.job->header.nvml_path, "/nowhere");
  // What the estimate of a context is too low by.
  const std::string limit = std::to_string((std::size_t{2} << 30) + (std::size_t{8} << 20));
  for (const char* way : {"alloc", "alloc_freed_in_order", "create_map_release", "async", "pool",
                          "captured", "array"}) {
    const Outcome outcome = bench.command({"/usr/bin/env", "VRAM_SIM=1x24GiB", "VRAM_JOB=" + path,
                                           "LD_LIBRARY_PATH=" + built("lib/sim"),
                                           "LD_PRELOAD=" + built("lib/vram/libcuda.so.1"),
                                           program_path("ways"), way, limit});
    EXPECT_EQ(outcome.status, 0) << way << "\n" << shown(outcome);
  }
  wire::unmap_job(made.job);
}

// A job that is named and cannot be joined: the declared policy decides.
constexpr char kTry[] =
    "import ctypes\n"
    "cuda = ctypes.CDLL('libcuda.so.1')\n"
    "block = ctypes.c_uint64()\n"
    "print(cuda.cuInit(0), cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(4096)))\n";

Outcome with_job(const Bench& bench, const std::string& job, const Words& more) {
  Words words = {"VRAM_JOB=" + job, "LD_LIBRARY_PATH=" + built("lib/sim")};
  words.insert(words.end(), more.begin(), more.end());
  words.insert(words.end(), {"/usr/bin/python3", "-c", kTry});
  return bench.governed({}, "/usr/bin/env", words);
}

class BadJobFile : public ::testing::Test {
 protected:
  BadJobFile() {
    std::ofstream(bench_.folder() + "/garbage") << "not a job";
    std::ofstream(bench_.folder() + "/empty");
    for (const char* name : {"missing", "garbage", "empty"}) {
      paths_.push_back(bench_.folder() + "/" + name);
    }
    paths_.push_back(bench_.folder());
  }
  Bench bench_;
  Words paths_;
};

TEST_F(BadJobFile, RefusesByDefault) {
  for (const std::string& path : paths_) {
    const Outcome outcome = with_job(bench_, path, {});
    EXPECT_EQ(outcome.out, "304 304\n") << path << "\n" << shown(outcome);
  }
}

TEST_F(BadJobFile, IsIgnoredWhenAllowed) {
  for (const std::string& path : paths_) {
    const Outcome outcome = with_job(bench_, path, {"VRAM_ON_FAILURE=allow"});
    EXPECT_EQ(outcome.out, "0 201\n") << path << "\n" << shown(outcome);
  }
}

// Every slot is taken by a process that lives: this one.
TEST(FullJob, RefusesUnlessTheJobAllows) {
  for (const wire::OnFailure policy : {wire::OnFailure::kRefuse, wire::OnFailure::kAllow}) {
    const Bench bench;
    const std::string path = bench.folder() + "/job";
    const wire::Mapping made = wire::create_job(path.c_str());
    ASSERT_NE(made.job, nullptr);
    made.job->header.on_failure = policy;
    for (wire::Word128& owner : made.job->owner) {
      owner = {base::identity_of(getpid()), base::own_pid_namespace()};
    }
    const Outcome outcome = with_job(bench, path, {});
    const bool allowed = policy == wire::OnFailure::kAllow;
    EXPECT_EQ(outcome.out, allowed ? "0 201\n" : "304 304\n") << shown(outcome);
    EXPECT_NE(outcome.err.find("the job has no room for this process"), std::string::npos);
    wire::unmap_job(made.job);
  }
}

}  // namespace
}  // namespace vram::interpose_test
