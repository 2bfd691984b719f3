"""Serving with continuous batching and a paged cache: requests come with long-tailed lengths, their cache grows by
blocks, and the blocks go when a request is done."""

import random

import common

BLOCK = 64  # tokens
LAYERS, HEADS, HEAD = 32, 8, 128
WIDTH = 4096
MOST_BLOCKS = 2400  # 8 MiB each
MOST_ACTIVE = 96


class Request:
    def __init__(self, lengths):
        self.length = min(8000, 16 + int(lengths.lognormvariate(6.2, 1.0)))
        self.left = 8 + min(1500, int(lengths.expovariate(1 / 180)))
        self.blocks = []

    def most_blocks(self):
        return (self.length + self.left) // BLOCK + 1


class Server:
    def __init__(self, torch):
        self.torch = torch
        self.lengths = random.Random(common.SEED)
        self.weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) * 0.01 for _ in range(4)]
        self.active = []

    def grow(self, request):
        while len(request.blocks) * BLOCK < request.length:
            request.blocks.append(self.torch.empty(2, LAYERS, BLOCK, HEADS, HEAD, device="cuda", dtype=self.torch.bfloat16))

    def layers(self, x):
        for weight in self.weights:
            x = self.torch.nn.functional.silu(x @ weight) + x
        return x

    def admit(self):
        """Takes a request when the cache has room for all that the active ones may come to need."""
        request = Request(self.lengths)
        promised = sum(other.most_blocks() for other in self.active)
        if len(self.active) >= MOST_ACTIVE or promised + request.most_blocks() > MOST_BLOCKS:
            return
        self.active.append(request)
        self.grow(request)
        self.layers(self.torch.randn(request.length, WIDTH, device="cuda", dtype=self.torch.bfloat16))

    def decode(self):
        """One token for every request; the attention of some is computed."""
        hidden = self.torch.randn(max(1, len(self.active)), WIDTH, device="cuda", dtype=self.torch.bfloat16)
        hidden = self.layers(hidden)
        for request in self.active[:3]:
            keys = self.torch.cat([block[0, 0] for block in request.blocks])
            query = hidden[0, :HEADS * HEAD].view(HEADS, HEAD)
            scores = self.torch.einsum("hd,thd->ht", query, keys)
            scores.softmax(dim=-1)
        for request in self.active:
            request.length += 1
            request.left -= 1
            self.grow(request)
        self.active = [request for request in self.active if request.left > 0]
        return hidden


def main():
    steps = common.Steps(common.arguments(steps=900))
    torch = common.seeded()
    server = Server(torch)
    with torch.no_grad():
        for step in steps:
            for _ in range(4 if step < 24 else server.lengths.choice((0, 0, 1, 1, 2))):
                server.admit()
            hidden = server.decode()
            if step % 32 == 31:
                torch.cuda.synchronize()
    steps.report("paged_kv", hidden.float().std().item())


if __name__ == "__main__":
    main()
