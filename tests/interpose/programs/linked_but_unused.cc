// A program that is linked with the driver and does not call it, as with --help.
#include "program.h"

int main(int count, char**) {
  std::puts("usage: linked_but_unused");
  return count > 1 ? static_cast<int>(cuInit(0)) : 0;
}
