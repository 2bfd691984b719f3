"""The driver's own calls: holds GIB of cuMemAlloc and cuMemCreate memory. Needs no framework, so it also runs on the
simulated GPU; bytes are compared on the host, which takes longer than on a card.

usage: driver_hold.py GIB
"""
import ctypes
import hashlib
import random
import sys

import hold

PIECE = 8 << 20


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    """CUmemAllocationProp"""
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", Location), ("win32", ctypes.c_void_p),
                ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    """CUmemAccessDesc"""
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


PINNED, DEVICE, READ_WRITE = 1, 1, 3


class Memory:
    def __init__(self, gib):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        count = max(2, int(gib * (1 << 30)) // (16 * PIECE))
        self.size = int(gib * (1 << 30)) // count // PIECE * PIECE
        self.blocks = [self.take_virtual() if number % 2 else self.take() for number in range(count)]
        self.bytes = self.size * count
        self.base = random.Random(1).randbytes(2 * PIECE)
        self.seen = ctypes.create_string_buffer(PIECE)
        self.seed = 0

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result != 0:
            raise RuntimeError("%s: %d" % (name, result))

    def take(self):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(self.size))
        return address

    def take_virtual(self):
        address, handle, size = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_size_t(self.size)
        properties = Properties(type=PINNED, location=Location(DEVICE, 0))
        access = Access(location=Location(DEVICE, 0), flags=READ_WRITE)
        self.call("cuMemAddressReserve", ctypes.byref(address), size, ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        self.call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(properties), ctypes.c_uint64(0))
        self.call("cuMemMap", address, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        self.call("cuMemRelease", handle)
        self.call("cuMemSetAccess", address, size, ctypes.byref(access), ctypes.c_size_t(1))
        return address

    def pieces(self):
        """Address and offset in the pattern of each piece."""
        for number, block in enumerate(self.blocks):
            for at in range(0, self.size, PIECE):
                yield ctypes.c_uint64(block.value + at), (self.seed * 7919 + number * 1009 + at // PIECE * 64) % PIECE

    def fill(self, seed):
        self.seed = seed
        for address, offset in self.pieces():
            self.call("cuMemcpyHtoD_v2", address, self.base[offset:offset + PIECE], ctypes.c_size_t(PIECE))

    def read(self):
        for address, offset in self.pieces():
            self.call("cuMemcpyDtoH_v2", self.seen, address, ctypes.c_size_t(PIECE))
            yield self.seen.raw, offset

    def checksum(self):
        digest = hashlib.blake2b(digest_size=8)
        for seen, _ in self.read():
            digest.update(seen)
        return digest.hexdigest()

    def exact(self):
        return all([seen == self.base[offset:offset + PIECE] for seen, offset in self.read()])

    def pointers(self):
        return [block.value for block in self.blocks]

    def touch(self):
        self.call("cuMemcpyDtoH_v2", self.seen, self.blocks[0], ctypes.c_size_t(8))

    def churn(self):
        self.call("cuMemFree_v2", self.blocks[0])
        self.blocks[0] = self.take()
        self.fill(self.seed)


if __name__ == "__main__":
    hold.serve(Memory(float(sys.argv[1])))
