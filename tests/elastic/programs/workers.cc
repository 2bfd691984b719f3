#include "workers.h"

#include <cstdint>

#include "blocks.h"

namespace scene {
namespace {

constexpr std::uint64_t kWords = 64 * 1024;
constexpr std::size_t kBytes = kWords * 4;

const char kPtx[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry vram_fill_u32(.param .u64 out, .param .u64 n, .param .u32 value)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [n];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mov.u32 %r5, %nctaid.x;
  mul.wide.u32 %rd3, %r2, %r3;
  cvt.u64.u32 %rd4, %r4;
  add.u64 %rd3, %rd3, %rd4;
  mul.wide.u32 %rd5, %r5, %r3;
NEXT:
  setp.ge.u64 %p1, %rd3, %rd2;
  @%p1 bra DONE;
  shl.b64 %rd6, %rd3, 2;
  add.u64 %rd6, %rd1, %rd6;
  st.global.u32 [%rd6], %r1;
  add.u64 %rd3, %rd3, %rd5;
  bra NEXT;
DONE:
  ret;
}
.visible .entry vram_spin_ns(.param .u64 ns)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [ns];
  mov.u64 %rd2, %globaltimer;
AGAIN:
  mov.u64 %rd3, %globaltimer;
  sub.u64 %rd4, %rd3, %rd2;
  setp.lt.u64 %p1, %rd4, %rd1;
  @%p1 bra AGAIN;
  ret;
}
)";

std::string wrong(const char* what, std::uint32_t is, std::uint32_t wanted) {
  return std::string(what) + ": " + std::to_string(is) + ", not " + std::to_string(wanted);
}

}  // namespace

CUmodule kernels(std::string* fault) {
  CUmodule module = nullptr;
  *fault = name_of(cuModuleLoadData(&module, kPtx));
  return module;
}

std::string spin(unsigned milliseconds, CUstream stream) {
  static std::string fault;
  static CUmodule module = kernels(&fault);
  CUfunction function = nullptr;
  if (module == nullptr) return fault;
  CUresult result = cuModuleGetFunction(&function, module, "vram_spin_ns");
  std::uint64_t ns = std::uint64_t{milliseconds} * 1'000'000;
  void* arguments[] = {&ns};
  if (result == CUDA_SUCCESS) {
    result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  }
  return name_of(result);
}

std::string Workers::start(int count) {
  if (running_) return "they run already";
  std::string fault = name_of(cuCtxGetCurrent(&context_));
  if (fault.empty() && module_ == nullptr) module_ = kernels(&fault);
  if (fault.empty()) fault = name_of(cuModuleGetFunction(&fill_, module_, "vram_fill_u32"));
  if (!fault.empty()) return fault;
  faults_.assign(static_cast<std::size_t>(count), "");
  rounds_ = 0;
  running_ = true;
  for (int i = 0; i < count; ++i) threads_.emplace_back(&Workers::work, this, i);
  return "";
}

std::string Workers::stop(long* rounds) {
  running_ = false;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  *rounds = rounds_;
  for (const std::string& fault : faults_) {
    if (!fault.empty()) return fault;
  }
  return "";
}

Workers::~Workers() {
  running_ = false;
  for (std::thread& thread : threads_) thread.join();
}

void Workers::work(int number) {
  std::string& fault = faults_[static_cast<std::size_t>(number)];
  CUstream stream = nullptr;
  CUdeviceptr words = 0;
  fault = name_of(cuCtxSetCurrent(context_));
  if (fault.empty()) fault = name_of(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (fault.empty()) fault = name_of(cuMemAlloc(&words, kBytes));
  for (unsigned value = 1; running_ && fault.empty(); ++value) {
    fault = round(number, stream, words, value * 64 + static_cast<unsigned>(number));
    ++rounds_;
  }
  if (words != 0) cuMemFree(words);
  if (stream != nullptr) cuStreamDestroy(stream);
}

std::string Workers::round(int number, CUstream stream, CUdeviceptr words, unsigned value) {
  // What the first half was filled with before stays there while the second half changes.
  std::uint64_t half = kWords / 2;
  CUdeviceptr second = words + kBytes / 2;
  std::uint32_t first_value = value;
  std::uint32_t second_value = ~value;
  void* fill_first[] = {&words, &half, &first_value};
  void* fill_second[] = {&second, &half, &second_value};
  const auto launch = [&](void** arguments) {
    return cuLaunchKernel(fill_, 8, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr);
  };
  std::uint32_t seen[2] = {};
  CUdeviceptr passing = 0;
  CUresult result = launch(fill_first);
  if (result == CUDA_SUCCESS && number % 2 == 1) {
    result = cuMemAllocAsync(&passing, kBytes, stream);
    if (result == CUDA_SUCCESS) result = cuMemcpyDtoDAsync(passing, words, kBytes, stream);
  }
  if (result == CUDA_SUCCESS) result = launch(fill_second);
  if (result == CUDA_SUCCESS && passing != 0) {
    result = cuMemcpyDtoDAsync(words, passing, kBytes / 2, stream);
    if (result == CUDA_SUCCESS) result = cuMemFreeAsync(passing, stream);
  }
  if (result == CUDA_SUCCESS) {
    result = cuMemcpyDtoHAsync(&seen[0], words + kBytes / 2 - 4, 4, stream);
  }
  if (result == CUDA_SUCCESS) {
    result = cuMemcpyDtoHAsync(&seen[1], words + kBytes - 4, 4, stream);
  }
  if (result == CUDA_SUCCESS) result = cuStreamSynchronize(stream);
  if (result != CUDA_SUCCESS) return "round " + std::to_string(value) + ": " + name_of(result);
  if (seen[0] != first_value) return wrong("end of the first half", seen[0], first_value);
  if (seen[1] != second_value) return wrong("end of the second half", seen[1], second_value);
  return "";
}

}  // namespace scene
