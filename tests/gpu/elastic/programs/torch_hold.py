"""PyTorch: holds GIB of tensors.

usage: torch_hold.py GIB
"""
import sys

import hold

try:
    import torch
except ImportError as error:
    hold.skip(str(error))

# Words that are computed at a time: what that needs besides is small.
CHUNK = 1 << 24
ODD = 0x2545F4914F6CDD1D


class Memory:
    def __init__(self, gib):
        self.index = torch.arange(CHUNK, dtype=torch.int64, device="cuda")
        self.weight = self.index * 2 + 1
        self.blocks = [torch.empty(words, dtype=torch.int64, device="cuda") for words in hold.sizes(gib, 8)]
        self.bytes = sum(block.numel() * 8 for block in self.blocks)
        self.seed = 0

    def chunks(self):
        for number, block in enumerate(self.blocks):
            for at in range(0, block.numel(), CHUNK):
                yield block[at:at + CHUNK], number * 1000003 + at

    def pattern(self, words, start):
        x = (self.index[:words] + start + self.seed * 7919).mul_(ODD)
        return x.bitwise_xor_(x >> 29)

    def fill(self, seed):
        self.seed = seed
        for chunk, start in self.chunks():
            chunk.copy_(self.pattern(chunk.numel(), start))
        torch.cuda.synchronize()

    def checksum(self):
        total = 0
        for chunk, _ in self.chunks():
            total = (total * 31 + int((chunk * self.weight[:chunk.numel()]).sum().item())) % (1 << 64)
        return "%016x" % total

    def exact(self):
        return all(torch.equal(chunk, self.pattern(chunk.numel(), start)) for chunk, start in self.chunks())

    def pointers(self):
        return [block.data_ptr() for block in self.blocks]

    def touch(self):
        return int(self.blocks[0][0].item())

    def churn(self):
        """The first block goes and comes back, perhaps elsewhere."""
        words = self.blocks[0].numel()
        self.blocks[0] = None
        torch.cuda.empty_cache()
        self.blocks[0] = torch.empty(words, dtype=torch.int64, device="cuda")
        self.fill(self.seed)


if __name__ == "__main__":
    hold.serve(Memory(float(sys.argv[1])))
