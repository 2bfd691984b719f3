"""CuPy over libvram's pool: computes the same as without, is refused at the pool's limit, gives memory back."""
import ctypes

import fill
import vram_library

try:
    import cupy
except ImportError as error:
    fill.skip(str(error))

# What may stay with the pool when the arrays are gone: libraries keep their work space.
KEPT = 256 << 20


def work():
    a = cupy.arange(1 << 22, dtype=cupy.float32).reshape(2048, 2048) % 97
    with cupy.cuda.Stream(non_blocking=True) as stream:
        b = cupy.sort(a.ravel()[::-1])
        stream.synchronize()
    return [float(x).hex() for x in (a.sum(), b[::1000].sum(), cupy.linalg.norm(a))]


def main():
    plain = work()
    library = vram_library.load()
    library.vram_cupy_malloc.restype = ctypes.c_void_p
    library.vram_cupy_malloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.vram_cupy_free.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]

    def malloc(size, device):
        address = library.vram_cupy_malloc(cupy.cuda.get_current_stream().ptr, size, device)
        if not address and size:
            raise MemoryError(library.vram_last_error().decode())
        return address or 0

    def free(address, device):
        library.vram_cupy_free(cupy.cuda.get_current_stream().ptr, address, device)

    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(malloc, free).malloc)
    works = work() == plain
    limit = vram_library.info(library).limit
    held, refused, _ = fill.fill(lambda mib: cupy.ones(mib << 20, dtype=cupy.uint8), MemoryError)
    within = len(held) > 8 and vram_library.info(library).peak_reserved <= limit
    del held
    cupy.cuda.Device().synchronize()
    vram_library.trim(library)
    back = vram_library.info(library).reserved <= KEPT

    by_pointer = cupy.cuda.CFunctionAllocator(0, vram_library.function(library, "vram_cupy_malloc"),
                                              vram_library.function(library, "vram_cupy_free"), library)
    cupy.cuda.set_allocator(by_pointer.malloc)
    fill.report(refused=refused, works_after=works and within and back and work() == plain)


main()
