// Calls from handlers that run when the process ends.
#include <thread>

#include "program.h"

namespace {

void use(const char* where) {
  CUdeviceptr small = 0;
  CUdeviceptr large = 0;
  const CUresult first = cuMemAlloc(&small, kKiB);
  const CUresult second = cuMemAlloc(&large, 3 * kMiB);
  std::printf("%s %d %d %d %d\n", where, first, second, cuMemFree(small), cuMemFree(large));
  std::fflush(stdout);
}

struct AtEnd {
  explicit AtEnd(const char* name) : where(name) {}
  ~AtEnd() { use(where); }
  const char* where;
};

const AtEnd of_program("static object");
thread_local const AtEnd of_thread("thread's object");

[[gnu::destructor]] void at_unload() { use("destructor"); }

}  // namespace

int main() {
  CUcontext const context = start();
  std::atexit([] { use("atexit"); });
  std::thread([&] {
    OK(cuCtxSetCurrent(context));
    CHECK(of_thread.where != nullptr);
  }).join();
  CHECK(of_thread.where != nullptr);
}
