"""A program under `vram run --elastic` that speaks in lines of JSON, and the commands that move its memory."""
import json
import os
import select
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
PROGRAMS = os.path.join(HERE, "programs")
sys.path.insert(0, os.path.join(HERE, ".."))
# A framework starts slowly when nobody has read its files yet.
PATIENCE_S = 240


class Fault(Exception):
    """What went wrong, in words; the case has failed and the next one goes on."""


class Skipped(Exception):
    """Why a case cannot be run here."""


def python(name, *arguments):
    """The command line of one of programs/."""
    return [sys.executable, os.path.join(PROGRAMS, name), *map(str, arguments)]


class Program:
    """A process with a line of JSON for every answer. `governed` false: without vram."""

    def __init__(self, command, env=None, **popen):
        self.log = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.unread = b""
        self.process = subprocess.Popen(command, env={**os.environ, **(env or {})}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, start_new_session=True, **popen)

    def tell(self, command):
        try:
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise Fault("the program is gone: " + self.last_words()) from error

    def line(self, seconds):
        """The next line that it says, or None when it says none in that time."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self.unread:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                return None
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                raise Fault("the program ended: " + self.last_words())
            self.unread += more
        line, self.unread = self.unread.split(b"\n", 1)
        return line.decode(errors="replace")

    def poll(self, seconds=0.0):
        """The next row, past whatever a framework prints besides; None: none in that time."""
        deadline = time.monotonic() + seconds
        line = ""
        while line is not None and not line.startswith("{"):
            line = self.line(max(0.0, deadline - time.monotonic()))
        return None if line is None else json.loads(line)

    def hear(self, seconds=PATIENCE_S):
        row = self.poll(seconds)
        if row is None:
            raise Fault("no answer in %.0f s" % seconds)
        if "skip" in row:
            raise Skipped(row["skip"])
        return row

    def ask(self, command, seconds=PATIENCE_S):
        self.tell(command)
        return self.hear(seconds)

    def last_words(self):
        self.log.flush()
        self.log.seek(0)
        lines = [line.rstrip() for line in self.log.read().splitlines() if line.strip()]
        return " | ".join(lines[-4:])[-600:] or "without a word"

    def end(self):
        """By the end of its input, as a notebook ends; its exit status."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            return "had to be killed"

    def kill(self):
        """With everything that it started."""
        if self.process.poll() is None:
            try:
                os.killpg(self.process.pid, 9)
            except ProcessLookupError:
                pass
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except (BrokenPipeError, OSError):
                pass


class Job(Program):
    """The same as an elastic job of that name."""

    def __init__(self, vram, name, limit, command, env=None, options=()):
        self.vram, self.name = vram, name
        super().__init__([vram, "run", "-q", "--elastic", "--name", name, "-m", limit, *options, "--", *command], env)

    def move(self, verb, timeout="120s"):
        """`vram park` or `vram unpark`: seconds by the wall clock, and what it tells of the process with the most memory."""
        start = time.monotonic()
        done = subprocess.run([self.vram, verb, self.name, "--timeout", timeout, "--json"], capture_output=True, text=True,
                              check=False)
        seconds = time.monotonic() - start
        try:
            told = [process for job in json.loads(done.stdout)["jobs"] for process in job["processes"]]
        except (ValueError, KeyError) as error:
            raise Fault("vram %s: %s" % (verb, done.stderr.strip()[-300:])) from error
        if not told:
            raise Fault("vram %s: no process holds memory" % verb)
        most = max(told, key=lambda process: process["bytes"])
        return seconds, most

    def park(self):
        seconds, told = self.move("park")
        if told["outcome"] != "parked":
            raise Fault("park: %s (%s)" % (told["outcome"], told["refusal"]))
        return seconds, told

    def unpark(self):
        seconds, told = self.move("unpark")
        if told["outcome"] not in ("restored", "already"):
            raise Fault("unpark: %s (%s)" % (told["outcome"], told["refusal"]))
        return seconds, told

    def shown(self):
        """What `vram ps --json` shows of the process with the most memory."""
        done = subprocess.run([self.vram, "ps", "--json"], capture_output=True, text=True, check=True)
        rows = [process for job in json.loads(done.stdout)["jobs"] if job["name"] == self.name
                for device in job["devices"] for process in device["processes"]]
        if not rows:
            raise Fault("vram ps does not show it")
        return max(rows, key=lambda row: row["used"] + (row["parked_bytes"] or 0))


def write_json(name, rows):
    """Into the folder that $OUT names, if it does."""
    folder = os.environ.get("OUT")
    if folder:
        with open(os.path.join(folder, name + ".json"), "w", encoding="ascii") as file:
            json.dump(rows, file, indent=1)


def build_folder(given=None):
    """Where the built binaries are."""
    return os.path.abspath(given or os.path.join(ROOT, "build"))
