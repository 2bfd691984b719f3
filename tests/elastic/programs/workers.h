// Threads that work on memory of their own and notice when it is not as they left it.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>

namespace scene {

class Workers {
 public:
  // In the current context. Empty: they run; else why not.
  [[nodiscard]] std::string start(int count);
  // Waits for their ends. Empty: none saw anything wrong. `rounds`: what they did together.
  [[nodiscard]] std::string stop(long* rounds);

  ~Workers();

 private:
  void work(int number);
  // One thing that programs do; empty: its outcome was right.
  std::string round(int number, CUstream stream, CUdeviceptr words, unsigned value);

  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction fill_ = nullptr;
  std::vector<std::thread> threads_;
  std::vector<std::string> faults_;
  std::atomic<bool> running_{false};
  std::atomic<long> rounds_{0};
};

// The kernels of the scene, of which the simulated card computes those that it knows by name.
CUmodule kernels(std::string* fault);
// Keeps the stream at work.
std::string spin(unsigned milliseconds, CUstream stream);

}  // namespace scene
