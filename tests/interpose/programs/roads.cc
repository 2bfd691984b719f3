// roads ROAD [LIBRARY]: finds the driver by one of the ways there are, and shows that what is found
// holds a limit of 4 GiB: of two requests for 3 GiB each, the second is out of memory.
#include <dlfcn.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "program.h"

namespace {

using Find = std::function<void*(const char*)>;

void* must(void* handle) {
  if (handle == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  CHECK(handle != nullptr);
  return handle;
}

Find in(void* handle) {
  must(handle);
  return [handle](const char* name) { return dlsym(handle, name); };
}

std::string beside_me(const char* library) {
  char path[4096] = "";
  CHECK(realpath("/proc/self/exe", path) != nullptr);
  *std::strrchr(path, '/') = '\0';
  return std::string(path) + "/" + library;
}

using OpenDriver = void* (*)(const char*, int);
OpenDriver opener(int flags) {
  void* const library = must(dlopen(beside_me("libopens_driver.so").c_str(), flags));
  return reinterpret_cast<OpenDriver>(must(dlsym(library, "open_driver")));
}

Find linked_by(int flags) {
  void* const library = must(dlopen(beside_me("libneeds_driver.so").c_str(), flags));
  return reinterpret_cast<void* (*)(const char*)>(must(dlsym(library, "symbol_of_driver")));
}

template <typename Function>
Function* as(void* address) {
  CHECK(address != nullptr);
  return reinterpret_cast<Function*>(address);
}

// The functions as cuGetProcAddress tells them, by the name without a version.
Find by_address(int version, cuuint64_t flags) {
  const Find find = in(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  const auto get =
      as<CUresult(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*)>(
          find("cuGetProcAddress_v2"));
  return [=](const char* name) {
    std::string plain = name;
    if (const std::size_t at = plain.find("_v"); at != std::string::npos) plain.resize(at);
    void* function = nullptr;
    OK(get(plain.c_str(), &function, version, flags, nullptr));
    return function;
  };
}

Find by_first_address(int version, cuuint64_t flags) {
  const Find find = in(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  const auto get = as<CUresult(const char*, void**, int, cuuint64_t)>(find("cuGetProcAddress"));
  return [=](const char* name) {
    std::string plain = name;
    if (const std::size_t at = plain.find("_v"); at != std::string::npos) plain.resize(at);
    void* function = nullptr;
    OK(get(plain.c_str(), &function, version, flags));
    return function;
  };
}

std::string library;  // an absolute path of the driver

const std::map<std::string, std::function<Find()>> roads = {
    {"soname", [] { return in(dlopen("libcuda.so.1", RTLD_NOW)); }},
    {"without_number", [] { return in(dlopen("libcuda.so", RTLD_LAZY)); }},
    {"absolute", [] { return in(dlopen(library.c_str(), RTLD_NOW)); }},
    {"local", [] { return in(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)); }},
    {"deepbind", [] { return in(dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND)); }},
    {"absolute_deepbind", [] { return in(dlopen(library.c_str(), RTLD_NOW | RTLD_DEEPBIND)); }},
    {"global_then_default",
     [] {
       must(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL));
       return in(dlopen(nullptr, RTLD_NOW));
     }},
    {"default",
     []() -> Find { return [](const char* name) { return dlsym(RTLD_DEFAULT, name); }; }},
    {"noload",
     [] {
       must(dlopen("libcuda.so.1", RTLD_NOW));
       return in(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
     }},
    {"absolute_noload",
     [] {
       must(dlopen("libcuda.so.1", RTLD_NOW));
       return in(dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD));
     }},
    {"closed_and_reopened",
     [] {
       dlclose(must(dlopen("libcuda.so.1", RTLD_NOW)));
       return in(dlopen("libcuda.so.1", RTLD_NOW));
     }},
    {"new_namespace", [] { return in(dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW)); }},
    {"absolute_new_namespace", [] { return in(dlmopen(LM_ID_NEWLM, library.c_str(), RTLD_NOW)); }},
    {"by_library", [] { return in(opener(RTLD_NOW)("libcuda.so.1", RTLD_NOW)); }},
    {"by_deep_library",
     [] { return in(opener(RTLD_NOW | RTLD_DEEPBIND)("libcuda.so.1", RTLD_NOW)); }},
    {"by_deep_library_absolute",
     [] { return in(opener(RTLD_NOW | RTLD_DEEPBIND)(library.c_str(), RTLD_NOW)); }},
    {"by_deep_library_absolute_deep",
     [] {
       return in(opener(RTLD_NOW | RTLD_DEEPBIND)(library.c_str(), RTLD_NOW | RTLD_DEEPBIND));
     }},
    {"needed_by_library", [] { return linked_by(RTLD_NOW | RTLD_LOCAL); }},
    {"needed_by_deep_library", [] { return linked_by(RTLD_NOW | RTLD_DEEPBIND); }},
    {"version",
     []() -> Find {
       void* const handle = must(dlopen("libcuda.so.1", RTLD_NOW));
       return [handle](const char* name) {
         void* const plain = dlsym(handle, name);
         void* const versioned = dlvsym(handle, name, "CUDA_1.0");
         CHECK(versioned == nullptr || versioned == plain);
         return versioned == nullptr ? plain : versioned;
       };
     }},
    {"proc_address", [] { return by_address(12000, CU_GET_PROC_ADDRESS_DEFAULT); }},
    {"proc_address_legacy", [] { return by_address(11020, CU_GET_PROC_ADDRESS_LEGACY_STREAM); }},
    {"proc_address_per_thread",
     [] { return by_address(13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM); }},
    {"first_proc_address", [] { return by_first_address(11030, CU_GET_PROC_ADDRESS_DEFAULT); }},
    {"variables_gone",
     [] {
       unsetenv("VRAM_JOB");
       unsetenv("LD_PRELOAD");
       unsetenv("VRAM_STATE_DIR");
       return in(dlopen("libcuda.so.1", RTLD_NOW));
     }},
    {"variables_changed",
     [] {
       setenv("VRAM_JOB", "/nowhere", 1);
       setenv("VRAM_ON_FAILURE", "allow", 1);
       setenv("LD_LIBRARY_PATH", "/nowhere", 1);
       return in(dlopen("libcuda.so.1", RTLD_NOW));
     }},
};

CUresult take(const Find& find, std::size_t bytes) {
  CUdeviceptr address = 0;
  return as<CUresult(CUdeviceptr*, std::size_t)>(find("cuMemAlloc_v2"))(&address, bytes);
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count >= 2 && roads.count(arguments[1]) == 1);
  if (count > 2) library = arguments[2];
  const Find find = roads.at(arguments[1])();
  CUcontext context = nullptr;
  OK(as<CUresult(unsigned)>(find("cuInit"))(0));
  OK(as<CUresult(CUcontext*, CUdevice)>(find("cuDevicePrimaryCtxRetain"))(&context, 0));
  OK(as<CUresult(CUcontext)>(find("cuCtxSetCurrent"))(context));
  OK(take(find, 3 * kGiB));
  CHECK_IS(take(find, 3 * kGiB), CUDA_ERROR_OUT_OF_MEMORY);
}
