// Device code as the vendor's compiler writes it: cubins, fat binaries, packed and not.
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <utility>

#include "execution_test.h"
#include "nvcc.h"

namespace vram::sim_test {
namespace {

constexpr const char* kSource = R"(
struct Mixed { char c; double d; int x[3]; };
__device__ int counter = 7;
__constant__ float coefficients[4] = {1, 2, 3, 4};
__global__ void vectorAdd(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void __launch_bounds__(128) mixed(char a, Mixed s, short b, double* p) {
  __shared__ float block[100];
  float own[2000];
  for (int i = 0; i < 2000; i++) own[i] = p[i] * s.d;
  block[threadIdx.x % 100] = own[(int)p[3] % 2000];
  __syncthreads();
  p[0] = block[b] + a + counter + coefficients[b];
}
)";

class Images : public Execution {
 protected:
  void SetUp() override {
    Execution::SetUp();
    nvcc_ = find_nvcc();
    if (nvcc_.empty()) GTEST_SKIP() << "no nvcc on the PATH or in /usr/local/cuda/bin";
    folder_ = std::filesystem::temp_directory_path() / ("vram-image-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder_);
    std::ofstream(folder_ / "source.cu") << kSource;
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    Execution::TearDown();
  }
  // A module of what nvcc makes of the source.
  [[nodiscard]] CUmodule compile(const std::string& options) const {
    const std::string image = folder_ / "image";
    const std::string command = nvcc_ + " " + options + " -o " + image + " " +
                                (folder_ / "source.cu").string() + " 2>/dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoad(&module, image.c_str()), CUDA_SUCCESS) << options;
    return module;
  }

  std::string nvcc_;
  std::filesystem::path folder_;
};

int attribute(CUfunction function, CUfunction_attribute which) {
  int value = -1;
  EXPECT_EQ(cuFuncGetAttribute(&value, which, function), CUDA_SUCCESS);
  return value;
}

void expect_declarations(CUmodule module) {
  CUfunction mixed = nullptr;
  ASSERT_EQ(cuModuleGetFunction(&mixed, module, "_Z5mixedc5MixedsPd"), CUDA_SUCCESS);
  const std::array<std::pair<size_t, size_t>, 4> parameters{{{0, 1}, {8, 32}, {40, 2}, {48, 8}}};
  for (size_t i = 0; i < parameters.size(); ++i) {
    size_t offset = 0;
    size_t bytes = 0;
    ASSERT_EQ(cuFuncGetParamInfo(mixed, i, &offset, &bytes), CUDA_SUCCESS) << i;
    EXPECT_EQ(std::make_pair(offset, bytes), parameters[i]) << i;
  }
  EXPECT_EQ(attribute(mixed, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), 8000);
  EXPECT_EQ(attribute(mixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 400);
  EXPECT_EQ(attribute(mixed, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 128);
}

void expect_variables(CUmodule module) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  int counter = 0;
  ASSERT_EQ(cuModuleGetGlobal(&address, &bytes, module, "counter"), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH(&counter, address, sizeof(counter)), CUDA_SUCCESS);
  EXPECT_EQ(counter, 7);
  std::array<float, 4> coefficients{};
  ASSERT_EQ(cuModuleGetGlobal(&address, &bytes, module, "coefficients"), CUDA_SUCCESS);
  ASSERT_EQ(bytes, sizeof(coefficients));
  ASSERT_EQ(cuMemcpyDtoH(coefficients.data(), address, bytes), CUDA_SUCCESS);
  EXPECT_EQ(coefficients[2], 3.0f);
}

// One test a format, for the compiler takes its time.
class EveryImage : public Images, public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryImage, TellsTheSame) {
  const CUmodule module = compile(GetParam());
  ASSERT_NE(module, nullptr);
  expect_declarations(module);
  expect_variables(module);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, EveryImage,
    ::testing::Values(
        "-ptx -arch=sm_90", "-cubin -arch=sm_90", "-cubin -arch=sm_80", "-fatbin -arch=sm_90",
        "-fatbin -arch=sm_90 -Xfatbin -compress-all",
        "-fatbin -arch=sm_90 -Xfatbin -compress-all -Xfatbin --compress-mode=speed",
        "-fatbin -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90"));

TEST_F(Images, CompiledVectorAddAdds) {
  const CUmodule module = compile("-cubin -arch=sm_90");
  CUfunction add = nullptr;
  ASSERT_EQ(cuModuleGetFunction(&add, module, "_Z9vectorAddPKfS0_Pfi"), CUDA_SUCCESS);
  const std::array<float, 4> host{1, 2, 3, 4};
  ASSERT_EQ(cuMemcpyHtoD(words_, host.data(), sizeof(host)), CUDA_SUCCESS);
  CUdeviceptr in = words_;
  CUdeviceptr out = words_ + 512;
  int count = 4;
  void* arguments[] = {&in, &in, &out, &count};
  ASSERT_EQ(cuLaunchKernel(add, 1, 1, 1, 4, 1, 1, 0, nullptr, arguments, nullptr), CUDA_SUCCESS);
  std::array<float, 4> sum{};
  ASSERT_EQ(cuMemcpyDtoH(sum.data(), out, sizeof(sum)), CUDA_SUCCESS);
  EXPECT_EQ(sum, (std::array<float, 4>{2, 4, 6, 8}));
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vram::sim_test
