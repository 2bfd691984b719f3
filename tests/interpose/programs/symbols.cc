// symbols LIST: says for every name in the file LIST which function the ways of looking up lead to.
// A governed function's own name is that of the function it stands for, so the text is the same
// with and without vram.
#include <dlfcn.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "program.h"

namespace {

const char* name_of(void* function) {
  Dl_info info{};
  if (function == nullptr) return "none";
  return dladdr(function, &info) != 0 && info.dli_sname != nullptr ? info.dli_sname : "unnamed";
}

std::string plain(std::string name) {
  for (const char* end : {"_ptsz", "_ptds"}) {
    const std::size_t at = name.rfind(end);
    if (at != std::string::npos && at + 5 == name.size()) name.resize(at);
  }
  if (name.size() > 3 && name[name.size() - 3] == '_' && name[name.size() - 2] == 'v') {
    name.resize(name.size() - 3);
  }
  return name;
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(driver != nullptr);
  const auto get =
      reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(driver, "cuGetProcAddress_v2"));
  CHECK(get != nullptr);
  std::ifstream list(arguments[1]);
  std::string name;
  while (list >> name) {
    std::printf("%s: %s", name.c_str(), name_of(dlsym(driver, name.c_str())));
    for (const int version : {2000, 3020, 7000, 11020, 11030, 12000, 12050, 13000, 20000}) {
      for (const cuuint64_t flags : {0, 1, 2}) {
        void* function = nullptr;
        CUdriverProcAddressQueryResult status{};
        const CUresult result = get(plain(name).c_str(), &function, version, flags, &status);
        std::printf(" %d/%d/%s", result, status, name_of(function));
      }
    }
    std::printf("\n");
  }
  std::printf("a name no driver has: %s\n", name_of(dlsym(driver, "cuNoSuchFunction")));
}
