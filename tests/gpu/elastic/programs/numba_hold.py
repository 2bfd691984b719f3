"""Numba: holds GIB of device arrays.

usage: numba_hold.py GIB
"""
import sys

import hold

try:
    import numpy as np
    if not hasattr(np, "row_stack"):  # Numba still asks for what NumPy 2.5 no longer has
        np.row_stack = np.vstack
    from numba import cuda
except (ImportError, AttributeError) as error:  # absent, or too old for the NumPy beside it
    hold.skip(str(error))

# Prime and below 2^31: sums of the pattern stay exact in 64 bits, with or without signs.
PRIME = 2147483647
THREADS = 256
BLOCKS = 528


@cuda.jit("void(int64[:], int64)")
def fill(out, start):
    i = cuda.grid(1)
    while i < out.size:
        out[i] = ((i + start) % PRIME) * 48271 % PRIME
        i += cuda.gridsize(1)


@cuda.jit("void(int64[:], int64, int64[:], int64[:])")
def look(block, start, wrong, total):
    at = cuda.grid(1)
    i = at
    bad = 0
    weighed = 0
    while i < block.size:
        if block[i] != ((i + start) % PRIME) * 48271 % PRIME:
            bad += 1
        weighed = (weighed * 31 + block[i]) % PRIME
        i += cuda.gridsize(1)
    wrong[at] = bad
    total[at] = weighed


class Memory:
    def __init__(self, gib):
        self.blocks = [cuda.device_array(words, dtype=np.int64) for words in hold.sizes(gib, 8)]
        self.wrong = cuda.device_array(THREADS * BLOCKS, dtype=np.int64)
        self.total = cuda.device_array(THREADS * BLOCKS, dtype=np.int64)
        self.bytes = sum(block.size * 8 for block in self.blocks)
        self.seed = 0

    def start(self, number):
        return number * 1000003 + self.seed * 7919

    def fill(self, seed):
        self.seed = seed
        for number, block in enumerate(self.blocks):
            fill[BLOCKS, THREADS](block, self.start(number))
        cuda.synchronize()

    def look(self):
        wrong, total = 0, 0
        for number, block in enumerate(self.blocks):
            look[BLOCKS, THREADS](block, self.start(number), self.wrong, self.total)
            wrong += int(self.wrong.copy_to_host().sum())
            total = (total * 31 + int(self.total.copy_to_host().sum())) % (1 << 64)
        return wrong, "%016x" % total

    def checksum(self):
        return self.look()[1]

    def exact(self):
        return self.look()[0] == 0

    def pointers(self):
        return [block.device_ctypes_pointer.value for block in self.blocks]

    def touch(self):
        return int(self.blocks[0][:1].copy_to_host()[0])

    def churn(self):
        words = self.blocks[0].size
        self.blocks[0] = None
        cuda.current_context().deallocations.clear()
        self.blocks[0] = cuda.device_array(words, dtype=np.int64)
        self.fill(self.seed)


if __name__ == "__main__":
    hold.serve(Memory(float(sys.argv[1])))
