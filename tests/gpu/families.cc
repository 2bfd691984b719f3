// Every way to take device memory, by many threads of several processes at once, against one limit:
// fills, is refused, lets go. The witness outside says whether the limit held.
//
//   families [PROCESSES THREADS SECONDS]

#include <cuda.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <random>
#include <thread>
#include <vector>

namespace {

std::atomic<long> taken{0};
std::atomic<long> refused{0};
std::atomic<long> wrong{0};

struct Held {
  std::function<void()> free;
};

// True when something was taken.
bool note(CUresult result) {
  if (result == CUDA_SUCCESS) {
    ++taken;
    return true;
  }
  ++(result == CUDA_ERROR_OUT_OF_MEMORY ? refused : wrong);
  if (result != CUDA_ERROR_OUT_OF_MEMORY && wrong < 5) {
    const char* name = "?";
    cuGetErrorName(result, &name);
    std::fprintf(stderr, "families: unexpected %s\n", name);
  }
  return false;
}

bool take_block(std::size_t bytes, Held* held) {
  CUdeviceptr p;
  if (!note(cuMemAlloc(&p, bytes))) return false;
  held->free = [p] { cuMemFree(p); };
  return true;
}

bool take_pitch(std::size_t bytes, Held* held) {
  CUdeviceptr p;
  std::size_t pitch;
  if (!note(cuMemAllocPitch(&p, &pitch, 1000, bytes / 1024 + 1, 4))) return false;
  held->free = [p] { cuMemFree(p); };
  return true;
}

bool take_array(std::size_t bytes, Held* held) {
  CUarray array;
  CUDA_ARRAY_DESCRIPTOR d{1024, bytes / 4096 + 1, CU_AD_FORMAT_FLOAT, 1};
  if (!note(cuArrayCreate(&array, &d))) return false;
  held->free = [array] { cuArrayDestroy(array); };
  return true;
}

bool take_virtual(std::size_t bytes, Held* held) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const std::size_t size = (bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20);
  CUmemGenericAllocationHandle handle;
  if (!note(cuMemCreate(&handle, size, &prop, 0))) return false;
  CUdeviceptr at;
  cuMemAddressReserve(&at, size, 0, 0, 0);
  cuMemMap(at, size, 0, handle, 0);
  cuMemRelease(handle);
  held->free = [at, size] {
    cuMemUnmap(at, size);
    cuMemAddressFree(at, size);
  };
  return true;
}

bool take_async(std::size_t bytes, CUstream stream, Held* held) {
  CUdeviceptr p;
  if (!note(cuMemAllocAsync(&p, bytes, stream))) return false;
  held->free = [p, stream] { cuMemFreeAsync(p, stream); };
  return true;
}

void hammer(CUcontext context, unsigned seed, double seconds) {
  std::mt19937 random(seed);
  CUstream stream;
  cuCtxSetCurrent(context);
  if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return;
  std::vector<Held> held;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    Held one;
    const std::size_t bytes = 1 + random() % (random() % 4 == 0 ? 200u << 20 : 3u << 20);
    bool got = false;
    switch (random() % 5) {
      case 0:
        got = take_block(bytes, &one);
        break;
      case 1:
        got = take_pitch(bytes, &one);
        break;
      case 2:
        got = take_array(bytes, &one);
        break;
      case 3:
        got = take_virtual(bytes, &one);
        break;
      case 4:
        got = take_async(bytes, stream, &one);
        break;
    }
    if (got) held.push_back(std::move(one));
    while (!held.empty() && (held.size() > 64 || random() % 3 == 0)) {
      const std::size_t which = random() % held.size();
      held[which].free();
      held[which] = std::move(held.back());
      held.pop_back();
    }
    if (random() % 64 == 0) cuStreamSynchronize(stream);
  }
  for (Held& one : held) one.free();
  cuStreamSynchronize(stream);
  cuStreamDestroy(stream);
}

// All processes have their contexts before any of them fills the card.
int run_process(std::atomic<int>* arrived, int processes, int threads, double seconds,
                unsigned seed) {
  CUcontext context;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) return 3;
  ++*arrived;
  while (*arrived < processes) usleep(1000);
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back(hammer, context, seed * 1000 + i, seconds);
  for (std::thread& thread : all) thread.join();
  cuCtxSetCurrent(context);
  cuCtxSynchronize();
  CUdeviceptr p;
  const bool works = cuMemAlloc(&p, 1 << 20) == CUDA_SUCCESS && cuMemFree(p) == CUDA_SUCCESS;
  std::fprintf(stderr, "families: %ld taken, %ld refused, %ld wrong\n", taken.load(),
               refused.load(), wrong.load());
  return wrong == 0 && refused > 0 && works ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int processes = argc > 1 ? std::atoi(argv[1]) : 4;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 16;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 10;
  void* shared = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* arrived = new (shared) std::atomic<int>(0);
  for (int i = 0; i < processes; ++i) {
    if (fork() != 0) continue;
    _exit(run_process(arrived, processes, threads, seconds, static_cast<unsigned>(i + 1)));
  }
  bool good = true;
  for (int i = 0; i < processes; ++i) {
    int status = 0;
    wait(&status);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  std::printf("{\"refused\": true, \"works_after\": %s}\n", good ? "true" : "false");
  return 0;
}
