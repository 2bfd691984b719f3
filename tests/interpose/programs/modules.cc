// modules: a module's and a library's variables count while they are loaded. The limit is 1 GiB.
#include "card.h"

namespace {

constexpr char kTooLarge[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".global .align 4 .b8 table[629145600];\n"
    ".visible .entry nothing() { ret; }\n";
constexpr char kFits[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".global .align 4 .b8 table[104857600];\n"
    ".visible .entry nothing() { ret; }\n";

// A library comes onto the card when its first kernel is asked for, and goes when it is unloaded.
void libraries(std::size_t before) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  OK(cuLibraryLoadData(&library, kFits, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(cuLibraryGetKernel(&kernel, library, "nothing"));
  OK(cuKernelGetFunction(&function, kernel));
  CHECK(left() <= before - 100 * kMiB);
  OK(cuLibraryUnload(library));
  CHECK_IS(left(), before);
}

}  // namespace

int main() {
  start();
  const std::size_t before = left();
  const std::size_t held_before = held();
  for (int i = 0; i < 3; ++i) {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    OK(cuModuleLoadData(&module, kFits));
    OK(cuModuleGetFunction(&function, module, "nothing"));
    CHECK(left() <= before - 100 * kMiB);
    CHECK_IS(left() + held(), before + held_before);
    OK(cuModuleUnload(module));
    CHECK_IS(left(), before);
    CHECK_IS(cuModuleLoadData(&module, kTooLarge), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_IS(left(), before);
    CHECK_IS(held(), held_before);
    libraries(before);
  }
}
