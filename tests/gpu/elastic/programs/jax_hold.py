"""JAX: holds GIB of arrays, by whichever allocator XLA_PYTHON_CLIENT_ALLOCATOR names.

usage: jax_hold.py GIB
"""
import functools
import sys

import hold

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    hold.skip(str(error))

ODD = 0x9E3779B1


def words_of(words, start):
    x = (jnp.arange(words, dtype=jnp.uint32) + start) * jnp.uint32(ODD)
    return x ^ (x >> 15)


pattern = functools.partial(jax.jit, static_argnums=0)(words_of)


@jax.jit
def weighed(x):
    return jnp.sum(x * (jnp.arange(x.size, dtype=jnp.uint32) * 2 + 1), dtype=jnp.uint32)


@jax.jit
def is_pattern(x, start):
    return jnp.all(x == words_of(x.size, start))


class Memory:
    def __init__(self, gib):
        # Few sizes: every one is compiled.
        self.sizes = [256 << 20 >> 2] * max(1, int(gib * 4) - 1) + [65536] * 200 + [1000] * 100
        self.bytes = sum(self.sizes) * 4
        self.blocks = []
        self.seed = 0

    def start(self, number):
        return jnp.uint32((self.seed * 7919 + number * 1000003) % (1 << 32))

    def fill(self, seed):
        self.seed = seed
        for number, words in enumerate(self.sizes):
            if number < len(self.blocks):
                self.blocks[number] = None
                self.blocks[number] = pattern(words, self.start(number))
            else:
                self.blocks.append(pattern(words, self.start(number)))
        jax.block_until_ready(self.blocks)

    def checksum(self):
        total = 0
        for block in self.blocks:
            total = (total * 31 + int(weighed(block))) % (1 << 64)
        return "%016x" % total

    def exact(self):
        return all([bool(is_pattern(block, self.start(number))) for number, block in enumerate(self.blocks)])

    def pointers(self):
        return [block.unsafe_buffer_pointer() for block in self.blocks]

    def touch(self):
        return int(self.blocks[0][0])

    def churn(self):
        self.blocks[0] = None
        self.blocks[0] = pattern(self.sizes[0], self.start(0)).block_until_ready()


if __name__ == "__main__":
    if jax.devices()[0].platform != "gpu":
        hold.skip("JAX sees no GPU")
    hold.serve(Memory(float(sys.argv[1])))
