// shared_between_processes: memory that one process of the job opens from another counts once, also
// when the one it came from has freed it, until nobody has it. The limit is 4 GiB.
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

namespace {

int import(int from_parent, int to_parent) {
  start();
  const std::size_t before = left();
  CUipcMemHandle handle{};
  char byte = 0;
  CHECK_IS(write(to_parent, "s", 1), 1);
  CHECK_IS(read(from_parent, &handle, sizeof handle), sizeof handle);
  CUdeviceptr address = 0;
  CUdeviceptr again = 0;
  OK(cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  OK(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  // The exporter took it in between.
  CHECK_IS(left(), before - kGiB);
  OK(cuIpcCloseMemHandle(again));
  CHECK_IS(left(), before - kGiB);
  CHECK_IS(write(to_parent, "o", 1), 1);
  CHECK_IS(read(from_parent, &byte, 1), 1);  // it is freed there
  CHECK_IS(left(), before - kGiB);
  OK(cuIpcCloseMemHandle(address));
  CHECK_IS(left(), before);
  CHECK_IS(write(to_parent, "c", 1), 1);
  CHECK_IS(read(from_parent, &byte, 1), 1);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) return import(STDIN_FILENO, STDOUT_FILENO);
  int to[2] = {};
  int from[2] = {};
  CHECK_IS(pipe(to), 0);
  CHECK_IS(pipe(from), 0);
  start();
  char role[] = "import";
  const pid_t child = vfork();
  if (child == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execl("/proc/self/exe", arguments[0], role, nullptr);
    _exit(9);
  }
  close(from[1]);
  char byte = 0;
  CHECK_IS(read(from[0], &byte, 1), 1);
  const std::size_t before = left();
  CUdeviceptr block = 0;
  CUipcMemHandle handle{};
  OK(cuMemAlloc(&block, kGiB));
  OK(cuIpcGetMemHandle(&handle, block));
  CHECK_IS(write(to[1], &handle, sizeof handle), sizeof handle);
  CHECK_IS(read(from[0], &byte, 1), 1);
  CHECK_IS(left(), before - kGiB);
  OK(cuMemFree(block));
  CHECK_IS(left(), before - kGiB);
  CHECK_IS(write(to[1], "f", 1), 1);
  CHECK_IS(read(from[0], &byte, 1), 1);
  CHECK_IS(left(), before);
  CHECK_IS(write(to[1], "e", 1), 1);
  int status = 0;
  CHECK_IS(waitpid(child, &status, 0), child);
  CHECK_IS(status, 0);
}
