"""PyTorch over libvram's pool, in place of its own (`whole`) or for a MemPool (`pool`): trains to the same bits as
without, is refused at the pool's limit, gives memory back.

VRAM_POOL_LIMIT: a whole number of GiB. Mode `plain` only trains, and prints what came of it.
"""
import json
import os
import subprocess
import sys

import fill
import vram_library

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
try:
    import torch
except ImportError as error:
    fill.skip(str(error))

# What may stay with the pool when the tensors are gone: cuBLAS keeps its work space.
KEPT = 256 << 20


def train():
    """Sums of the weights after some steps, exactly."""
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    side = torch.cuda.Stream()
    for step in range(30):
        data = torch.randn(64 + step, 256).cuda()
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.default_stream())
            doubled = data * 2
            data.record_stream(side)
        torch.cuda.default_stream().wait_stream(side)
        doubled.record_stream(torch.cuda.default_stream())
        optimizer.zero_grad()
        net(doubled).square().mean().backward()
        optimizer.step()
    return [float(p.double().sum()).hex() for p in net.parameters()]


def take(mib):
    return torch.ones(mib << 20, dtype=torch.uint8, device="cuda")


def fills(refusal, library):
    limit = vram_library.info(library).limit
    held, refused, _ = fill.fill(take, refusal)
    same = all(int(t[-1]) == 1 for t in held)
    within = vram_library.info(library).peak_reserved <= limit
    return held, refused, same and within and len(held) > 8


def whole(library):
    allocator = torch.cuda.memory.CUDAPluggableAllocator(vram_library.PATH, "vram_torch_alloc", "vram_torch_free")
    torch.cuda.memory.change_current_allocator(allocator)
    hooks = allocator.allocator()
    hooks.set_record_stream_fn(vram_library.function(library, "vram_torch_record_stream"))
    hooks.set_reset_fn(vram_library.function(library, "vram_torch_reset"))
    weights = train()
    held, refused, fine = fills((RuntimeError, MemoryError), library)
    del held
    torch.cuda.synchronize()
    for _ in range(2):
        torch.cuda.empty_cache()
    fine = fine and vram_library.info(library).reserved <= KEPT
    return weights, refused, fine


def pool(library):
    allocator = torch.cuda.memory.CUDAPluggableAllocator(vram_library.PATH, "vram_torch_pool_alloc", "vram_torch_free")
    memory = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(memory):
        weights = train()
        held, refused, fine = fills(torch.OutOfMemoryError, library)
    del held
    del memory
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    vram_library.trim(library)
    fine = fine and vram_library.info(library).reserved <= KEPT
    return weights, refused, fine


def main():
    if sys.argv[1] == "plain":
        print(json.dumps(train()))
        return
    plain = subprocess.run([sys.executable, __file__, "plain"], capture_output=True, text=True, check=True)
    library = vram_library.load()
    weights, refused, fine = {"whole": whole, "pool": pool}[sys.argv[1]](library)
    same = weights == json.loads(plain.stdout.splitlines()[-1])
    fill.report(refused=refused, works_after=fine and same and train() == weights, same=same, fine=fine)


main()
