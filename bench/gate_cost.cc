// What passing the gate adds to a call: the generated handlers before a driver that does nothing.
//
//   gate_cost [MOST_NS]
//
// Prints the nanoseconds of a call to that driver itself, and through the handler while no gate is
// up and while one is: medians of kRounds batches, which take turns. A busy machine only makes them
// slower, so all is measured kTimes, and the least of the medians counts. Fails when a handler adds
// more than MOST_NS.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "interpose/gated.h"

namespace vram::driver {

Real real{};
bool load() { return true; }

}  // namespace vram::driver

namespace {

using vram::driver::real;

constexpr int kTimes = 20;
constexpr int kRounds = 201;
constexpr int kBatch = 10'000;

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

// Of the driver's own function and of the one given; `call` takes the function to call.
template <typename Function, typename Call>
std::array<double, 2> medians_ns(Function* own, Function* given, Call call) {
  // Read anew each time, so that no call is made at compile time.
  Function* volatile functions[] = {own, given};
  std::vector<double> ns[2];
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 2; ++i) {
      ns[i].push_back(batch_ns([&] { call(functions[i]); }));
    }
  }
  return {median(ns[0]), median(ns[1])};
}

// Of all times that it was measured, the least.
struct Row {
  const char* name;
  std::array<double, 2> ns{1e9, 1e9};

  void take(const std::array<double, 2>& other) {
    for (int i = 0; i < 2; ++i) ns[i] = std::min(ns[i], other[i]);
  }
  double added() const { return ns[1] - ns[0]; }
};

// The most that a handler adds.
double measure_all(const char* gate) {
  Row rows[] = {{"launch, 11 arguments"}, {"copy, 4 arguments"}};
  for (int time = 0; time < kTimes; ++time) {
    rows[0].take(medians_ns(&launch, &cuLaunchKernel, [](auto* function) {
      function(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
    }));
    rows[1].take(medians_ns(&copy, &cuMemcpyHtoDAsync_v2,
                            [](auto* function) { function(0, nullptr, 0, nullptr); }));
  }
  std::printf("%s\n", gate);
  for (const Row& row : rows) {
    std::printf("%-28s driver %6.2f ns, given %6.2f ns, added %+6.2f ns\n", row.name, row.ns[0],
                row.ns[1], row.added());
  }
  return std::max(rows[0].added(), rows[1].added());
}

}  // namespace

int main(int argc, char** argv) {
  real.cuLaunchKernel = launch;
  real.cuMemcpyHtoDAsync_v2 = copy;
  double most_ns = measure_all("no gate up");
  vram::residency::Gate::put_up(nullptr);
  most_ns = std::max(most_ns, measure_all("a gate up, open"));
  return argc > 1 && most_ns > std::atof(argv[1]) ? 1 : 0;
}
