"""PyTorch with its own allocator, and vram's pool for what is made inside a block."""
import torch

allocator = torch.cuda.memory.CUDAPluggableAllocator("libvram.so.0", "vram_torch_pool_alloc", "vram_torch_free")
pool = torch.cuda.MemPool(allocator.allocator())

with torch.cuda.use_mem_pool(pool):
    cache = torch.zeros(256 << 20, dtype=torch.uint8, device="cuda")

print(cache.numel())
