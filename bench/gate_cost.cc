// What passing the gate adds to a call: the generated handlers before a driver that does nothing.
// Prints the nanoseconds of a call to that driver itself, and through the handler while no gate is
// up and while one is; medians of kRounds batches, which take turns.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "interpose/gated.h"

namespace vram::driver {

Real real{};
bool load() { return true; }

}  // namespace vram::driver

namespace {

using vram::driver::real;

constexpr int kRounds = 401;
constexpr int kBatch = 20'000;

CUresult launch(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                CUstream, void**, void**) {
  return CUDA_SUCCESS;
}
CUresult copy(CUdeviceptr, const void*, std::size_t, CUstream) { return CUDA_SUCCESS; }

template <typename Call>
double batch_ns(Call call) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (int i = 0; i < kBatch; ++i) call();
  const std::chrono::duration<double, std::nano> took = Clock::now() - start;
  return took.count() / kBatch;
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// `call` takes the function to call.
template <typename Function, typename Call>
void measure(const char* name, Function* own, Function* given, Call call) {
  // Read anew each time, so that no call is made at compile time.
  Function* volatile functions[] = {own, given};
  std::vector<double> ns[2];
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 2; ++i) {
      ns[i].push_back(batch_ns([&] { call(functions[i]); }));
    }
  }
  const double a = median(ns[0]), b = median(ns[1]);
  std::printf("%-28s driver %6.2f ns, given %6.2f ns, added %+6.2f ns\n", name, a, b, b - a);
}

void measure_all(const char* gate) {
  std::printf("%s\n", gate);
  measure("launch, 11 arguments", &launch, &cuLaunchKernel, [](auto* function) {
    function(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  });
  measure("copy, 4 arguments", &copy, &cuMemcpyHtoDAsync_v2,
          [](auto* function) { function(0, nullptr, 0, nullptr); });
}

}  // namespace

int main() {
  real.cuLaunchKernel = launch;
  real.cuMemcpyHtoDAsync_v2 = copy;
  measure_all("no gate up");
  vram::residency::Gate::put_up(nullptr);
  measure_all("a gate up, open");
  return 0;
}
