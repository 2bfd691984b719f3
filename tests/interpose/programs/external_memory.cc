// external_memory export COMMAND...: as another program, takes 1 GiB on the card by another
// interface, and runs the command with a descriptor of it as the last argument.
// external_memory charged|answers|failing|own DESCRIPTOR: imports it. All but `answers` check the
// limit, which is 2 GiB; `own` takes memory by another interface itself.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "card.h"
#include "foreign.h"

namespace {

int export_to(int count, char** command) {
  OK(cuInit(0));
  const Foreign foreign = take_foreign(kGiB);
  const int inherited = dup(foreign.descriptor);
  const std::string last = std::to_string(inherited);
  std::vector<char*> line(command, command + count);
  line.push_back(const_cast<char*>(last.c_str()));
  line.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execv(line[0], line.data());
    _exit(127);
  }
  int status = 0;
  CHECK_IS(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 9;
}

CUexternalMemory import(int descriptor, std::size_t bytes = kGiB) {
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory = foreign_memory(dup(descriptor), bytes);
  CUexternalMemory imported = nullptr;
  OK(cuImportExternalMemory(&imported, &memory));
  return imported;
}

CUdeviceptr map(CUexternalMemory memory, std::size_t offset, std::size_t bytes) {
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {};
  buffer.offset = offset;
  buffer.size = bytes;
  CUdeviceptr address = 0;
  OK(cuExternalMemoryGetMappedBuffer(&address, memory, &buffer));
  return address;
}

std::ptrdiff_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

void check_full(std::size_t free) {
  CUdeviceptr block = 0;
  CHECK_IS(left(), free);
  CHECK_IS(cuMemAlloc(&block, free + 2 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemAlloc(&block, free));
  CHECK_IS(left(), 0);
  OK(cuMemFree(block));
  CHECK_IS(left(), free);
}

// Whoever imports it pays for it, to the byte, and has it back when it is destroyed.
void charged(int descriptor) {
  start();
  const std::size_t before = left();
  const std::size_t held_before = held();
  const CUexternalMemory memory = import(descriptor);
  CHECK_IS(held(), held_before);  // the card counts it with its exporter
  check_full(before - kGiB);
  const CUdeviceptr buffer = map(memory, 0, kGiB);
  CHECK_IS(left(), before - kGiB);
  OK(cuMemFree(buffer));
  CHECK_IS(left(), before - kGiB);

  // A second import does not fit, and leaves the descriptor where it is.
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC again = foreign_memory(dup(descriptor), kGiB);
  CUexternalMemory refused = nullptr;
  CHECK_IS(cuImportExternalMemory(&refused, &again), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(refused == nullptr);
  CHECK_IS(left(), before - kGiB);
  CHECK_IS(close(again.handle.fd), 0);

  OK(cuDestroyExternalMemory(memory));
  check_full(before);
  CHECK_IS(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC wrong = foreign_memory(STDIN_FILENO, kGiB);
  CHECK_IS(cuImportExternalMemory(&refused, &wrong), CUDA_ERROR_INVALID_HANDLE);
  CHECK_IS(left(), before);

  const std::ptrdiff_t open = descriptors();
  for (int round = 0; round < 3; ++round) {
    OK(cuDestroyExternalMemory(import(descriptor)));
    CHECK_IS(cuImportExternalMemory(&refused, &wrong), CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK_IS(descriptors(), open);

  // It goes with its context.
  (void)import(descriptor);
  CHECK_IS(left(), before - kGiB);
  OK(cuDevicePrimaryCtxReset(0));
  start();
  CHECK_IS(left(), before);
}

void say(const char* what, long long value) { std::printf("%s %lld\n", what, value); }

// What a program sees of the calls.
void answers(int descriptor) {
  start();
  const CUexternalMemory memory = import(descriptor);
  const CUdeviceptr buffer = map(memory, 4096, 8 * kMiB);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  say("range", cuMemGetAddressRange(&base, &bytes, buffer + 100));
  say("base", base == buffer);
  say("bytes", static_cast<long long>(bytes));
  unsigned value = 0;
  say("set", cuMemsetD32(buffer, 0x1234, 16));
  say("copy", cuMemcpyDtoH(&value, buffer + 60, sizeof value));
  say("value", value);
  say("free inside", cuMemFree(buffer + 4096));
  say("free", cuMemFree(buffer));
  say("free again", cuMemFree(buffer));
  say("gone", cuMemGetAddressRange(&base, &bytes, buffer));
  const CUdeviceptr other = map(memory, 0, kMiB);
  say("free in order", cuMemFreeAsync(other, nullptr));
  say("destroy", cuDestroyExternalMemory(memory));
  say("destroy again", cuDestroyExternalMemory(memory));
  say("import nothing", cuImportExternalMemory(nullptr, nullptr));
  for (const std::size_t wrong : {std::size_t{0}, kGiB + 1, 1024 * kGiB, SIZE_MAX}) {
    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC other_size = foreign_memory(descriptor, wrong);
    CUexternalMemory refused = nullptr;
    say("of another size", cuImportExternalMemory(&refused, &other_size));
  }
}

// The driver refuses the first import and the first destruction: nothing changes.
void failing(int descriptor) {
  start();
  const std::size_t before = left();
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory = foreign_memory(dup(descriptor), kGiB);
  CUexternalMemory imported = nullptr;
  CHECK_IS(cuImportExternalMemory(&imported, &memory), CUDA_ERROR_UNKNOWN);
  CHECK(imported == nullptr);
  check_full(before);
  OK(cuImportExternalMemory(&imported, &memory));  // the descriptor is still the program's
  CHECK_IS(cuDestroyExternalMemory(imported), CUDA_ERROR_UNKNOWN);
  check_full(before - kGiB);
  OK(cuDestroyExternalMemory(imported));
  check_full(before);
}

// Memory that this process has by another interface is counted once: as what the card shows of it,
// then as what it imported.
void own() {
  start();
  const std::size_t before = left();
  const Foreign foreign = take_foreign(kGiB);
  for (int round = 0; round < 2; ++round) {
    const CUexternalMemory memory = import(foreign.descriptor);
    CHECK_IS(left(), before - kGiB);
    CUdeviceptr block = 0;
    OK(cuMemAlloc(&block, 64 * kMiB));
    CHECK_IS(left(), before - kGiB - 64 * kMiB);
    OK(cuMemFree(block));
    CUcontext context = nullptr;
    CHECK_IS(cuCtxCreate(&context, nullptr, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_IS(left(), before - kGiB);
    OK(cuDestroyExternalMemory(memory));
    CHECK_IS(left(), before - kGiB);
  }
  const CUexternalMemory memory = import(foreign.descriptor);
  free_foreign(foreign);
  CHECK_IS(left(), before - kGiB);
  OK(cuDestroyExternalMemory(memory));
  CHECK_IS(left(), before);
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count >= 2);
  if (std::strcmp(arguments[1], "export") == 0) return export_to(count - 2, arguments + 2);
  if (std::strcmp(arguments[1], "own") == 0) return own(), 0;
  CHECK(count == 3);
  const int descriptor = std::atoi(arguments[2]);
  if (std::strcmp(arguments[1], "charged") == 0) return charged(descriptor), 0;
  if (std::strcmp(arguments[1], "failing") == 0) return failing(descriptor), 0;
  return answers(descriptor), 0;
}
