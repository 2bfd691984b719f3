"""The host's memory: how much there is, and a first touch of it, which a fresh virtual machine is slow at."""
import concurrent.futures
import ctypes
import mmap
import os
import time

GIB = 1 << 30
# Touched by a thread at a time.
PIECE = GIB // 4
# Left alone: the kernel's, and that of who asks.
KEPT = 6 * GIB


def read(name):
    """A line of /proc/meminfo in bytes."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))


def touch(piece):
    address = ctypes.addressof(ctypes.c_char.from_buffer(piece))
    ctypes.memset(address, 1, len(piece))  # lets other threads run meanwhile
    return len(piece)


def has_room(bytes_wanted):
    """Waits a little: such a machine may get more memory once what it shows is in use."""
    for _ in range(30):
        if read("MemAvailable") > bytes_wanted:
            return True
        time.sleep(0.1)
    return False


def warm(want):
    """Touches up to `want` bytes and lets them go; how many, and the seconds. Stops when the host has little left."""
    start = time.monotonic()
    pieces, touched = [], 0
    threads = min(16, os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        while touched < want and has_room(threads * PIECE + KEPT):
            some = []
            for _ in range(threads):
                piece = mmap.mmap(-1, PIECE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                if hasattr(mmap, "MADV_HUGEPAGE"):
                    piece.madvise(mmap.MADV_HUGEPAGE)
                some.append(piece)
            touched += sum(pool.map(touch, some))
            pieces += some
    seconds = time.monotonic() - start
    del pieces[:]
    return touched, seconds


def text():
    return "host memory %.0f GiB, available %.0f GiB" % (read("MemTotal") / GIB, read("MemAvailable") / GIB)
