// race LIMIT PROCESSES THREADS MILLISECONDS FAMILIES: processes of one job take and give memory in
// many threads at once, near the limit. FAMILIES are letters:
//   s small blocks, b blocks, p pitch, a arrays, v virtual memory, o stream-ordered, q own pools,
//   g graphs, t streams, c contexts
// A watcher sums up what the card's books say. Not one sample is over the limit; when all is quiet,
// what is left can be had; in the end all is back.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "card.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Worker {
  CUcontext context;
  std::string families;
  Clock::time_point end;
};

struct Held {
  std::vector<CUdeviceptr> blocks;
  std::vector<CUdeviceptr> ordered;
  std::vector<CUdeviceptr> pooled;
  std::vector<CUarray> arrays;
  std::vector<CUmemGenericAllocationHandle> handles;
  std::vector<std::pair<CUdeviceptr, std::size_t>> mapped;
  std::vector<CUstream> streams;
  std::vector<CUcontext> contexts;
  CUmemoryPool pool = nullptr;
};

std::atomic<long> granted{0};
std::atomic<long> refused{0};

// A busy host may give a second of which nothing comes: a race goes on until the limit was met this
// often, which is long enough for the watcher to see it, but not for ever.
constexpr long kEnoughRefusals = 50;
constexpr auto kLongest = std::chrono::seconds(20);

bool goes_on(Clock::time_point end) {
  const Clock::time_point now = Clock::now();
  return now < end || (refused < kEnoughRefusals && now < end + kLongest);
}

// The only two answers there may be. True: granted.
bool had(CUresult result) {
  if (result != CUDA_SUCCESS) CHECK_IS(result, CUDA_ERROR_OUT_OF_MEMORY);
  (result == CUDA_SUCCESS ? granted : refused).fetch_add(1, std::memory_order_relaxed);
  return result == CUDA_SUCCESS;
}

void take_virtual(Held* held, std::size_t bytes) {
  const CUmemAllocationProp prop = on_device(0);
  CUmemGenericAllocationHandle handle = 0;
  if (!had(cuMemCreate(&handle, bytes, &prop, 0))) return;
  if (bytes % (4 * kMiB) == 0) {
    held->handles.push_back(handle);
    return;
  }
  CUdeviceptr at = 0;
  OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
  OK(cuMemMap(at, bytes, 0, handle, 0));
  OK(cuMemRelease(handle));
  held->mapped.push_back({at, bytes});
}

void launch_graph(std::size_t bytes) {
  CUgraph graph = graph_that_takes(bytes);
  CUgraphExec exec = nullptr;
  if (had(cuGraphInstantiate(&exec, graph, 0))) {
    (void)had(cuGraphLaunch(exec, CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    OK(cuGraphExecDestroy(exec));
  }
  OK(cuGraphDestroy(graph));
}

void take_one(const Worker& worker, Held* held, std::mt19937_64* random_bits) {
  const char family = worker.families[(*random_bits)() % worker.families.size()];
  const std::size_t pieces = 1 + (*random_bits)() % 20;
  CUdeviceptr block = 0;
  switch (family) {
    case 's':
      if (had(cuMemAlloc(&block, 1 + (*random_bits)() % kMiB))) held->blocks.push_back(block);
      return;
    case 'b':
      if (had(cuMemAlloc(&block, pieces * 3 * kMiB))) held->blocks.push_back(block);
      return;
    case 'p': {
      std::size_t pitch = 0;
      if (had(cuMemAllocPitch(&block, &pitch, 2000, pieces * 600, 4)))
        held->blocks.push_back(block);
      return;
    }
    case 'a': {
      const CUDA_ARRAY_DESCRIPTOR d = {1000, pieces * 100, CU_AD_FORMAT_FLOAT, 1};
      CUarray array = nullptr;
      if (had(cuArrayCreate(&array, &d))) held->arrays.push_back(array);
      return;
    }
    case 'v':
      return take_virtual(held, pieces * 2 * kMiB);
    case 'o':
      if (had(cuMemAllocAsync(&block, pieces * 3 * kMiB, CU_STREAM_PER_THREAD))) {
        held->ordered.push_back(block);
      }
      return;
    case 'q':
      if (held->pool == nullptr) {
        const CUmemPoolProps props = pool_on_device(0);
        if (!had(cuMemPoolCreate(&held->pool, &props))) held->pool = nullptr;
        if (held->pool == nullptr) return;
      }
      if (had(cuMemAllocFromPoolAsync(&block, pieces * 3 * kMiB, held->pool,
                                      CU_STREAM_PER_THREAD))) {
        held->pooled.push_back(block);
      }
      return;
    case 'g':
      return launch_graph(pieces * 3 * kMiB);
    case 't': {
      CUstream stream = nullptr;
      if (had(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))) held->streams.push_back(stream);
      return;
    }
    case 'c': {
      CUcontext context = nullptr;
      if (!had(cuCtxCreate(&context, nullptr, 0, 0))) return;
      OK(cuCtxPopCurrent(&context));
      held->contexts.push_back(context);
      return;
    }
    default:
      CHECK(false);
  }
}

// Gives back one in `one_in` of what is held.
void give_some(Held* held, std::mt19937_64* random_bits, unsigned one_in) {
  const auto some = [&](auto* list, auto give) {
    for (std::size_t i = list->size(); i-- > 0;) {
      if ((*random_bits)() % one_in != 0) continue;
      give((*list)[i]);
      list->erase(list->begin() + static_cast<std::ptrdiff_t>(i));
    }
  };
  some(&held->blocks, [](CUdeviceptr block) { OK(cuMemFree(block)); });
  some(&held->arrays, [](CUarray array) { OK(cuArrayDestroy(array)); });
  some(&held->handles, [](CUmemGenericAllocationHandle handle) { OK(cuMemRelease(handle)); });
  some(&held->mapped, [](const std::pair<CUdeviceptr, std::size_t>& mapping) {
    OK(cuMemUnmap(mapping.first, mapping.second));
    OK(cuMemAddressFree(mapping.first, mapping.second));
  });
  const auto free_in_order = [](CUdeviceptr block) {
    OK(cuMemFreeAsync(block, CU_STREAM_PER_THREAD));
  };
  some(&held->ordered, free_in_order);
  some(&held->pooled, free_in_order);
  some(&held->streams, [](CUstream stream) { OK(cuStreamDestroy(stream)); });
  some(&held->contexts, [](CUcontext context) { OK(cuCtxDestroy(context)); });
  OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

void work(const Worker* worker, unsigned seed) {
  std::mt19937_64 random_bits(seed);
  Held held;
  OK(cuCtxSetCurrent(worker->context));
  while (goes_on(worker->end)) {
    for (int i = 0; i < 6; ++i) take_one(*worker, &held, &random_bits);
    give_some(&held, &random_bits, 3);
  }
  give_some(&held, &random_bits, 1);
  if (held.pool != nullptr) OK(cuMemPoolDestroy(held.pool));
}

std::size_t held_by_all() {
  static nvmlDevice_t device = [] {
    nvmlDevice_t found = nullptr;
    CHECK_IS(nvmlInit_v2(), NVML_SUCCESS);
    CHECK_IS(nvmlDeviceGetHandleByIndex_v2(0, &found), NVML_SUCCESS);
    return found;
  }();
  nvmlProcessInfo_t rows[256];
  unsigned count = 256;
  CHECK_IS(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, rows), NVML_SUCCESS);
  std::size_t sum = 0;
  for (unsigned i = 0; i < count; ++i) sum += rows[i].usedGpuMemory;
  return sum;
}

// What a process is charged for ahead: a slab for its small blocks, and where memory is elastic the
// tables of a pool.
std::size_t ahead() { return (std::getenv("VRAM_ELASTIC") != nullptr ? 10 : 2) * kMiB; }

// All is quiet: the account is what the card says, and what is charged ahead; and what is left can
// be had, whole.
void check_quiet(std::size_t limit, int processes) {
  const std::size_t charged = limit - left();
  const std::size_t held = held_by_all();
  if (charged < held || charged > held + static_cast<std::size_t>(processes) * ahead()) {
    std::fprintf(stderr, "charged %zu, held %zu\n", charged, held);
    std::exit(1);
  }
  CUdeviceptr block = 0;
  OK(cuMemAlloc(&block, left() / (2 * kMiB) * (2 * kMiB)));
  OK(cuMemFree(block));
}

void signal_and_wait(char byte) {
  CHECK_IS(write(STDOUT_FILENO, &byte, 1), 1);
  CHECK_IS(read(STDIN_FILENO, &byte, 1), 1);
}

int run_worker(std::size_t limit, int processes, int threads, int milliseconds,
               const std::string& families) {
  CUcontext const context = start();
  signal_and_wait('S');
  const Worker worker{context, families, Clock::now() + std::chrono::milliseconds(milliseconds)};
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) {
    pool.emplace_back(work, &worker, static_cast<unsigned>(getpid() * 1000 + i));
  }
  for (std::thread& thread : pool) thread.join();
  OK(cuCtxSynchronize());
  OK(cuDeviceGraphMemTrim(0));
  CHECK(granted > 0 && refused > 0);
  signal_and_wait('F');
  check_quiet(limit, processes);
  signal_and_wait('Q');
  return 0;
}

struct Child {
  pid_t pid;
  int to;
  int from;
};

Child spawn(char** arguments) {
  int to[2] = {};
  int from[2] = {};
  CHECK_IS(pipe2(to, O_CLOEXEC), 0);
  CHECK_IS(pipe2(from, O_CLOEXEC), 0);
  char worker[] = "worker";
  char* const line[] = {arguments[0], arguments[1], arguments[2], arguments[3],
                        arguments[4], arguments[5], worker,       nullptr};
  const pid_t pid = vfork();
  if (pid == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execv("/proc/self/exe", line);
    _exit(9);
  }
  close(to[0]);
  close(from[1]);
  return {pid, to[1], from[0]};
}

struct Watch {
  std::size_t limit;
  std::atomic<bool> done{false};
  std::size_t most = 0;
  long samples = 0;
};

void watch(Watch* state) {
  while (!state->done) {
    const std::size_t held = held_by_all();
    ++state->samples;
    if (held > state->most) state->most = held;
  }
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count >= 6);
  Watch state;
  state.limit = std::strtoull(arguments[1], nullptr, 10);
  const int processes = std::atoi(arguments[2]);
  if (count > 6) {
    return run_worker(state.limit, processes, std::atoi(arguments[3]), std::atoi(arguments[4]),
                      arguments[5]);
  }
  std::thread watcher(watch, &state);
  std::vector<Child> children;
  for (int i = 0; i < processes; ++i) children.push_back(spawn(arguments));
  char byte = 0;
  for (const Child& child : children) CHECK_IS(read(child.from, &byte, 1), 1);
  for (const Child& child : children) CHECK_IS(write(child.to, "S", 1), 1);
  for (const Child& child : children) CHECK_IS(read(child.from, &byte, 1), 1);
  for (const Child& child : children) {
    CHECK_IS(write(child.to, "Q", 1), 1);
    CHECK_IS(read(child.from, &byte, 1), 1);
  }
  for (const Child& child : children) {
    int status = 0;
    CHECK_IS(write(child.to, "E", 1), 1);
    CHECK_IS(waitpid(child.pid, &status, 0), child.pid);
    CHECK_IS(status, 0);
  }
  state.done = true;
  watcher.join();
  std::printf("%ld samples, at most %zu of %zu\n", state.samples, state.most, state.limit);
  CHECK(state.most <= state.limit);
  // Room enough was used for the limit to matter.
  CHECK(state.most > state.limit / 10 * 8);
  start();
  CHECK_IS(left() + held() + ahead() - 2 * kMiB, state.limit);
}
