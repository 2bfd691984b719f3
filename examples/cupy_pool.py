"""CuPy over vram's pool, under VRAM_POOL_LIMIT."""
import ctypes

import cupy

vram = ctypes.CDLL("libvram.so.0")
vram.vram_cupy_malloc.restype = ctypes.c_void_p
vram.vram_cupy_malloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
vram.vram_cupy_free.restype = None
vram.vram_cupy_free.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
vram.vram_last_error.restype = ctypes.c_char_p


def malloc(size, device):
    address = vram.vram_cupy_malloc(cupy.cuda.get_current_stream().ptr, size, device)
    if not address and size:
        raise MemoryError(vram.vram_last_error().decode())
    return address or 0


def free(address, device):
    vram.vram_cupy_free(cupy.cuda.get_current_stream().ptr, address, device)


cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(malloc, free).malloc)

print(float(cupy.ones(1 << 20, dtype=cupy.float32).sum()))
