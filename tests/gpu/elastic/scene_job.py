"""The driver-API program of tests/elastic (scene) as a job of the same words as the other holding programs."""
import time

from job import Fault, Job

KINDS = ("block", "pitch", "async", "pool", "virtual", "alias", "scattered", "kept")


class SceneJob(Job):
    """It checks every byte, cuMemGetAddressRange and cuPointerGetAttributes of every block itself."""

    def __init__(self, vram, name, limit, scene, gib, env=None):
        super().__init__(vram, name, limit, [scene], env)
        self.bytes = int(gib * (1 << 30)) // len(KINDS) * len(KINDS)

    def said(self, command, seconds=240):
        self.tell(command)
        answer = self.line(seconds)
        if answer is None:
            raise Fault("no answer to '%s' in %.0f s" % (command, seconds))
        if not answer.startswith("ok"):
            raise Fault("%s: %s" % (command, answer))
        return answer[3:]

    def hear(self, seconds=240):
        self.said("begin")
        for kind in KINDS:
            self.said("take %s %s %d" % (kind, kind, self.bytes // len(KINDS)))
        self.said("many small 400 512")
        self.said("many odd 100 70001")
        return {"ready": True, "bytes": self.bytes, "checksum": "", "exact": True, "pointers": []}

    def ask(self, command, seconds=240):
        start = time.monotonic()
        if command == "touch":
            self.said("fill block", seconds)  # what it writes, it finds afterwards
            return {"seconds": time.monotonic() - start}
        self.said("check", seconds)
        return {"checksum": "", "exact": True, "pointers": []}
