// A signal handler that calls the driver while the thread it interrupts is in the middle of a call.
#include <sys/time.h>

#include <chrono>
#include <csignal>

#include "program.h"

namespace {

volatile std::sig_atomic_t calls = 0;

// A driver's locks are its own business: a call that it answers before it takes one.
void handle(int) {
  if (cuMemFree(0) != CUDA_SUCCESS) std::abort();
  calls = calls + 1;
}

}  // namespace

int main() {
  start();
  struct sigaction action {};
  action.sa_handler = handle;
  sigaction(SIGALRM, &action, nullptr);
  CUdeviceptr block = 0;
  OK(cuMemAlloc(&block, kKiB));
  const std::size_t before = left();
  const itimerval often = {{0, 300}, {0, 300}};
  CHECK_IS(setitimer(ITIMER_REAL, &often, nullptr), 0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < end) {
    CUdeviceptr large = 0;
    CUdeviceptr too_large = 0;
    OK(cuMemAlloc(&large, 3 * kMiB));
    CHECK_IS(cuMemAlloc(&too_large, 5 * kGiB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(large));
  }
  const itimerval never = {};
  CHECK_IS(setitimer(ITIMER_REAL, &never, nullptr), 0);
  CHECK(calls > 10);
  CHECK_IS(left(), before);
}
