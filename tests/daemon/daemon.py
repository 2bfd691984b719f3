"""The daemon and the command together, on a card of 24 GiB that a test fills and empties through processes that play elastic
ones (tests/cli/fake_elastic.cc)."""

import os
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "cli"))

from command import BUILD, FAKE_NVML, VRAM, CommandTest, main  # noqa: E402  (after the path)

VRAMD = os.path.join(BUILD, "bin", "vramd")
FAKE = os.path.join(BUILD, "tests", "fake_elastic")
MIB = 1 << 20
GIB = 1 << 30
CARD_MIB = 24 * 1024

# src/wire/daemon_messages.h
MAGIC, VERSION = 0x646D7276, 2
ADMIT, ROOM, STATUS, PARK, UNPARK = 1, 2, 3, 4, 5
GRANTED, WAITS, LATER, NEVER, OTHER_VERSION = 1, 2, 3, 4, 5
REQUEST = struct.Struct("<IIIIQII16s64s")
REPLY = struct.Struct("<IIIIIIIIQQ16s16s16s384s")


def request(ask, *, magic=MAGIC, version=VERSION, flags=0, size=0, timeout_ms=0, uuid=bytes(16), job=b""):
    return REQUEST.pack(magic, version, ask, flags, size, timeout_ms, 0, uuid, job)


class Reply:
    def __init__(self, packet):
        fields = REPLY.unpack(packet)
        (self.magic, self.version, self.ask, self.verdict, self.more, self.left_ms, self.moved, self.failed, self.size,
         self.reserves) = fields[:10]
        self.job, self.waiting, self.text = (field.rstrip(b"\0").decode() for field in fields[11:])


class DaemonTest(CommandTest):
    def setUp(self):
        super().setUp()
        taken = os.path.join(self.folder, "taken")
        os.mkdir(taken)
        self.environment.update(FAKE_NVML_TAKEN=taken, LD_LIBRARY_PATH=FAKE_NVML)
        self.socket = os.path.join(self.state, "vramd.sock")
        self.log_path = os.path.join(self.folder, "vramd.log")

    def vramd(self, *arguments, environment=None, timeout=30):
        """Runs the daemon to its end; its CompletedProcess."""
        return subprocess.run([VRAMD, *arguments], env={**self.environment, **(environment or {})}, text=True,
                              capture_output=True, timeout=timeout, check=False)

    def start_daemon(self, *arguments, environment=None, **options):
        """Starts the daemon; returns when it listens."""
        ready = self.notify_socket()
        with open(self.log_path, "a", encoding="utf-8") as log:
            process = subprocess.Popen(
                [VRAMD, "--log-level", "debug", *arguments], stdout=log, stderr=log,
                env={**self.environment, "NOTIFY_SOCKET": ready.getsockname(), **(environment or {})}, **options)
        self.addCleanup(self.end, process)
        ready.settimeout(30)
        with ready:
            self.assertEqual(ready.recv(4096), b"READY=1", self.log())
        return process

    def notify_socket(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = os.path.join(self.folder, f"notify{time.monotonic_ns()}")
        notify.bind(path)
        os.chmod(path, 0o666)
        return notify

    def log(self):
        with open(self.log_path, encoding="utf-8") as log:
            return log.read()

    def policy(self, text):
        path = os.path.join(self.folder, "policy.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return "--policy", path

    def elastic(self, name, *script, run=(), wait=True, environment=None):
        """A job of one process that plays an elastic one; returns when it holds its memory."""
        ready = os.path.join(self.folder, name)
        process = self.start("run", "-q", "--elastic", "--name", name, *run, "--", FAKE, "--ready", ready, *script,
                             environment=environment)
        if wait:
            self.wait_for(lambda: os.path.exists(ready) or process.poll() is not None, f"the process of {name}")
            if process.poll() is not None:
                self.fail(f"{name}: {process.communicate()[1]}")
        return process

    def job(self, name):
        return next(job for job in self.jobs() if job["name"] == name)

    def place(self, name):
        process, = (process for device in self.job(name)["devices"] for process in device["processes"])
        return process["place"]

    def touch(self, name):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8"):
            pass

    def read(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def grow(self, name):
        """Has the job take what its --grow says; the daemon's verdict and the milliseconds it took."""
        self.touch(name + ".go")
        verdict, ms = self.wait_for(lambda: self.read(name + ".grown") or self.read(name + ".full"), f"{name} grown").split()
        return verdict, int(ms) if ms.isdigit() else ms

    def call(self, path=None):
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(line.close)
        line.connect(path or self.socket)
        line.settimeout(20)
        return line

    def ask(self, packet, path=None):
        line = self.call(path)
        line.send(packet)
        return Reply(line.recv(4096))

    def is_alive(self):
        """A daemon answers."""
        try:
            return self.ask(request(STATUS)).verdict == GRANTED
        except OSError:
            return False

    @staticmethod
    def kill(process):
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)


__all__ = ["ADMIT", "BUILD", "CARD_MIB", "DaemonTest", "FAKE", "GIB", "GRANTED", "LATER", "MIB", "NEVER", "OTHER_VERSION", "PARK",
           "ROOM", "Reply", "STATUS", "UNPARK", "VERSION", "VRAM", "VRAMD", "WAITS", "main", "request"]
