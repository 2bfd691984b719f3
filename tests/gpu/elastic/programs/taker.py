"""Takes memory of the card by the driver's own calls, writes all of it, and looks whether it stays written.

usage: taker.py BYTES [hold]     all that is free but 1 GiB when BYTES is 0; `hold`: until the end of its input
"""
import ctypes
import sys

import hold

GIB = 1 << 30
BYTE = 0xA5


def check(result, what):
    if result != 0:
        hold.say(fault="%s: %d" % (what, result))
        raise SystemExit(1)


def main():
    want = int(sys.argv[1])
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    if want == 0:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "cuMemGetInfo")
        want = max(0, free.value - GIB)
    taken = []
    while sum(size for _, size in taken) < want:
        size = min(GIB, want - sum(size for _, size in taken))
        block = ctypes.c_uint64()
        result = cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size))
        if result == 2:  # out of memory
            break
        check(result, "cuMemAlloc")
        check(cuda.cuMemsetD8_v2(block, ctypes.c_ubyte(BYTE), ctypes.c_size_t(size)), "cuMemsetD8")
        taken.append((block, size))
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    piece = (ctypes.c_ubyte * 4096)()
    fine = True
    for block, size in taken:
        length = min(4096, size)
        for at in (0, size - length):
            check(cuda.cuMemcpyDtoH_v2(piece, ctypes.c_uint64(block.value + at), ctypes.c_size_t(length)), "cuMemcpyDtoH")
            fine = fine and all(byte == BYTE for byte in bytes(piece)[:length])
    hold.say(ready=True, bytes=sum(size for _, size in taken), wanted=want, exact=fine)
    if "hold" in sys.argv[2:]:
        sys.stdin.read()


main()
