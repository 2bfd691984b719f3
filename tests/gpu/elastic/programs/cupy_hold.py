"""CuPy: holds GIB of arrays, of its default pool or of its stream-ordered one (`async`).

usage: cupy_hold.py GIB [async]
"""
import sys

import hold

try:
    import cupy
except ImportError as error:
    hold.skip(str(error))

SOURCE = r"""
__device__ unsigned long long word(unsigned long long i, unsigned long long start) {
  const unsigned long long x = (i + start) * 0x2545F4914F6CDD1Dull;
  return x ^ (x >> 29);
}
extern "C" __global__ void fill(unsigned long long* out, unsigned long long n, unsigned long long start) {
  for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
       i += (unsigned long long)blockDim.x * gridDim.x) out[i] = word(i, start);
}
extern "C" __global__ void look(const unsigned long long* in, unsigned long long n, unsigned long long start,
                                unsigned long long* seen) {
  unsigned long long wrong = 0, sum = 0;
  for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
       i += (unsigned long long)blockDim.x * gridDim.x) {
    wrong += in[i] != word(i, start);
    sum += in[i] * (2 * i + 1);
  }
  atomicAdd(seen, wrong);
  atomicAdd(seen + 1, sum);
}
"""
GRID = (1056,), (256,)


class Memory:
    def __init__(self, gib):
        module = cupy.RawModule(code=SOURCE)
        self.filler, self.looker = module.get_function("fill"), module.get_function("look")
        self.blocks = [cupy.empty(words, dtype=cupy.uint64) for words in hold.sizes(gib, 8)]
        self.seen = cupy.zeros(2, dtype=cupy.uint64)
        self.bytes = sum(block.nbytes for block in self.blocks)
        self.seed = 0

    def start(self, number):
        return cupy.uint64(number * 1000003 + self.seed * 7919)

    def fill(self, seed):
        self.seed = seed
        for number, block in enumerate(self.blocks):
            self.filler(*GRID, (block, cupy.uint64(block.size), self.start(number)))
        cupy.cuda.Device().synchronize()

    def look(self):
        """How many words are wrong, and the checksum."""
        wrong, total = 0, 0
        for number, block in enumerate(self.blocks):
            self.seen.fill(0)
            self.looker(*GRID, (block, cupy.uint64(block.size), self.start(number), self.seen))
            seen = self.seen.get()
            wrong += int(seen[0])
            total = (total * 31 + int(seen[1])) % (1 << 64)
        return wrong, "%016x" % total

    def checksum(self):
        return self.look()[1]

    def exact(self):
        return self.look()[0] == 0

    def pointers(self):
        return [block.data.ptr for block in self.blocks]

    def touch(self):
        return int(self.blocks[0][0])

    def churn(self):
        words = self.blocks[0].size
        self.blocks[0] = None
        cupy.get_default_memory_pool().free_all_blocks()
        self.blocks[0] = cupy.empty(words, dtype=cupy.uint64)
        self.fill(self.seed)


if __name__ == "__main__":
    if "async" in sys.argv[2:]:
        try:
            cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
        except RuntimeError as error:
            hold.skip(str(error))
    hold.serve(Memory(float(sys.argv[1])))
