// What governing adds to a call, measured in one process: each kind of call is made through the
// function that a program is given and, in turns, through the driver's own, found in the driver's
// file behind vram's back. Prints both medians, and the median of what the given one took more than
// its neighbour in time, with the 95 % interval of that median, in nanoseconds. Run it under
// `vram run` on a card that nobody else uses; run bare, the two are the same function and what is
// added is the bias of the method. `driver_cost launches` leaves the allocations out. Figures from
// the simulated GPU say nothing about a real one.
//
// Each figure comes from kRounds pairs of batches, of which every other begins with the driver.

#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr int kRounds = 401;

const char kPtx[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry empty() { ret; }
)";

[[noreturn]] void fail(const char* what, const char* why) {
  std::fprintf(stderr, "driver_cost: %s: %s\n", what, why);
  std::exit(1);
}

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "?";
  cuGetErrorName(result, &name);
  fail(what, name);
}
#define CHECK(call) check((call), #call)

// The functions under test, once as a program gets them and once as the driver has them.
struct Api {
  decltype(&cuLaunchKernel) launch;
  decltype(&cuGraphLaunch) graph_launch;
  decltype(&cuMemAlloc) alloc;
  decltype(&cuMemFree) free;
  decltype(&cuMemAllocAsync) alloc_async;
  decltype(&cuMemFreeAsync) free_async;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuStreamSynchronize) synchronize;
  decltype(&cuMemGetInfo) get_info;
};

// The driver's own symbol table, from its file: what is in memory may lead elsewhere.
class DriverFile {
 public:
  DriverFile() {
    void* handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (handle == nullptr || dlinfo(handle, RTLD_DI_LINKMAP, &map_) != 0) {
      fail("libcuda.so.1", "cannot be opened");
    }
    const int fd = open(map_->l_name, O_RDONLY);
    struct stat st {};
    if (fd < 0 || fstat(fd, &st) != 0) fail(map_->l_name, "cannot be read");
    void* at = mmap(nullptr, static_cast<std::size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (at == MAP_FAILED) fail(map_->l_name, "cannot be mapped");
    base_ = static_cast<const char*>(at);
  }

  template <typename Function>
  void find(const char* name, Function* function) const {
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(base_);
    const auto* sections = reinterpret_cast<const Elf64_Shdr*>(base_ + header->e_shoff);
    for (int i = 0; i < header->e_shnum; ++i) {
      if (sections[i].sh_type != SHT_DYNSYM) continue;
      const auto* symbols = reinterpret_cast<const Elf64_Sym*>(base_ + sections[i].sh_offset);
      const char* names = base_ + sections[sections[i].sh_link].sh_offset;
      for (std::size_t s = 0; s < sections[i].sh_size / sizeof *symbols; ++s) {
        if (std::strcmp(names + symbols[s].st_name, name) != 0) continue;
        *function = reinterpret_cast<Function>(map_->l_addr + symbols[s].st_value);
        return;
      }
    }
    fail(name, "the driver's file does not have it");
  }

 private:
  link_map* map_ = nullptr;
  const char* base_ = nullptr;
};

Api drivers_own() {
  const DriverFile file;
  Api api{};
  file.find("cuLaunchKernel", &api.launch);
  file.find("cuGraphLaunch", &api.graph_launch);
  file.find("cuMemAlloc_v2", &api.alloc);
  file.find("cuMemFree_v2", &api.free);
  file.find("cuMemAllocAsync", &api.alloc_async);
  file.find("cuMemFreeAsync", &api.free_async);
  file.find("cuMemCreate", &api.create);
  file.find("cuMemRelease", &api.release);
  file.find("cuStreamSynchronize", &api.synchronize);
  file.find("cuMemGetInfo_v2", &api.get_info);
  return api;
}

// As a program linked with the driver has them.
Api linked() {
  return {cuLaunchKernel, cuGraphLaunch, cuMemAlloc,   cuMemFree,           cuMemAllocAsync,
          cuMemFreeAsync, cuMemCreate,   cuMemRelease, cuStreamSynchronize, cuMemGetInfo};
}

double batch_ns(int count, const std::function<void(const Api&)>& call, const Api& api) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) call(api);
  const std::chrono::duration<double, std::nano> took = Clock::now() - start;
  return took.count() / count;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class Report {
 public:
  Report(Api own, Api given) : own_(own), given_(given) {
    std::printf("%-24s %12s %12s %9s %20s %7s\n", "call", "driver, ns", "given, ns", "added",
                "95 % interval", "ratio");
  }

  // `settle` runs untimed after each batch, so that queues do not fill up.
  void row(
      const char* name, int count, const std::function<void(const Api&)>& call,
      const std::function<void()>& settle = [] {}) const {
    std::vector<double> own, given, added;
    for (int round = -4; round < kRounds; ++round) {
      double ns[2];  // given, own
      for (int turn = 0; turn < 2; ++turn) {
        const int is_own = (turn + round) % 2 == 0;
        ns[is_own] = batch_ns(count, call, is_own ? own_ : given_);
        settle();
      }
      if (round < 0) continue;
      given.push_back(ns[0]);
      own.push_back(ns[1]);
      added.push_back(ns[0] - ns[1]);
    }
    // The interval of a median lies between two order statistics, whatever the distribution.
    std::sort(added.begin(), added.end());
    const double half = 0.98 * std::sqrt(kRounds);
    const double low = added[static_cast<std::size_t>(kRounds / 2.0 - half)];
    const double high = added[static_cast<std::size_t>(kRounds / 2.0 + half)];
    const double a = median(own), b = median(given);
    std::printf("%-24s %12.1f %12.1f %+9.1f %+9.1f .. %+7.1f %7.3f\n", name, a, b,
                added[kRounds / 2], low, high, b / a);
    std::fflush(stdout);
  }

 private:
  Api own_, given_;
};

void launches(const Report& report, CUstream stream) {
  CUmodule module;
  CUfunction empty;
  CUgraph graph;
  CUgraphExec exec;
  CHECK(cuModuleLoadData(&module, kPtx));
  CHECK(cuModuleGetFunction(&empty, module, "empty"));
  const auto launch = [&](const Api& api) {
    api.launch(empty, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  };
  const auto settle = [&] { CHECK(cuStreamSynchronize(stream)); };
  report.row("launch", 200, launch, settle);
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  launch(linked());
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  report.row(
      "graph launch", 200, [&](const Api& api) { api.graph_launch(exec, stream); }, settle);
}

void allocations(const Report& report, CUstream stream) {
  const auto settle = [&] { CHECK(cuStreamSynchronize(stream)); };
  const auto pair = [&](const char* name, std::size_t bytes, int count) {
    report.row(name, count, [=](const Api& api) {
      CUdeviceptr p;
      CHECK(api.alloc(&p, bytes));
      CHECK(api.free(p));
    });
  };
  const auto async = [&](const char* name, std::size_t bytes) {
    report.row(
        name, 100,
        [=](const Api& api) {
          CUdeviceptr p;
          CHECK(api.alloc_async(&p, bytes, stream));
          CHECK(api.free_async(p, stream));
        },
        settle);
  };
  CUdeviceptr keep;
  CUmemoryPool pool;
  cuuint64_t keep_all = ~0ull;
  CHECK(cuMemAlloc(&keep, 512));  // a slab is there: the cheapest allocation a driver knows
  std::vector<CUdeviceptr> taken;
  const auto take = [&](const Api& api) {
    CUdeviceptr p;
    CHECK(api.alloc(&p, 512));
    taken.push_back(p);
  };
  const auto take_async = [&](std::size_t bytes) {
    return [&, bytes](const Api& api) {
      CUdeviceptr p;
      CHECK(api.alloc_async(&p, bytes, stream));
      taken.push_back(p);
    };
  };
  const auto give_back = [&] {
    for (const CUdeviceptr p : taken) CHECK(cuMemFree(p));
    taken.clear();
  };
  const auto give_back_async = [&] {
    for (const CUdeviceptr p : taken) CHECK(cuMemFreeAsync(p, stream));
    taken.clear();
    CHECK(cuStreamSynchronize(stream));
  };
  report.row("alloc alone: 512 B", 50, take, give_back);
  pair("alloc, free: 512 B", 512, 50);
  pair("alloc, free: 2 MiB", 2 << 20, 10);
  CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all));
  report.row("async alloc alone: 1 MiB", 50, take_async(1 << 20), give_back_async);
  report.row("async alloc alone: 64 MiB", 20, take_async(64 << 20), give_back_async);
  async("async pair: 1 MiB", 1 << 20);
  async("async pair: 64 MiB", 64 << 20);
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  report.row("create, release: 2 MiB", 10, [&](const Api& api) {
    CUmemGenericAllocationHandle handle;
    CHECK(api.create(&handle, 2 << 20, &prop, 0));
    CHECK(api.release(handle));
  });
  std::size_t free, total;
  report.row("stream synchronize", 200, [&](const Api& api) { CHECK(api.synchronize(stream)); });
  report.row("mem get info", 50, [&](const Api& api) { CHECK(api.get_info(&free, &total)); });
  CHECK(cuMemFree(keep));
}

}  // namespace

int main(int count, char** arguments) {
  CUcontext context;
  CUstream stream;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const Report report(drivers_own(), linked());
  launches(report, stream);
  if (count == 1 || std::strcmp(arguments[1], "launches") != 0) allocations(report, stream);
  return 0;
}
