"""The host's memory: how much there is, and a first touch of it, which a fresh virtual machine is slow at."""
import concurrent.futures
import ctypes
import mmap
import os
import time

GIB = 1 << 30
# Touched at a time, so that little is held when the host runs short.
PIECE = 1 * GIB


def read(name):
    """A line of /proc/meminfo in bytes."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))


def touch(piece):
    address = ctypes.addressof(ctypes.c_char.from_buffer(piece))
    ctypes.memset(address, 1, len(piece))  # lets other threads run meanwhile
    return len(piece)


def warm(want):
    """Touches up to `want` bytes and lets them go; how many, and the seconds. Stops while some is left: such a machine
    may show more memory once what it shows is in use."""
    start = time.monotonic()
    pieces, touched = [], 0
    threads = min(16, os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        while touched < want and read("MemAvailable") > (threads + 6) * PIECE:
            some = []
            for _ in range(threads):
                piece = mmap.mmap(-1, PIECE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                if hasattr(mmap, "MADV_HUGEPAGE"):
                    piece.madvise(mmap.MADV_HUGEPAGE)
                some.append(piece)
            touched += sum(pool.map(touch, some))
            pieces += some
    del pieces[:]
    return touched, time.monotonic() - start


def text():
    return "host memory %.0f GiB, available %.0f GiB" % (read("MemTotal") / GIB, read("MemAvailable") / GIB)
