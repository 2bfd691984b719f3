// main returns while other threads are in the middle of their calls.
#include <chrono>
#include <thread>

#include "program.h"

int main() {
  CUcontext const context = start();
  for (int i = 0; i < 4; ++i) {
    std::thread([context] {
      cuCtxSetCurrent(context);
      for (;;) {
        CUdeviceptr block = 0;
        if (cuMemAlloc(&block, kKiB) == CUDA_SUCCESS) cuMemFree(block);
        if (cuMemAllocAsync(&block, kMiB, nullptr) == CUDA_SUCCESS) cuMemFreeAsync(block, nullptr);
      }
    }).detach();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}
