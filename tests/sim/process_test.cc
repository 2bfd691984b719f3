// Several processes on the same simulated cards.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "foreign.h"
#include "sim_test.h"

namespace vram::sim_test {
namespace {

// The parent has no driver, only the management library, so that it can fork.
class Processes : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, channel_), 0);
  }
  void TearDown() override {
    EXPECT_EQ(nvmlShutdown(), NVML_SUCCESS);
    ::close(channel_[0]);
    ::close(channel_[1]);
  }
  // One byte each way, to put the steps of parent and child in order.
  void say(int side) const { EXPECT_EQ(::write(channel_[side], "x", 1), 1); }
  void hear(int side) const {
    pollfd readable = {channel_[side], POLLIN, 0};
    char byte = 0;
    ASSERT_EQ(::poll(&readable, 1, 20000), 1) << "the other process did not answer";
    ASSERT_EQ(::read(channel_[side], &byte, 1), 1);
  }
  [[nodiscard]] static size_t card_used() {
    nvmlMemory_v2_t memory = {};
    memory.version = nvmlMemory_v2;
    EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(card(0), &memory), NVML_SUCCESS);
    return memory.used;
  }
  static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr block = 0;
    return cuMemAlloc(&block, bytes) == CUDA_SUCCESS ? block : 0;
  }

  int channel_[2] = {-1, -1};
};

constexpr int kParent = 0;
constexpr int kChild = 1;

// Where the parent has not used the management library yet, the child loads it after its driver.
TEST(ManagementLibrary, LeavesTheHoldOfADriverLoadedBeforeItAlone) {
  const pid_t child = start_child([] {
    if (use_primary() != CUDA_SUCCESS || nvmlInit_v2() != NVML_SUCCESS) return 1;
    const pid_t self = ::getpid();
    const pid_t looker = start_child([self] { return used_by(self) == kContextBytes ? 0 : 1; });
    if (exit_status(looker) != 0) return 2;
    return used_by(self) == kContextBytes ? 0 : 3;
  });
  EXPECT_EQ(exit_status(child), 0);
}

TEST_F(Processes, AKilledProcessGivesItsMemoryBack) {
  const pid_t child = start_child([&] {
    if (use_primary() != CUDA_SUCCESS || allocate(kGiB) == 0) return 1;
    say(kChild);
    ::pause();
    return 0;
  });
  hear(kParent);
  EXPECT_EQ(used_by(child), kContextBytes + kGiB);
  EXPECT_EQ(card_used(), kContextBytes + kGiB);
  ::kill(child, SIGKILL);
  EXPECT_EQ(exit_status(child), 128 + SIGKILL);
  EXPECT_EQ(card_used(), 0u);
  EXPECT_EQ(used_by(child), 0u);
}

TEST_F(Processes, AZombieHoldsNoMemory) {
  const pid_t child = start_child([&] {
    if (use_primary() != CUDA_SUCCESS || allocate(kGiB) == 0) return 1;
    say(kChild);
    hear(kChild);
    return 0;
  });
  hear(kParent);
  say(kParent);
  siginfo_t info = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(card_used(), 0u);
  EXPECT_EQ(exit_status(child), 0);
}

TEST_F(Processes, ExecGivesTheMemoryBack) {
  const pid_t child = start_child([&] {
    if (use_primary() != CUDA_SUCCESS || allocate(kGiB) == 0) return 1;
    say(kChild);
    hear(kChild);
    ::execlp("sleep", "sleep", "100", nullptr);
    return 1;
  });
  hear(kParent);
  EXPECT_EQ(card_used(), kContextBytes + kGiB);
  say(kParent);
  for (int i = 0; i < 500 && card_used() != 0; ++i) ::usleep(10000);
  EXPECT_EQ(card_used(), 0u);
  ::kill(child, SIGKILL);
  exit_status(child);
}

TEST_F(Processes, TwoContendForOneCard) {
  const pid_t first = start_child([&] {
    if (use_primary() != CUDA_SUCCESS || allocate(20 * kGiB) == 0) return 1;
    say(kChild);
    hear(kChild);
    return 0;
  });
  hear(kParent);
  const pid_t second = start_child([&] {
    if (use_primary() != CUDA_SUCCESS) return 1;
    if (free_bytes() != 4 * kGiB - 2 * kContextBytes) return 2;
    if (allocate(3 * kGiB) != 0) return 3;
    return allocate(2 * kGiB) != 0 ? 0 : 4;
  });
  EXPECT_EQ(exit_status(second), 0);
  say(kParent);
  EXPECT_EQ(exit_status(first), 0);
}

TEST_F(Processes, ManyRacingForOneCardNeverTakeMoreThanItHas) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(start_child([&] {
      // The others may have taken the room that a context needs.
      CUresult started = use_primary();
      for (; started == CUDA_ERROR_OUT_OF_MEMORY; started = use_primary()) ::usleep(1000);
      if (started != CUDA_SUCCESS) return 1;
      CUcontext context = nullptr;
      if (cuCtxGetCurrent(&context) != CUDA_SUCCESS) return 2;
      std::vector<std::thread> threads;
      for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([context] {
          (void)cuCtxSetCurrent(context);
          for (int round = 0; round < 200; ++round) {
            const CUdeviceptr block = allocate(2 * kGiB);
            if (block != 0) (void)cuMemFree(block);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      return free_bytes() <= kCardBytes ? 0 : 3;
    }));
  }
  for (int i = 0; i < 200; ++i) ASSERT_LE(card_used(), kCardBytes);
  for (const pid_t child : children) EXPECT_EQ(exit_status(child), 0);
  EXPECT_EQ(card_used(), 0u);
}

TEST_F(Processes, MemoryIsExactAfterManyKills) {
  for (int round = 0; round < 60; ++round) {
    const pid_t child = start_child([&] {
      if (use_primary() != CUDA_SUCCESS) return 1;
      for (;;) {
        const CUdeviceptr block = allocate(4 * kMiB);
        CUipcMemHandle handle;
        if (block != 0) (void)cuIpcGetMemHandle(&handle, block);
        if (block != 0) (void)cuMemFree(block);
      }
    });
    ::usleep(static_cast<useconds_t>(2000 + 100 * round));
    ::kill(child, SIGKILL);
    EXPECT_EQ(exit_status(child), 128 + SIGKILL);
    ASSERT_EQ(card_used(), 0u) << round;
  }
}

TEST_F(Processes, AForkedChildHasNoDriver) {
  const pid_t child = start_child([] {
    if (use_primary() != CUDA_SUCCESS) return 1;
    const CUdeviceptr block = allocate(kMiB);
    const pid_t grandchild = start_child([block] {
      CUdeviceptr other = 0;
      if (cuMemAlloc(&other, 1) != CUDA_ERROR_NOT_INITIALIZED) return 1;
      if (cuMemFree(block) != CUDA_ERROR_NOT_INITIALIZED) return 2;
      return cuInit(0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 3;
    });
    if (exit_status(grandchild) != 0) return 2;
    // The grandchild's end has not ended this process's hold of the card.
    return free_bytes() == kCardBytes - kContextBytes - 2 * kMiB ? 0 : 3;
  });
  EXPECT_EQ(exit_status(child), 0);
}

TEST_F(Processes, AContextIsListedWithItsCost) {
  const pid_t child = start_child([&] {
    if (cuInit(0) != CUDA_SUCCESS) return 1;
    say(kChild);
    hear(kChild);
    CUcontext first = nullptr;
    CUcontext second = nullptr;
    if (cuDevicePrimaryCtxRetain(&first, 0) != CUDA_SUCCESS) return 2;
    if (cuCtxCreate(&second, nullptr, 0, 0) != CUDA_SUCCESS) return 3;
    say(kChild);
    hear(kChild);
    if (cuCtxDestroy(second) != CUDA_SUCCESS) return 4;
    if (cuDevicePrimaryCtxRelease(0) != CUDA_SUCCESS) return 5;
    say(kChild);
    hear(kChild);
    return 0;
  });
  hear(kParent);
  EXPECT_EQ(used_by(child), 0u);
  say(kParent);
  hear(kParent);
  EXPECT_EQ(used_by(child), 2 * kContextBytes);
  say(kParent);
  hear(kParent);
  EXPECT_EQ(used_by(child), 0u);
  say(kParent);
  EXPECT_EQ(exit_status(child), 0);
}

TEST_F(Processes, AnIpcHandleSharesBytesAndIsChargedOnce) {
  struct Message {
    CUipcMemHandle handle;
  } message = {};
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const pid_t exporter = start_child([&] {
    if (use_primary() != CUDA_SUCCESS) return 1;
    const CUdeviceptr block = allocate(kGiB);
    if (cuMemsetD8(block, 0x42, kGiB / 1024) != CUDA_SUCCESS) return 2;
    if (cuCtxSynchronize() != CUDA_SUCCESS) return 3;
    if (cuIpcGetMemHandle(&message.handle, block) != CUDA_SUCCESS) return 4;
    CUdeviceptr own = 0;
    if (cuIpcOpenMemHandle(&own, message.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
        CUDA_ERROR_INVALID_CONTEXT) {
      return 5;
    }
    if (::write(pipes[1], &message, sizeof(message)) != sizeof(message)) return 6;
    hear(kChild);
    if (cuMemFree(block) != CUDA_SUCCESS) return 7;
    say(kChild);
    hear(kChild);
    return 0;
  });
  ASSERT_EQ(::read(pipes[0], &message, sizeof(message)), ssize_t{sizeof(message)});
  EXPECT_EQ(used_by(exporter), kContextBytes + kGiB);

  int steps[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, steps), 0);
  const pid_t importer = start_child([&] {
    char byte = 0;
    if (use_primary() != CUDA_SUCCESS) return 1;
    CUdeviceptr block = 0;
    if (cuIpcOpenMemHandle(&block, message.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
        CUDA_SUCCESS) {
      return 2;
    }
    if (::write(steps[1], "x", 1) != 1 || ::read(steps[1], &byte, 1) != 1) return 3;
    unsigned char value = 0;
    if (cuMemcpyDtoH(&value, block + 100, 1) != CUDA_SUCCESS || value != 0x42) return 4;
    if (::write(steps[1], "x", 1) != 1 || ::read(steps[1], &byte, 1) != 1) return 5;
    return cuIpcCloseMemHandle(block) == CUDA_SUCCESS ? 0 : 6;
  });
  char byte = 0;
  ASSERT_EQ(::read(steps[0], &byte, 1), 1);
  EXPECT_EQ(used_by(exporter), kContextBytes + kGiB) << "opening costs nothing more";
  EXPECT_EQ(used_by(importer), kContextBytes);
  say(kParent);
  hear(kParent);
  EXPECT_EQ(used_by(exporter), kContextBytes) << "freed, and now the importer's";
  EXPECT_EQ(used_by(importer), kContextBytes + kGiB);
  say(kParent);
  EXPECT_EQ(exit_status(exporter), 0);
  ASSERT_EQ(::write(steps[0], "x", 1), 1);
  ASSERT_EQ(::read(steps[0], &byte, 1), 1) << "the bytes outlive the exporter";
  EXPECT_EQ(card_used(), kContextBytes + kGiB);
  ASSERT_EQ(::write(steps[0], "x", 1), 1);
  EXPECT_EQ(exit_status(importer), 0);
  EXPECT_EQ(card_used(), 0u);
}

// Sends a descriptor over a Unix socket, as programs do with exported memory.
void send_descriptor(int socket, int descriptor) {
  char byte = 'd';
  iovec data = {&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  EXPECT_EQ(::sendmsg(socket, &message, 0), 1);
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(socket, &message, 0) != 1 || CMSG_FIRSTHDR(&message) == nullptr) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
  return descriptor;
}

TEST_F(Processes, ExportedPhysicalMemoryIsTheSameInBoth) {
  constexpr size_t kBytes = 64 * kMiB;
  const auto map = [](CUmemGenericAllocationHandle handle, CUdeviceptr* range) {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return cuMemAddressReserve(range, kBytes, 0, 0, 0) == CUDA_SUCCESS &&
           cuMemMap(*range, kBytes, 0, handle, 0) == CUDA_SUCCESS &&
           cuMemSetAccess(*range, kBytes, &access, 1) == CUDA_SUCCESS;
  };
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  const pid_t exporter = start_child([&] {
    if (use_primary() != CUDA_SUCCESS) return 1;
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr range = 0;
    if (cuMemCreate(&handle, kBytes, &properties, 0) != CUDA_SUCCESS) return 2;
    if (!map(handle, &range) || cuMemsetD8(range, 0x17, 16) != CUDA_SUCCESS) return 3;
    if (cuCtxSynchronize() != CUDA_SUCCESS) return 4;
    int descriptor = -1;
    if (cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                     0) != CUDA_SUCCESS) {
      return 5;
    }
    send_descriptor(fds[0], descriptor);
    hear(kChild);
    return 0;
  });
  const pid_t importer = start_child([&] {
    if (use_primary() != CUDA_SUCCESS) return 1;
    const int descriptor = receive_descriptor(fds[1]);
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr range = 0;
    if (cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(intptr_t{descriptor}),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS) {
      return 2;
    }
    unsigned char value = 0;
    if (!map(handle, &range) || cuMemcpyDtoH(&value, range, 1) != CUDA_SUCCESS) return 3;
    if (value != 0x17) return 4;
    if (used_by(::getpid()) != kContextBytes) return 5;
    say(kParent);  // lets the exporter end
    while (used_by(::getpid()) != kContextBytes + kBytes) ::usleep(1000);
    if (cuMemcpyDtoH(&value, range + 1, 1) != CUDA_SUCCESS || value != 0x17) return 6;
    return 0;
  });
  EXPECT_EQ(exit_status(importer), 0);
  EXPECT_EQ(exit_status(exporter), 0);
  EXPECT_EQ(card_used(), 0u);
}

TEST_F(Processes, ForeignMemoryIsChargedToItsOldestHolder) {
  constexpr size_t kBytes = 64 * kMiB;
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  const pid_t exporter = start_child([&] {
    uint64_t memory = 0;
    int descriptor = -1;
    if (use_primary() != CUDA_SUCCESS) return 1;
    if (vram_sim_foreign_memory(0, kBytes, &memory, &descriptor) != CUDA_SUCCESS) return 2;
    if (used_by(::getpid()) != kContextBytes + kBytes) return 3;
    send_descriptor(fds[0], descriptor);
    hear(kChild);
    return 0;
  });
  const pid_t importer = start_child([&] {
    if (use_primary() != CUDA_SUCCESS) return 1;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {};
    description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = receive_descriptor(fds[1]);
    description.size = kBytes;
    CUexternalMemory memory = nullptr;
    if (cuImportExternalMemory(&memory, &description) != CUDA_SUCCESS) return 2;
    if (used_by(::getpid()) != kContextBytes) return 3;
    say(kParent);  // lets the exporter end
    while (used_by(::getpid()) != kContextBytes + kBytes) ::usleep(1000);
    if (cuDestroyExternalMemory(memory) != CUDA_SUCCESS) return 4;
    return used_by(::getpid()) == kContextBytes ? 0 : 5;
  });
  EXPECT_EQ(exit_status(importer), 0);
  EXPECT_EQ(exit_status(exporter), 0);
  EXPECT_EQ(card_used(), 0u);
}

TEST_F(Processes, ABlockOfAnExportedPoolIsTheSameInBoth) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  const pid_t exporter = start_child([&] {
    if (use_primary() != CUDA_SUCCESS) return 1;
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemoryPool pool = nullptr;
    CUdeviceptr first = 0;
    CUdeviceptr block = 0;
    if (cuMemPoolCreate(&pool, &properties) != CUDA_SUCCESS) return 2;
    if (cuMemAllocFromPoolAsync(&first, 1000, pool, nullptr) != CUDA_SUCCESS) return 3;
    if (cuMemAllocFromPoolAsync(&block, kMiB, pool, nullptr) != CUDA_SUCCESS) return 4;
    if (cuMemsetD8(block, 0x33, kMiB) != CUDA_SUCCESS) return 5;
    if (cuCtxSynchronize() != CUDA_SUCCESS) return 6;
    int descriptor = -1;
    CUmemPoolPtrExportData data = {};
    if (cuMemPoolExportToShareableHandle(
            &descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS) {
      return 7;
    }
    if (cuMemPoolExportPointer(&data, block) != CUDA_SUCCESS) return 8;
    send_descriptor(fds[0], descriptor);
    if (::write(fds[0], &data, sizeof(data)) != ssize_t{sizeof(data)}) return 9;
    hear(kChild);
    return 0;
  });
  const pid_t importer = start_child([&] {
    if (use_primary() != CUDA_SUCCESS) return 1;
    const int descriptor = receive_descriptor(fds[1]);
    CUmemPoolPtrExportData data = {};
    if (::read(fds[1], &data, sizeof(data)) != ssize_t{sizeof(data)}) return 2;
    CUmemoryPool pool = nullptr;
    if (cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(intptr_t{descriptor}),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                           0) != CUDA_SUCCESS) {
      return 3;
    }
    CUdeviceptr block = 0;
    unsigned char value = 0;
    if (cuMemPoolImportPointer(&block, pool, &data) != CUDA_SUCCESS) return 4;
    if (cuMemcpyDtoH(&value, block + kMiB - 1, 1) != CUDA_SUCCESS || value != 0x33) return 5;
    if (used_by(::getpid()) != kContextBytes) return 6;
    if (cuMemFree(block) != CUDA_SUCCESS || cuMemPoolDestroy(pool) != CUDA_SUCCESS) return 7;
    say(kParent);
    return 0;
  });
  EXPECT_EQ(exit_status(importer), 0);
  EXPECT_EQ(exit_status(exporter), 0);
}

}  // namespace
}  // namespace vram::sim_test
