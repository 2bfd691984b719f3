// scene: does what it is told, a line at a time, with device memory of every kind. Tests park it
// meanwhile. It is linked as anybody's program is and knows nothing of parking.
//
// Each command is answered by one line: "ok ...", or "no ..." with the driver's error or with what
// is wrong. At the end of its input it ends.
//
//   begin                    a context, current in this thread
//   take NAME KIND BYTES     blocks.h has the kinds; filled with a pattern of its own
//   many NAME COUNT BYTES    blocks of cuMemAlloc, NAME0 and on
//   fill NAME                with another pattern
//   give NAME | give all
//   keep                     what is freed of stream-ordered memory stays the default pool's
//   check                    every byte and every answer about every address
//   ids                      the driver's identity of every block
//   left                     what cuMemGetInfo says: free, total
//   work COUNT | rest        threads that launch, copy and allocate; told what they did
//   spin MS                  keeps the card at work
//   deep BYTES               a kernel whose threads use so much local memory each: its context
//   grows capture FROM TO          begins to capture a copy of one block to another of its size
//   captured                 ends that, and makes a graph of it
//   replay                   launches the graph: TO is what FROM was
//   export NAME | ipc NAME   through a descriptor, through an IPC handle
//   fork | join              a child that uses nothing of CUDA
//   arrays COUNT BYTES       as many as can be had, which nobody can move; how many those were
//   contexts COUNT           the same
//   own BYTES                a child that has begun nothing yet and uses the card itself; see join
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include "blocks.h"
#include "workers.h"

namespace {

using scene::Block;
using scene::name_of;

std::map<std::string, Block> blocks;
scene::Workers workers;
std::uint32_t next_seed = 1;
struct Recorded {
  CUstream stream = nullptr;
  CUgraphExec exec = nullptr;
  std::string to;
  std::uint32_t seed = 0;  // of the block that is copied
} recorded;
pid_t child = 0;
int to_child = -1;

// What a command came to: nothing wrong, and perhaps words for the answer.
struct Answer {
  std::string fault;
  std::string words;
};

Answer begin() {
  CUcontext context = nullptr;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, 0);
  if (result == CUDA_SUCCESS) result = cuCtxSetCurrent(context);
  return {name_of(result), ""};
}

std::string take_one(const std::string& name, const std::string& kind, std::size_t bytes) {
  Block block;
  std::string fault = scene::take(kind, bytes, &block);
  if (!fault.empty()) return fault;
  fault = scene::fill(&block, next_seed++);
  // Anew, once it is known to be filled: a name is one block's.
  blocks[name] = block;
  return fault;
}

Answer take(std::istream& words) {
  std::string name, kind;
  std::size_t bytes = 0;
  words >> name >> kind >> bytes;
  return {take_one(name, kind, bytes), ""};
}

Answer many(std::istream& words) {
  std::string name;
  int count = 0;
  std::size_t bytes = 0;
  words >> name >> count >> bytes;
  for (int i = 0; i < count; ++i) {
    const std::string fault = take_one(name + std::to_string(i), "block", bytes);
    if (!fault.empty()) return {fault, ""};
  }
  return {};
}

Answer fill(std::istream& words) {
  std::string name;
  words >> name;
  return {scene::fill(&blocks.at(name), next_seed++), ""};
}

Answer give(std::istream& words) {
  std::string name;
  words >> name;
  if (name != "all") {
    const std::string fault = scene::give_back(&blocks.at(name));
    if (fault.empty()) blocks.erase(name);
    return {fault, ""};
  }
  while (!blocks.empty()) {
    const std::string fault = scene::give_back(&blocks.begin()->second);
    if (!fault.empty()) return {blocks.begin()->first + " " + fault, ""};
    blocks.erase(blocks.begin());
  }
  return {};
}

Answer keep() {
  CUmemoryPool pool = nullptr;
  cuuint64_t everything = ~cuuint64_t{0};
  CUresult result = cuDeviceGetDefaultMemPool(&pool, 0);
  if (result == CUDA_SUCCESS) {
    result = cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything);
  }
  return {name_of(result), ""};
}

Answer check() {
  for (const auto& [name, block] : blocks) {
    const std::string fault = scene::check(block);
    if (!fault.empty()) return {name + " " + fault, ""};
  }
  return {"", std::to_string(blocks.size())};
}

Answer ids() {
  for (const auto& [name, block] : blocks) {
    const std::string fault = scene::check_id(block);
    if (!fault.empty()) return {name + " " + fault, ""};
  }
  return {};
}

Answer left() {
  std::size_t free = 0, total = 0;
  const std::string fault = name_of(cuMemGetInfo(&free, &total));
  return {fault, std::to_string(free) + " " + std::to_string(total)};
}

Answer work(std::istream& words) {
  int count = 0;
  words >> count;
  return {workers.start(count), ""};
}

Answer rest() {
  long rounds = 0;
  const std::string fault = workers.stop(&rounds);
  return {fault, std::to_string(rounds)};
}

Answer spin(std::istream& words) {
  unsigned milliseconds = 0;
  words >> milliseconds;
  return {scene::spin(milliseconds, nullptr), ""};
}

Answer deep(std::istream& words) {
  unsigned bytes = 0;
  words >> bytes;
  const std::string code =
      ".version 7.0\n.target sm_50\n.address_size 64\n"
      ".visible .entry deep()\n{\n  .local .align 8 .b8 own[" +
      std::to_string(bytes) +
      "];\n  .reg .b64 %rd<2>;\n  mov.u64 %rd1, 1;\n"
      "  st.local.u64 [own], %rd1;\n  ret;\n}\n";
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUresult result = cuModuleLoadData(&module, code.c_str());
  if (result == CUDA_SUCCESS) result = cuModuleGetFunction(&function, module, "deep");
  if (result == CUDA_SUCCESS) {
    result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  }
  if (result == CUDA_SUCCESS) result = cuCtxSynchronize();
  return {name_of(result), ""};
}

Answer capture(std::istream& words) {
  std::string from;
  words >> from >> recorded.to;
  const Block& source = blocks.at(from);
  CUresult result = CUDA_SUCCESS;
  if (recorded.stream == nullptr) {
    result = cuStreamCreate(&recorded.stream, CU_STREAM_NON_BLOCKING);
  }
  if (result == CUDA_SUCCESS) {
    result = cuStreamBeginCapture(recorded.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  }
  if (result == CUDA_SUCCESS) {
    result = cuMemcpyDtoDAsync(blocks.at(recorded.to).address, source.address, source.bytes,
                               recorded.stream);
  }
  recorded.seed = source.seed;
  return {name_of(result), ""};
}

Answer captured() {
  CUgraph graph = nullptr;
  CUresult result = cuStreamEndCapture(recorded.stream, &graph);
  if (result == CUDA_SUCCESS) result = cuGraphInstantiate(&recorded.exec, graph, 0);
  if (graph != nullptr) cuGraphDestroy(graph);
  return {name_of(result), ""};
}

Answer replay() {
  CUresult result = cuGraphLaunch(recorded.exec, recorded.stream);
  if (result == CUDA_SUCCESS) result = cuStreamSynchronize(recorded.stream);
  if (result == CUDA_SUCCESS) blocks.at(recorded.to).seed = recorded.seed;
  return {name_of(result), ""};
}

Answer export_one(std::istream& words) {
  std::string name;
  words >> name;
  const Block& block = blocks.at(name);
  if (block.handles.empty()) return {name + " has no handle", ""};
  int file = -1;
  return {name_of(cuMemExportToShareableHandle(&file, block.handles.front(),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)),
          ""};
}

Answer ipc(std::istream& words) {
  std::string name;
  words >> name;
  CUipcMemHandle handle = {};
  return {name_of(cuIpcGetMemHandle(&handle, blocks.at(name).address)), ""};
}

// How many of `count` calls succeeded before one was out of memory.
template <typename Call>
Answer as_many_as_can_be_had(std::istream& words, Call call) {
  int count = 0, had = 0;
  words >> count;
  CUresult result = CUDA_SUCCESS;
  while (had < count && (result = call(words)) == CUDA_SUCCESS) ++had;
  return {result == CUDA_ERROR_OUT_OF_MEMORY ? "" : name_of(result), std::to_string(had)};
}

Answer arrays(std::istream& words) {
  constexpr std::size_t kRow = 64 << 10;
  std::size_t bytes = 0;
  return as_many_as_can_be_had(words, [&](std::istream& more) {
    if (bytes == 0) more >> bytes;
    CUDA_ARRAY_DESCRIPTOR plane{};
    plane.Width = kRow / sizeof(float);
    plane.Height = bytes / kRow;
    plane.Format = CU_AD_FORMAT_FLOAT;
    plane.NumChannels = 1;
    CUarray array = nullptr;
    return cuArrayCreate(&array, &plane);
  });
}

Answer contexts(std::istream& words) {
  return as_many_as_can_be_had(words, [](std::istream&) {
    CUcontext context = nullptr;
    const CUresult result = cuCtxCreate(&context, nullptr, 0, 0);
    return result == CUDA_SUCCESS ? cuCtxPopCurrent(&context) : result;
  });
}

Answer fork_one() {
  child = fork();
  if (child == 0) {
    usleep(300'000);
    _exit(0);
  }
  return {"", std::to_string(child)};
}

// In the child: looks at a block of its own until its parent says that it is enough.
[[noreturn]] void live_alone(std::size_t bytes, int from_parent) {
  char ignored = 0;
  if (!begin().fault.empty() || !take_one("own", "block", bytes).empty()) _exit(3);
  if (write(STDERR_FILENO, "own is there\n", 13) < 0) _exit(4);
  if (read(from_parent, &ignored, 1) < 0) _exit(5);
  _exit(check().fault.empty() ? 0 : 6);
}

Answer own(std::istream& words) {
  std::size_t bytes = 0;
  words >> bytes;
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return {"no pipe", ""};
  child = fork();
  if (child == 0) {
    close(ends[1]);
    live_alone(bytes, ends[0]);
  }
  close(ends[0]);
  to_child = ends[1];
  return {"", std::to_string(child)};
}

Answer join() {
  if (to_child >= 0) close(to_child);
  to_child = -1;
  int status = -1;
  if (waitpid(child, &status, 0) != child) return {"there is no child", ""};
  return {status == 0 ? "" : "the child ended with " + std::to_string(status), ""};
}

using Command = std::function<Answer(std::istream&)>;

const std::map<std::string, Command>& commands() {
  const auto plain = [](Answer (*function)()) {
    return [function](std::istream&) { return function(); };
  };
  static const std::map<std::string, Command> all{{"begin", plain(begin)},
                                                  {"take", take},
                                                  {"many", many},
                                                  {"fill", fill},
                                                  {"give", give},
                                                  {"keep", plain(keep)},
                                                  {"check", plain(check)},
                                                  {"ids", plain(ids)},
                                                  {"left", plain(left)},
                                                  {"work", work},
                                                  {"rest", plain(rest)},
                                                  {"spin", spin},
                                                  {"deep", deep},
                                                  {"capture", capture},
                                                  {"captured", plain(captured)},
                                                  {"replay", plain(replay)},
                                                  {"export", export_one},
                                                  {"ipc", ipc},
                                                  {"arrays", arrays},
                                                  {"contexts", contexts},
                                                  {"fork", plain(fork_one)},
                                                  {"own", own},
                                                  {"join", plain(join)}};
  return all;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const auto command = commands().find(name);
    const Answer answer = command == commands().end() ? Answer{"unknown command " + name, ""}
                                                      : command->second(words);
    std::cout << (answer.fault.empty() ? "ok " + answer.words : "no " + answer.fault) << std::endl;
  }
  // As programs end that are told to: whatever is held goes with the process.
  return 0;
}
