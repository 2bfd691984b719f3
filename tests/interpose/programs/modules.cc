// modules: a module's variables count while it is loaded. The limit is 1 GiB.
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
  }
}
