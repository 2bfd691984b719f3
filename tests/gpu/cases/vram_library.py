"""libvram.so for the cases: where it is, and what a device's pool holds."""
import ctypes
import os

import fill

PATH = os.environ.get("VRAM_LIBRARY", "libvram.so.0")


class Info(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "limit", "in_use", "peak_in_use", "reserved", "peak_reserved", "largest_free", "live_blocks", "allocations",
        "failures", "largest_request")] + [("fragmentation", ctypes.c_double)]


def load():
    try:
        library = ctypes.CDLL(PATH)
    except OSError as error:
        fill.skip(str(error))
    library.vram_last_error.restype = ctypes.c_char_p
    library.vram_pool_get_info.argtypes = [ctypes.c_void_p, ctypes.POINTER(Info)]
    library.vram_pool_trim.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
    return library


def pool(library):
    handle = ctypes.c_void_p()
    assert library.vram_framework_pool(0, ctypes.byref(handle)) == 0, library.vram_last_error()
    return handle


def info(library):
    now = Info(size=ctypes.sizeof(Info))
    assert library.vram_pool_get_info(pool(library), ctypes.byref(now)) == 0, library.vram_last_error()
    return now


def trim(library):
    assert library.vram_pool_trim(pool(library), 0, None) == 0, library.vram_last_error()


def function(library, name):
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
