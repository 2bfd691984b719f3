// wrong_calls HAZARD: what a program must not do, and does.
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "program.h"

namespace {

void say(const char* what, CUresult result) { std::printf("%s %d\n", what, result); }

void double_free() {
  CUdeviceptr block = 0;
  for (const std::size_t bytes : {kKiB, 3 * kMiB}) {
    OK(cuMemAlloc(&block, bytes));
    say("first", cuMemFree(block));
    say("second", cuMemFree(block));
  }
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp prop = on_device(0);
  OK(cuMemCreate(&handle, 2 * kMiB, &prop, 0));
  say("release", cuMemRelease(handle));
  say("again", cuMemRelease(handle));
}

void free_of_unknown() {
  CUdeviceptr block = 0;
  OK(cuMemAlloc(&block, 3 * kMiB));
  for (const CUdeviceptr wrong :
       {CUdeviceptr{0}, CUdeviceptr{1}, block + 1, block + 2 * kMiB, ~CUdeviceptr{0}}) {
    say("free", cuMemFree(wrong));
    say("free-async", cuMemFreeAsync(wrong, nullptr));
  }
  say("right", cuMemFree(block));
  say("unmap", cuMemUnmap(0x200000, 2 * kMiB));
  say("unmap-huge", cuMemUnmap(0x200000, ~std::size_t{0}));
  say("release", cuMemRelease(0));
  say("release", cuMemRelease(~0ull));
  say("close", cuIpcCloseMemHandle(0x1000));
}

void null_out_pointers() {
  std::size_t value = 0;
  const CUmemAllocationProp prop = on_device(0);
  const CUDA_ARRAY_DESCRIPTOR flat = {64, 64, CU_AD_FORMAT_FLOAT, 1};
  say("alloc", cuMemAlloc(nullptr, kMiB));
  say("large", cuMemAlloc(nullptr, kGiB));
  say("managed", cuMemAllocManaged(nullptr, kMiB, CU_MEM_ATTACH_GLOBAL));
  say("pitch", cuMemAllocPitch(nullptr, &value, 100, 100, 4));
  say("no-pitch", cuMemAllocPitch(nullptr, nullptr, 100, 100, 4));
  say("array", cuArrayCreate(nullptr, &flat));
  say("array", cuArrayCreate(nullptr, nullptr));
  say("array3d", cuArray3DCreate(nullptr, nullptr));
  say("mipmap", cuMipmappedArrayCreate(nullptr, nullptr, 1));
  say("create", cuMemCreate(nullptr, 2 * kMiB, &prop, 0));
  say("create", cuMemCreate(nullptr, 2 * kMiB, nullptr, 0));
  say("retain", cuMemRetainAllocationHandle(nullptr, nullptr));
  say("async", cuMemAllocAsync(nullptr, kMiB, nullptr));
  say("pool", cuMemPoolCreate(nullptr, nullptr));
  say("info", cuMemGetInfo(nullptr, nullptr));
  say("info", cuMemGetInfo(&value, nullptr));
  say("info", cuMemGetInfo(nullptr, &value));
  say("total", cuDeviceTotalMem(nullptr, 0));
  say("context", cuCtxCreate(nullptr, nullptr, 0, 0));
  say("primary", cuDevicePrimaryCtxRetain(nullptr, 0));
  say("stream", cuStreamCreate(nullptr, 0));
  say("module", cuModuleLoadData(nullptr, nullptr));
  say("instantiate", cuGraphInstantiate(nullptr, nullptr, 0));
  say("green", cuGreenCtxCreate(nullptr, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  say("green stream", cuGreenCtxStreamCreate(nullptr, nullptr, CU_STREAM_NON_BLOCKING, 0));
  say("green destroy", cuGreenCtxDestroy(nullptr));
  say("import", cuImportExternalMemory(nullptr, nullptr));
  say("destroy", cuDestroyExternalMemory(nullptr));
  say("range",
      cuMemGetHandleForAddressRange(nullptr, 0, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
  say("open", cuIpcOpenMemHandle(nullptr, CUipcMemHandle{}, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

void sizes(std::initializer_list<std::size_t> all) {
  const CUmemAllocationProp prop = on_device(0);
  for (const std::size_t bytes : all) {
    CUdeviceptr block = 0x77;
    CUmemGenericAllocationHandle handle = 0x77;
    std::size_t pitch = 0;
    say("alloc", cuMemAlloc(&block, bytes));
    say("pitch", cuMemAllocPitch(&block, &pitch, bytes, 1, 4));
    say("pitch", cuMemAllocPitch(&block, &pitch, bytes, bytes, 16));
    say("pitch", cuMemAllocPitch(&block, &pitch, 1000, bytes, 16));
    say("create", cuMemCreate(&handle, bytes, &prop, 0));
    say("async", cuMemAllocAsync(&block, bytes, nullptr));
    const bool untouched = block == 0x77 && handle == 0x77;
    std::printf("untouched %d\n", untouched);
  }
}

void zero_sizes() {
  sizes({0});
  CUdeviceptr block = 0;
  say("managed", cuMemAllocManaged(&block, 0, CU_MEM_ATTACH_GLOBAL));
}
void huge_sizes() {
  sizes({std::size_t{1} << 40, std::size_t{1} << 62, std::size_t{1} << 63, SIZE_MAX,
         SIZE_MAX - (2 * kMiB - 1), SIZE_MAX / 2 * kMiB});
}

const std::map<std::string, std::function<void()>> hazards = {
    {"double_free", double_free},
    {"free_of_unknown", free_of_unknown},
    {"null_out_pointers", null_out_pointers},
    {"zero_sizes", zero_sizes},
    {"huge_sizes", huge_sizes},
};

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2 && hazards.count(arguments[1]) == 1);
  start();
  CUdeviceptr warm = 0;
  OK(cuMemAlloc(&warm, kKiB));
  const std::size_t before = left();
  hazards.at(arguments[1])();
  OK(cuCtxSynchronize());
  CHECK_IS(left(), before);
}
