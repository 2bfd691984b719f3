"""The card as NVML sees it from outside, for everything that runs real programs on it."""
import ctypes
import sys
import threading
import time

GIB = 1 << 30


def skip_all(reason):
    """The exit status that CTest takes for skipped, once the reason is told."""
    print("skipped: " + reason)
    return 77


class Card:
    """The first card as NVML sees it, outside any limit."""

    class Memory(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong),
                    ("reserved", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                    ("used", ctypes.c_ulonglong)]

    def __init__(self):
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            sys.exit(skip_all("there is no NVIDIA driver (libnvidia-ml.so.1 was not found)"))
        self.handle = ctypes.c_void_p()
        if self.nvml.nvmlInit_v2() != 0:
            sys.exit(skip_all("the NVIDIA driver does not answer"))
        assert self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)) == 0

    def total(self):
        return self._memory().total

    def used(self):
        return self._memory().used

    def free(self):
        memory = self._memory()
        return memory.total - memory.reserved - memory.used

    def _memory(self):
        memory = self.Memory(version=ctypes.sizeof(self.Memory) | 2 << 24)
        assert self.nvml.nvmlDeviceGetMemoryInfo_v2(self.handle, ctypes.byref(memory)) == 0
        return memory


class Witness(threading.Thread):
    """Notes the most that the card held while it ran."""

    def __init__(self, card):
        super().__init__(daemon=True)
        self.card, self.running, self.most, self.samples = card, True, 0, 0

    def run(self):
        while self.running:
            self.most = max(self.most, self.card.used())
            self.samples += 1
            time.sleep(0.002)

    def stop(self):
        self.running = False
        self.join()
        return self.most


def wait_until_empty(card, baseline):
    deadline = time.time() + 20
    while card.used() > baseline and time.time() < deadline:
        time.sleep(0.05)
