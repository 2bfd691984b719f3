// Says every attribute of every card.
#include "program.h"

int main() {
  int devices = 0;
  OK(cuInit(0));
  OK(cuDeviceGetCount(&devices));
  for (int device = 0; device <= devices; ++device) {
    // Some more than there are.
    for (int attribute = 0; attribute < CU_DEVICE_ATTRIBUTE_MAX + 10; ++attribute) {
      int value = 0;
      const CUresult result =
          cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(attribute), device);
      std::printf("%d %d: %d %d\n", device, attribute, result, value);
    }
  }
  int value = 0;
  OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  CHECK_IS(value, 1);
}
