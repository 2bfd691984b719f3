// Programs of the runtime interface as nvcc makes them, linked with the runtime as a shared
// library: they run on the simulated GPU unchanged.
#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "nvcc.h"
#include "sim_test.h"

namespace vram::sim_test {
namespace {

constexpr const char* kProgram = R"(
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>
#define CHECK(call, expected)                                                      \
  do {                                                                             \
    const cudaError_t got = (call);                                                \
    if (got != (expected)) {                                                       \
      std::printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(got));    \
      return 1;                                                                    \
    }                                                                              \
  } while (0)
#define GOOD(call) CHECK(call, cudaSuccess)

__device__ int counter = 7;
__global__ void vectorAdd(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void empty() {}

int main() {
  int count = 0;
  GOOD(cudaGetDeviceCount(&count));
  if (count != 2) return 2;
  CHECK(cudaSetDevice(5), cudaErrorInvalidDevice);
  CHECK(cudaGetLastError(), cudaErrorInvalidDevice);
  CHECK(cudaGetLastError(), cudaSuccess);
  cudaDeviceProp properties{};
  GOOD(cudaGetDeviceProperties(&properties, 0));
  if (properties.totalGlobalMem != size_t{24} << 30 || properties.major != 9) return 3;

  const int n = 1000;
  std::vector<float> host(n), sum(n);
  for (int i = 0; i < n; i++) host[i] = i;
  float *a, *b, *c;
  GOOD(cudaMalloc(&a, n * sizeof(float)));
  GOOD(cudaMalloc(&b, n * sizeof(float)));
  GOOD(cudaMalloc(&c, n * sizeof(float)));
  GOOD(cudaMemcpy(a, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  GOOD(cudaMemcpy(b, host.data(), n * sizeof(float), cudaMemcpyDefault));
  vectorAdd<<<(n + 255) / 256, 256>>>(a, b, c, n);
  GOOD(cudaGetLastError());
  GOOD(cudaMemcpy(sum.data(), c, n * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) if (sum[i] != 2 * host[i]) return 4;

  int value = 0;
  GOOD(cudaMemcpyFromSymbol(&value, counter, sizeof(value)));
  if (value != 7) return 5;
  value = 8;
  GOOD(cudaMemcpyToSymbol(counter, &value, sizeof(value)));
  value = 0;
  GOOD(cudaMemcpyFromSymbol(&value, counter, sizeof(value)));
  if (value != 8) return 6;

  cudaStream_t stream;
  GOOD(cudaStreamCreate(&stream));
  void* block = nullptr;
  GOOD(cudaMallocAsync(&block, 1 << 20, stream));
  GOOD(cudaMemsetAsync(block, 1, 1 << 20, stream));
  GOOD(cudaFreeAsync(block, stream));
  GOOD(cudaStreamSynchronize(stream));

  cudaGraph_t graph;
  cudaGraphExec_t exec;
  GOOD(cudaMemset(c, 0, n * sizeof(float)));
  GOOD(cudaDeviceSynchronize());
  GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  vectorAdd<<<4, 256, 0, stream>>>(a, b, c, n);
  empty<<<1, 1, 0, stream>>>();
  GOOD(cudaStreamEndCapture(stream, &graph));
  GOOD(cudaGraphInstantiate(&exec, graph, 0));
  GOOD(cudaGraphLaunch(exec, stream));
  GOOD(cudaStreamSynchronize(stream));
  GOOD(cudaMemcpy(sum.data(), c, n * sizeof(float), cudaMemcpyDeviceToHost));
  if (sum[10] != 20) return 7;

  empty<<<1, 2048>>>();
  CHECK(cudaGetLastError(), cudaErrorInvalidValue);
  CHECK(cudaMalloc(&block, size_t{1} << 40), cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError(), cudaErrorMemoryAllocation);
  if (std::strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation")) return 8;

  int device = -1;
  std::thread([&] { cudaSetDevice(1); cudaGetDevice(&device); }).join();
  if (device != 1) return 9;
  GOOD(cudaGetDevice(&device));
  if (device != 0) return 10;
  cudaPointerAttributes attributes{};
  GOOD(cudaPointerGetAttributes(&attributes, a));
  if (attributes.type != cudaMemoryTypeDevice) return 11;
  GOOD(cudaPointerGetAttributes(&attributes, host.data()));
  if (attributes.type != cudaMemoryTypeUnregistered) return 12;
  GOOD(cudaFree(a));
  CHECK(cudaFree(a), cudaErrorInvalidValue);
  GOOD(cudaDeviceReset());
  std::puts("done");
}
)";

class Runtime : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string nvcc = find_nvcc();
    if (nvcc.empty()) GTEST_SKIP() << "no nvcc on the PATH or in /usr/local/cuda/bin";
    Dl_info driver{};
    ASSERT_NE(::dladdr(reinterpret_cast<void*>(&cuInit), &driver), 0);
    libraries_ = std::filesystem::path(driver.dli_fname).parent_path() / "runtime";
    if (!std::filesystem::exists(libraries_ / "libcudart.so.13")) {
      GTEST_SKIP() << "no libcudart.so.13 in " << libraries_
                   << ": it is built only where a whole toolkit is installed";
    }
    folder_ =
        std::filesystem::temp_directory_path() / ("vram-runtime-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder_);
    std::ofstream(folder_ / "program.cu") << kProgram;
    nvcc_ = nvcc;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // What the program prints, compiled with the options.
  [[nodiscard]] std::string run(const std::string& options) const {
    const std::string program = (folder_ / "program").string();
    const std::string compile = nvcc_ + " -arch=sm_90 -cudart shared " + options + " -o " +
                                program + " " + program + ".cu 2>&1";
    EXPECT_EQ(std::system(compile.c_str()), 0) << compile;
    const std::string command = "LD_LIBRARY_PATH=" + libraries_.string() + " " + program + " 2>&1";
    std::FILE* pipe = ::popen(command.c_str(), "r");
    std::string output;
    std::array<char, 256> line{};
    while (std::fgets(line.data(), line.size(), pipe) != nullptr) output += line.data();
    EXPECT_EQ(::pclose(pipe), 0);
    return output;
  }

  Machine machine_;
  std::filesystem::path libraries_;
  std::filesystem::path folder_;
  std::string nvcc_;
};

TEST_F(Runtime, ACompiledProgramRuns) { EXPECT_EQ(run(""), "done\n"); }

TEST_F(Runtime, ACompiledProgramRunsWithStreamsPerThread) {
  EXPECT_EQ(run("-default-stream per-thread"), "done\n");
}

}  // namespace
}  // namespace vram::sim_test
