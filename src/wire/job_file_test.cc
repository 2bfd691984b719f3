#include "wire/job_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace vram::wire {
namespace {

class JobFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/vram-wire-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/a.job";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void create() {
    const Mapping made = create_job(path_.c_str());
    ASSERT_EQ(made.error, FileError::kNone);
    unmap_job(made.job);
  }
  FileError open_error() {
    const Mapping mapping = open_job(path_.c_str(), Access::kWrite);
    if (mapping.job != nullptr) unmap_job(mapping.job);
    return mapping.error;
  }
  void overwrite(std::size_t at, std::uint64_t value) {
    const int fd = open(path_.c_str(), O_RDWR);
    ASSERT_EQ(pwrite(fd, &value, sizeof value, static_cast<off_t>(at)), 8);
    close(fd);
  }

  std::string folder_, path_;
};

TEST_F(JobFile, WhatOneProcessMakesAnotherOpens) {
  const Mapping made = create_job(path_.c_str());
  ASSERT_NE(made.job, nullptr);
  EXPECT_EQ(made.job->header.default_limit, kUnlimited);
  EXPECT_EQ(made.job->header.owner_uid, geteuid());
  EXPECT_EQ(made.job->header.slots_used, 0u);
  const Mapping seen = open_job(path_.c_str(), Access::kRead);
  ASSERT_NE(seen.job, nullptr);
  made.job->device[63].peak.store(77);
  EXPECT_EQ(seen.job->device[63].peak.load(), 77u);
  unmap_job(seen.job);
  unmap_job(made.job);
}

TEST_F(JobFile, IsItsOwnersAlone) {
  const mode_t before = umask(0);
  create();
  umask(before);
  struct stat st {};
  ASSERT_EQ(stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777u, 0600u);
}

TEST_F(JobFile, IsSparse) {
  create();
  struct stat st {};
  ASSERT_EQ(stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_size, static_cast<off_t>(sizeof(Job)));
  EXPECT_LT(st.st_blocks * 512, 1 << 20);
}

TEST_F(JobFile, IsNotMadeTwice) {
  create();
  EXPECT_EQ(create_job(path_.c_str()).error, FileError::kExists);
  EXPECT_EQ(open_error(), FileError::kNone);
}

TEST_F(JobFile, ThatIsMissingIsNotFound) { EXPECT_EQ(open_error(), FileError::kNotFound); }

TEST_F(JobFile, WithoutTheMarkIsNone) {
  create();
  overwrite(offsetof(JobHeader, magic), 0x626f6a2d6d617275);
  EXPECT_EQ(open_error(), FileError::kNotAJob);
}

TEST_F(JobFile, OfAnotherVersionIsRefused) {
  create();
  overwrite(offsetof(JobHeader, version), (kJobVersion + 1) | (sizeof(JobHeader) << 32));
  EXPECT_EQ(open_error(), FileError::kVersion);
}

TEST_F(JobFile, OfAnotherSizeIsRefused) {
  create();
  ASSERT_EQ(truncate(path_.c_str(), sizeof(Job) + 4096), 0);
  EXPECT_EQ(open_error(), FileError::kVersion);
  ASSERT_EQ(truncate(path_.c_str(), 8192), 0);
  EXPECT_EQ(open_error(), FileError::kVersion) << "mapped, it would be a SIGBUS";
  ASSERT_EQ(truncate(path_.c_str(), 10), 0);
  EXPECT_EQ(open_error(), FileError::kNotAJob);
  ASSERT_EQ(truncate(path_.c_str(), 0), 0);
  EXPECT_EQ(open_error(), FileError::kNotAJob);
}

TEST_F(JobFile, ThatSaysAnotherSizeThanItHasIsRefused) {
  create();
  overwrite(offsetof(JobHeader, file_bytes), sizeof(Job) + 4096);
  EXPECT_EQ(open_error(), FileError::kVersion);
}

TEST_F(JobFile, ThatIsALinkIsNotTrusted) {
  create();
  const std::string link = folder_ + "/link.job";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  path_ = link;
  EXPECT_EQ(open_error(), FileError::kNotTrusted);
}

TEST_F(JobFile, ThatOthersMayWriteIsNotTrusted) {
  create();
  for (const mode_t mode : {0620u, 0602u, 0666u}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_EQ(open_error(), FileError::kNotTrusted) << std::oct << mode;
  }
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(open_error(), FileError::kNone);
}

TEST_F(JobFile, OfAnotherUserIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  create();
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(open_error(), FileError::kNotTrusted);
}

TEST_F(JobFile, InAPipesPlaceHoldsNobodyUp) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(open_job(path_.c_str(), Access::kRead).error, FileError::kNotTrusted);
  EXPECT_EQ(open_error(), FileError::kNotTrusted);
}

TEST_F(JobFile, ThatIsAFolderIsRefused) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_NE(open_error(), FileError::kNone);
  EXPECT_EQ(open_job(path_.c_str(), Access::kRead).error, FileError::kNotTrusted);
}

TEST_F(JobFile, EveryErrorHasWords) {
  for (int i = 0; i <= static_cast<int>(FileError::kSystem); ++i) {
    EXPECT_STRNE(describe(static_cast<FileError>(i)), "");
  }
}

// In a child: a mount of its own. Exit codes: 0 held, 77 not allowed to mount, else the line.
#define IN_CHILD_EXPECT(condition) \
  if (!(condition)) _exit(__LINE__ % 200 + 1)

int on_a_small_file_system(const std::string& folder, const char* size, void (*body)(const char*)) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string options = std::string("size=") + size;
    if (mount("tmpfs", folder.c_str(), "tmpfs", 0, options.c_str()) != 0) _exit(77);
    body((folder + "/a.job").c_str());
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  umount2(folder.c_str(), MNT_DETACH);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(JobFile, AFullFileSystemIsAnErrorOfCreatingAndLeavesNothing) {
  const int code = on_a_small_file_system(folder_, "16k", [](const char* path) {
    IN_CHILD_EXPECT(create_job(path).error == FileError::kNoSpace);
    IN_CHILD_EXPECT(access(path, F_OK) != 0);
  });
  if (code == 77) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(code, 0);
}

TEST_F(JobFile, AFullFileSystemIsAnErrorOfMeetingACardAndNoSignalLater) {
  const int code = on_a_small_file_system(folder_, "256k", [](const char* path) {
    const Mapping made = create_job(path);
    IN_CHILD_EXPECT(made.error == FileError::kNone);
    IN_CHILD_EXPECT(back_slot(made.job, 0) == FileError::kNone);
    made.job->process[0].command[0] = 'x';
    IN_CHILD_EXPECT(back_device(made.job, 0) == FileError::kNoSpace);
  });
  if (code == 77) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(code, 0);
}

TEST_F(JobFile, WhatIsBackedCanBeWrittenOnAFullFileSystem) {
  const int code = on_a_small_file_system(folder_, "800k", [](const char* path) {
    const Mapping made = create_job(path);
    IN_CHILD_EXPECT(made.error == FileError::kNone);
    IN_CHILD_EXPECT(back_device(made.job, 0) == FileError::kNone);
    IN_CHILD_EXPECT(back_device(made.job, 1) == FileError::kNoSpace);
    for (auto& cell : made.job->cell[0]) cell.peak.store(1);
    for (auto& owner : made.job->owner) owner.lo = 1;
    for (auto& device : made.job->device) device.peak.store(1);
  });
  if (code == 77) GTEST_SKIP() << "may not mount here";
  EXPECT_EQ(code, 0);
}

class StateFolder : public JobFile {
 protected:
  static std::string chosen(const char* value) {
    setenv("VRAM_STATE_DIR", value, 1);
    char out[kPathSize];
    state_folder(out);
    unsetenv("VRAM_STATE_DIR");
    return out;
  }
};

TEST_F(StateFolder, IsInSharedMemoryUnlessAnotherIsNamed) {
  const std::string standard = "/dev/shm/vram-" + std::to_string(geteuid());
  unsetenv("VRAM_STATE_DIR");
  char out[kPathSize];
  state_folder(out);
  EXPECT_EQ(out, standard);
  EXPECT_EQ(chosen("/some/where"), "/some/where");
  EXPECT_EQ(chosen("relative"), standard);
  EXPECT_EQ(chosen(""), standard);
  EXPECT_EQ(chosen("/some/where///"), "/some/where");
  EXPECT_EQ(chosen("/"), "/");
}

TEST_F(StateFolder, IsMadeForItsOwnerAlone) {
  const std::string path = folder_ + "/state";
  EXPECT_EQ(ensure_state_folder(path.c_str()), FileError::kNone);
  EXPECT_EQ(ensure_state_folder(path.c_str()), FileError::kNone);
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777u, 0700u);
}

TEST_F(StateFolder, ThatOthersMayWriteOrThatIsALinkIsNotTrusted) {
  const std::string path = folder_ + "/state", link = folder_ + "/link";
  ASSERT_EQ(ensure_state_folder(path.c_str()), FileError::kNone);
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  EXPECT_EQ(ensure_state_folder(link.c_str()), FileError::kNotTrusted);
  EXPECT_EQ(ensure_state_folder(chosen((link + "/").c_str()).c_str()), FileError::kNotTrusted);
  ASSERT_EQ(chmod(path.c_str(), 0770), 0);
  EXPECT_EQ(ensure_state_folder(path.c_str()), FileError::kNotTrusted);
}

TEST_F(StateFolder, WithoutAParentIsNotFound) {
  EXPECT_EQ(ensure_state_folder((folder_ + "/no/such").c_str()), FileError::kNotFound);
}

}  // namespace
}  // namespace vram::wire
