"""The scene under `vram run --elastic`: tests tell it what to do with device memory, and park it meanwhile."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))

# pylint: disable=wrong-import-position
from command import BUILD, VRAM, CommandTest, main  # noqa: F401, main is the tests'

SCENE = os.path.join(BUILD, "tests", "elastic", "scene")
TAKE_PART = os.path.join(BUILD, "tests", "elastic", "take_part")
CARD = "1x4GiB"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
# Whatever is asked of a process has come to its end by then, on a loaded machine too.
PATIENCE = 60
# Everything that can be parked, a block of each; sizes that are no whole pages among them.
KINDS = {"block": 5 * MIB + 512, "pitch": 3 * MIB, "async": 7 * MIB, "pool": 2 * MIB + 256, "virtual": 4 * MIB, "alias": 6 * MIB,
         "scattered": 16 * MIB, "kept": 2 * MIB}


class Ended(Exception):
    """The scene is no longer there."""


class Scene:
    """One process. `tell` sends a command, `hear` waits for its answer, `ask` does both."""

    def __init__(self, process):
        self.process = process
        self.unread = b""

    def tell(self, command):
        try:
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise Ended(command) from error

    def hear(self, patience=PATIENCE):
        deadline = time.monotonic() + patience
        while b"\n" not in self.unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise TimeoutError(f"no answer in {patience} s")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise Ended("no answer any more")
            self.unread += more
        line, self.unread = self.unread.split(b"\n", 1)
        return line.decode().strip()

    def ask(self, command, patience=PATIENCE):
        self.tell(command)
        return self.hear(patience)

    def is_silent_for(self, seconds):
        return b"\n" not in self.unread and not select.select([self.process.stdout], [], [], seconds)[0]


class ElasticTest(CommandTest):
    card = CARD

    def scene(self, *options, name="job", begin=True, environment=None):
        """A scene as a job of that name; with a context unless told otherwise."""
        process = subprocess.Popen(
            [VRAM, "run", "-q", "--elastic", "--name", name, "--sim", self.card, *options, "--", SCENE],
            env={**self.environment, **(environment or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True)
        self.addCleanup(self.finish, process)
        scene = Scene(process)
        if begin:
            self.tell(scene, "begin")
        return scene

    @staticmethod
    def finish(process):
        try:  # with the scene that it started
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait(timeout=PATIENCE)
        for pipe in (process.stdin, process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def tell(self, scene, *commands):
        """Each is answered by ok; what the last one said besides."""
        said = ""
        for command in commands:
            said = scene.ask(command)
            self.assertTrue(said.startswith("ok"), f"{command}: {said}")
        return said[3:]

    def take_every_kind(self, scene):
        for kind, size in KINDS.items():
            self.tell(scene, f"take {kind} {kind} {size}")
        self.tell(scene, "many small 300 512", "many odd 20 70001")

    def process_of(self, name="job"):
        """The one process of the job as `vram ps` shows it."""
        process, = self.processes_of(name)
        return process

    def processes_of(self, name="job"):
        job, = (job for job in self.jobs() if job["name"] == name)
        return [process for device in job["devices"] for process in device["processes"]]

    def held(self):
        """Bytes of the card that are taken, by its own books."""
        return self.json("devices", "--sim", self.card)["devices"][0]["used"]

    def move(self, verb, name="job", timeout="50s"):
        """`vram park` or `vram unpark`; what came of each process."""
        result = self.vram(verb, name, "--timeout", timeout, "--json")
        return [process for job in json.loads(result.stdout)["jobs"] for process in job["processes"]]

    def park(self, name="job"):
        told, = self.move("park", name)
        self.assertEqual((told["outcome"], told["place"]), ("parked", "parked"), told)
        return told

    def unpark(self, name="job"):
        told, = self.move("unpark", name)
        self.assertEqual((told["outcome"], told["place"]), ("restored", "card"), told)
        return told

    def take_part(self, size, name="job"):
        """Asks the one process of the job to park so many bytes, as the daemon does; its refusal (wire::Refusal), 0: none."""
        job, = (job for job in self.jobs() if job["name"] == name)
        path = os.path.join(self.state, job["id"] + ".job")
        asked = subprocess.run([TAKE_PART, path, str(size)], stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
        return int(asked.stdout)

    def assert_nothing_left(self):
        """No job, no file of one, nothing on the card: waited for, since the dead are reaped when somebody looks."""
        self.wait_for(lambda: not self.jobs(), "the end of the jobs")
        self.assertEqual(self.job_files(), [])
        self.assertEqual(self.held(), 0)
        ours = os.path.basename(self.folder)
        self.assertEqual([file for file in os.listdir("/dev/shm") if ours in file],
                         [f"vram-sim-{os.geteuid()}-{ours}"], "the simulated machine itself, and nothing else")


def option(name, value):
    """The number after an option of a test's own, which goes from the command line; `value` when it is not there."""
    if name in sys.argv:
        at = sys.argv.index(name)
        value = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    return value


def seeded(seed):
    """Random choices that a failed test names, so that they can be made again."""
    return random.Random(seed)
