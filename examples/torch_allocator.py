"""PyTorch with vram's pool in place of its own: all of its device memory, under VRAM_POOL_LIMIT."""
import ctypes

import torch

LIBRARY = "libvram.so.0"

# Before the first tensor on a GPU.
allocator = torch.cuda.memory.CUDAPluggableAllocator(LIBRARY, "vram_torch_alloc", "vram_torch_free")
torch.cuda.memory.change_current_allocator(allocator)

# What PyTorch may also ask of an allocator: a tensor used on another stream, empty_cache().
vram = ctypes.CDLL(LIBRARY)
hooks = allocator.allocator()
hooks.set_record_stream_fn(ctypes.cast(vram.vram_torch_record_stream, ctypes.c_void_p).value)
hooks.set_reset_fn(ctypes.cast(vram.vram_torch_reset, ctypes.c_void_p).value)

x = torch.randn(1024, 1024, device="cuda")
print((x @ x).sum().item())
