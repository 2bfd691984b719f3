// A program of the runtime interface, linked with the static runtime: fills the card, is refused,
// lets go, computes.
#include <cstdio>
#include <vector>

__global__ void twice(int* p, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= 2;
}

static bool works() {
  const int n = 1 << 16;
  std::vector<int> host(n, 21);
  int* p = nullptr;
  if (cudaMalloc(&p, n * sizeof(int)) != cudaSuccess) return false;
  cudaMemcpy(p, host.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  twice<<<n / 256, 256>>>(p, n);
  cudaMemcpy(host.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(p);
  for (int value : host) {
    if (value != 42) return false;
  }
  return cudaGetLastError() == cudaSuccess;
}

int main() {
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, 0);
  bool good = works();
  std::vector<void*> held;
  cudaError_t last = cudaSuccess;
  for (int i = 0; i < 4096 && last == cudaSuccess; ++i) {
    void* p = nullptr;
    last = cudaMalloc(&p, 64 << 20);
    if (last == cudaSuccess) held.push_back(p);
  }
  cudaGetLastError();
  for (void* p : held) cudaFree(p);
  good = good && works();
  std::printf("{\"total\": %zu, \"refused\": %s, \"works_after\": %s}\n", properties.totalGlobalMem,
              last == cudaErrorMemoryAllocation ? "true" : "false", good ? "true" : "false");
}
