"""`vram trace` records what a program does to device memory: all of it, also when the program is killed.

usage: trace_test.py BUILD
"""

import collections
import gzip
import json
import os
import pty
import re
import signal
import struct
import subprocess
import time
import unittest

from command import BUILD, GREEDY, VRAM, CommandTest, main

SIM = ("--sim", "1x24GiB")
EVENTS = os.path.join(BUILD, "tests", "programs", "trace_events")
EVERY_WAY = """\
a 1 1000 0 alloc
f 1
a 2 3145728 0 alloc
f 2
a 3 1000 0 pitch
f 3
a 4 2000 0 managed
f 4
a 5 100 1
f 5
a 6 101 1
f 6 2
a 7 102 0
f 7 now
a 8 103 3
f 8 0
a 9 104 0 alloc
f 9 1
a 10 105 2 pool
f 10
a 11 2097152 0 create
f 11
a 12 4194304 0 create
f 12
a 13 16384 0 array
f 13
a 14 682 0 mipmap
f 14
b 1
a 15 5000 1 captured
f 15
e 1
a 16 5000 0 graph
f 16
x 1099511627776 0 alloc
x 1099511627776 0
a 17 4194304 0 alloc
f 17
a 18 7 0 alloc
q
"""


class Trace(CommandTest):
    def setUp(self):
        super().setUp()
        self.trace = os.path.join(self.folder, "t.gz")
        self.log = self.trace + ".raw"

    def lines(self, path=None):
        with gzip.open(path or self.trace, "rt", encoding="utf-8") as file:
            return file.read().splitlines()

    def events(self):
        """The records without their times, header and processes left out."""
        return [re.sub(r" \+\d+$", "", line) for line in self.lines() if line[0] not in "#p"]

    def record(self, *command, options=SIM, status=0, **more):
        result = self.vram("trace", "-o", self.trace, *options, "--", *command, **more)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertFalse(os.path.exists(self.log))
        return result

    def check_balanced(self, lines):
        """IDs ascend, nothing is freed twice or before its time; what is alive at the end."""
        alive, last = {}, 0
        for line in lines:
            words = line.split()
            if words[0] == "a":
                self.assertEqual(int(words[1]), last + 1)
                last += 1
                alive[last] = int(words[2])
            elif words[0] == "f":
                alive.pop(int(words[1]))
        return alive

    def test_every_way(self):
        result = self.record(EVENTS, "ways")
        self.assertEqual("\n".join(self.events()) + "\n", EVERY_WAY)
        self.assertRegex(result.stderr, rf"\nvram: trace {self.trace}: 18 allocations, 2 refused, peak live 4MiB, \d+B\n$")

    def test_header_and_process(self):
        self.record(EVENTS, "ways", options=("--sim", "2x24GiB"))
        header, process = self.lines()[:2]
        self.assertRegex(header, rf"^# vram-trace 1 unit=us started=\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ command={EVENTS}%20ways driver=\S+ "
                         r"device0=\S+ device0\.bytes=25769803776 device1=\S+ device1\.bytes=25769803776 frameworks=steered$")
        self.assertRegex(process, rf"^p 0 pid=\d+ command={EVENTS[:40]}\S* \+\d+$")

    def test_times(self):
        self.record("sh", "-c", f"sleep 0.3; {EVENTS} contexts; exec sleep 0.3")
        times = [int(line.rpartition(" +")[2]) for line in self.lines()[1:] if " +" in line]
        self.assertGreater(times[0], 300_000)
        self.assertLess(sum(times), 60_000_000)

    def test_what_ends_with_a_context(self):
        self.record(EVENTS, "contexts")
        self.assertEqual(self.events(), ["a 1 1 0 alloc", "a 2 2 0", "a 3 3 0 alloc", "f 3", "f 1", "f 2 now", "q"])

    def test_memory_of_others(self):
        self.record(EVENTS, "imports")
        self.assertEqual(self.events(), ["a 1 2097152 0 create", "f 1", "a 2 0 0 import", "f 2", "q"])
        programs = os.path.dirname(EVENTS)
        self.record(os.path.join(programs, "shared_between_processes"), options=(*SIM, "--force"))
        opened = [line for line in self.events() if line.endswith(" ipc")]
        self.assertEqual(opened, ["a 2 1073741824 0 ipc", "a 3 1073741824 0 ipc"])
        self.assertLess({"f 1", "f 2", "f 3"}, set(self.events()))
        self.record(os.path.join(programs, "external_memory"), "own", options=(*SIM, "--force", "-m", "2GiB"))
        self.assertEqual(self.events()[0], "a 1 1073741824 0 external")
        self.assertEqual(self.check_balanced(self.events()), {})

    def test_the_card_is_named_whatever_the_program_numbers_it(self):
        self.record("env", "CUDA_VISIBLE_DEVICES=1", EVENTS, "contexts", options=("--sim", "2x24GiB"))
        self.assertIn("a 1 1 0 alloc @1", self.events())

    def test_threads(self):
        result = self.record(EVENTS, "threads", "8", "3000")
        events = self.events()
        counts = collections.Counter(line[0] for line in events)
        self.assertEqual(int(result.stdout), 24000)
        self.assertEqual(counts, {"a": 24000, "f": 24000, "q": 1})
        self.assertEqual(self.check_balanced(events), {})
        # Each request once, with the bytes that it asked for.
        self.assertEqual(sorted(int(line.split()[2]) for line in events if line[0] == "a"), list(range(1, 24001)))

    def test_threads_that_get_each_others_addresses(self):
        """A block is freed by the free that the program made of it, and not by its successor at the same address."""
        self.record(EVENTS, "threads", "8", "40000")
        events = self.events()
        ordered = {line.split()[1] for line in events if line[0] == "a" and not line.endswith(" alloc")}
        self.assertEqual({line.split()[1] for line in events if line.endswith(" now")}, ordered)

    def test_default_streams_of_threads(self):
        program = os.path.join(os.path.dirname(EVENTS), "ways_per_thread")
        self.record(program, "async_freed_at_once", str(1 << 30), options=(*SIM, "-m", "1GiB"))
        taken = [line.split() for line in self.events() if line[0] == "a"]
        self.assertGreater(len(taken), 1)
        self.assertEqual({words[3] for words in taken}, {"1"})

    def test_what_lives_on_writes_no_more(self):
        """Its writes would find no room that is sure to be there."""
        next_at, records_at, record = 128, 4096 + 128 * 4096, 64
        signal_file = os.path.join(self.folder, "signal")
        process = self.start("trace", "-o", self.trace, *SIM, "--", "sh", "-c",
                             f"{EVENTS} outlives {signal_file} >/dev/null 2>&1; exec sleep 1")
        self.wait_for(lambda: os.path.exists(self.log), "the log")
        with open(self.log, "rb") as log:
            process.wait(timeout=30)
            count = struct.unpack("<Q", os.pread(log.fileno(), 8, next_at))[0]
            with open(signal_file, "w", encoding="ascii"):
                pass
            self.wait_for(lambda: not os.path.exists(signal_file), "the child")
            self.assertEqual(struct.unpack("<Q", os.pread(log.fileno(), 8, next_at))[0], count + 10)
            self.assertEqual(os.pread(log.fileno(), 10 * record, records_at + count * record), bytes(10 * record))

    def test_several_processes(self):
        self.record(EVENTS, "children", "5")
        lines = self.lines()
        processes = [line for line in lines if re.match(r"p \d+ pid", line)]
        self.assertEqual(len(processes), 5)
        self.assertEqual(len({line.split()[2] for line in processes}), 5)
        taken = sorted(int(line.split()[2]) for line in lines if line[0] == "a")
        self.assertEqual(taken, [1024 * (i + 1) for i in range(5)])
        self.assertEqual([line[0] for line in self.events()].count("f"), 4)
        self.assertEqual([line[0] for line in self.events()].count("q"), 5)

    def test_exec_ends_what_was_held(self):
        self.record(EVENTS, "execs")
        self.assertEqual(self.events()[:3], ["a 1 9 0 alloc", "q", "a 2 1 0 alloc"])
        self.assertEqual([line.split()[1] for line in self.lines() if line[0] == "p"], ["0", "1"])

    def test_killed(self):
        self.record(EVENTS, "killed", "500", status=128 + signal.SIGKILL)
        events = self.events()
        self.assertEqual(events[:500], [f"a {i} 12345 0 alloc" for i in range(1, 501)])
        alive = self.check_balanced(events)
        # What the racing threads held when the end came, one block each at most.
        self.assertLessEqual(len(alive), 500 + 4)
        self.assertEqual([size for size in alive.values() if size == 12345], [12345] * 500)
        self.assertEqual(events[-1], "q")

    def test_refusals_by_the_limit(self):
        self.record(GREEDY, options=(*SIM, "-m", "4GiB"))
        refused = [line for line in self.events() if line[0] == "x"]
        self.assertEqual(refused, [f"x {size << 20} 0 alloc" for size in (256, 128, 64, 32, 16, 8, 4, 2)])

    def test_a_program_without_cuda(self):
        result = self.record("true")
        self.assertIn(f"vram: trace {self.trace}: it is empty, for the program allocated no GPU memory\n", result.stderr)
        self.assertEqual(len(self.lines()), 1)

    def test_status_is_the_programs_own(self):
        self.record("sh", "-c", "exit 7", status=7)
        for command, status in (("/no/such/program", 127), (self.folder, 126)):
            result = self.vram("trace", "-o", os.path.join(self.folder, "u.gz"), *SIM, "--", command)
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("u.gz")])

    def test_a_program_that_cannot_be_run_leaves_nothing(self):
        result = self.vram("trace", "-o", self.trace, *SIM, "--", self.script("script", "#!/no/such/interpreter\n"))
        self.assertEqual(result.returncode, 127)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("t.gz")], [])

    def test_json(self):
        result = self.record(EVENTS, "ways", options=(*SIM, "--json"))
        summary = json.loads(result.stderr)["trace"]
        self.assertGreater(summary.pop("duration_us"), 0)
        self.assertEqual(summary.pop("file_bytes"), os.path.getsize(self.trace))
        self.assertEqual(summary, {"allocations": 18, "frees": 17, "refused": 2, "lost": 0, "peak_live": 4194304, "processes": 1})

    def test_quiet(self):
        self.assertEqual(self.record("true", options=(*SIM, "-q")).stderr, "")

    def test_output_that_cannot_be_written_is_refused_before_the_start(self):
        started = os.path.join(self.folder, "started")
        self.script("t.gz", "mine")
        os.mkdir(os.path.join(self.folder, "d.gz"))
        for output, message in (
                ("t.gz", "--output: t.gz exists; choose another, or replace it with --force"),
                ("d.gz", "--output: d.gz is there and no ordinary file; choose another"),
                ("no/t.gz", "--output: the folder no does not exist; make it first"),
                ("", "--output: it is empty; name a file")):
            result = self.vram("trace", "-o", output, *SIM, "--", "touch", started, cwd=self.folder)
            self.assertEqual((result.returncode, result.stderr), (125, f"vram: {message}\n"))
        self.assertFalse(os.path.exists(started))

    def test_force_replaces(self):
        self.script("t.gz", "mine")
        self.record("true", options=(*SIM, "--force"))
        self.assertEqual(len(self.lines()), 1)

    def test_usage(self):
        result = self.vram("trace", "-o", self.trace)
        self.assertEqual((result.returncode, result.stderr),
                         (125, "vram: trace: there is no command to run; write: vram trace -o FILE -- CMD ARG...\n"))
        result = self.vram("trace", *SIM, "true")
        self.assertEqual((result.returncode, result.stderr),
                         (125, "vram: trace: --output is required; see 'vram trace --help'\n"))

    def test_inside_a_job(self):
        result = self.vram("run", "-q", *SIM, "--", VRAM, "trace", "-o", self.trace, "true")
        self.assertEqual(result.returncode, 125)
        self.assertRegex(result.stderr, r"^vram: trace: this is already inside job \w{4}, and a recording is one of a whole job; ")

    def test_a_run_inside_a_recording_is_recorded(self):
        self.record(VRAM, "run", "-q", "--", EVENTS, "contexts")
        self.assertIn("a 1 1 0 alloc", self.events())

    def interrupted(self):
        """The log of a recording whose command was killed."""
        ready = os.path.join(self.folder, "ready")
        process = self.start("trace", "-o", self.trace, *SIM, "--", GREEDY, "--take", "1000", "--ready", ready,
                             "--until", os.path.join(self.folder, "until"))
        self.wait_for(lambda: os.path.exists(ready), "the program")
        busy = self.vram("trace", "--recover", self.log, "-o", self.trace)
        self.assertEqual(busy.stderr, f"vram: --recover: {self.log} is still being recorded\n")
        process.kill()
        process.wait(timeout=30)
        with open(os.path.join(self.folder, "until"), "w", encoding="ascii"):
            pass

    def test_recover(self):
        self.interrupted()
        self.assertEqual(os.stat(self.log).st_mode & 0o777, 0o600)
        again = self.vram("trace", "-o", self.trace, *SIM, "--", "true")
        self.assertIn(f"make a trace of it with 'vram trace --recover {self.log} -o {self.trace}'", again.stderr)
        result = self.vram("trace", "--recover", self.log, "-o", self.trace)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, rf"^vram: trace {self.trace}: 4 allocations, peak live 1000MiB, \d+B\n$")
        self.assertEqual([line.split()[2] for line in self.events() if line[0] == "a"],
                         [str(size << 20) for size in (256, 256, 256, 232)])
        self.assertFalse(os.path.exists(self.log))

    def test_recover_of_something_else(self):
        other = self.script("other", "x" * 1_000_000)
        for log, message in ((other, f"{other}: it is not the log of a recording"),
                             ("/nowhere/t", "/nowhere/t: there is no such file")):
            result = self.vram("trace", "--recover", log, "-o", self.trace)
            self.assertEqual((result.returncode, result.stderr), (125, f"vram: --recover: {message}\n"))
        self.assertFalse(os.path.exists(self.trace))
        self.assertTrue(os.path.exists(other))

    def test_a_log_of_others_is_not_joined(self):
        """A process does not write into a file that somebody else may have put there."""
        release = os.path.join(self.folder, "release")
        process = self.start("trace", "-o", self.trace, *SIM, "--", "sh", "-c",
                             f"while ! [ -e {release} ]; do sleep 0.05; done; {EVENTS} contexts; chmod 600 {self.log}")
        self.wait_for(lambda: os.path.exists(self.log), "the log")
        os.chmod(self.log, 0o622)
        with open(release, "w", encoding="ascii"):
            pass
        _, error = process.communicate(timeout=30)
        self.assertIn("vram: warning: 1 of the processes could not be recorded", error)
        self.assertIn("it is empty", error)

    def test_what_has_no_room_is_counted(self):
        # The largest file may be a little larger than a job's: the log has room for some of the events.
        program = f"ulimit -S -f unlimited; exec {EVENTS} threads 4 120000"
        command = f"ulimit -S -f 36000; exec {VRAM} trace -o {self.trace} --sim 1x24GiB -- bash -c '{program}'"
        result = subprocess.run(["bash", "-c", command], env=self.environment, text=True, capture_output=True, timeout=60,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        events = self.events()
        lost = sum(int(line.split()[1]) for line in events if line[0] == "l")
        # Frees of what is not in the trace are left out.
        written = sum(1 for line in events if line[0] in "af")
        self.assertGreater(written, 100_000)
        self.assertGreater(lost, 100_000)
        self.assertLessEqual(written + lost, 960_000)
        self.assertIn(f", {lost} events lost, ", result.stderr)

    def test_frameworks_are_steered(self):
        def seen(*options, environment=None):
            result = self.record("env", options=(*SIM, "--force", "-q", *options), environment=environment)
            return dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line), result.stderr

        variables, told = seen()
        self.assertEqual(variables["PYTORCH_CUDA_ALLOC_CONF"], "backend:cudaMallocAsync")
        self.assertEqual(variables["XLA_PYTHON_CLIENT_ALLOCATOR"], "cuda_async")
        self.assertEqual(variables["TF_GPU_ALLOCATOR"], "cuda_malloc_async")
        self.assertEqual(told, "")
        variables, told = seen(environment={"TF_GPU_ALLOCATOR": "default"})
        self.assertEqual(variables["TF_GPU_ALLOCATOR"], "default")
        self.assertRegex(told, r"^vram: TF_GPU_ALLOCATOR is set to default and stays, [^\n]*\n$")
        variables, told = seen("--as-is")
        self.assertNotIn("PYTORCH_CUDA_ALLOC_CONF", variables)
        self.assertIn("frameworks=as-is", self.lines()[0])

    def test_nothing_of_the_recording_is_seen_without_one(self):
        """A program under `vram run` makes no log, and its job names none."""
        self.assertEqual(self.vram("run", "-q", *SIM, "--", EVENTS, "ways").returncode, 0)
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".raw")], [])

    def test_progress_on_a_terminal(self):
        terminal, inside = pty.openpty()
        process = subprocess.Popen([VRAM, "trace", "-o", self.trace, *SIM, "--", EVENTS, "threads", "4", "200000"],
                                   env=self.environment, stdout=subprocess.DEVNULL, stderr=inside)
        os.close(inside)
        shown = b""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        self.assertEqual(process.wait(timeout=60), 0)
        os.close(terminal)
        self.assertRegex(shown, rb"vram: writing \S+: \d+ %")
        self.assertIn(b"800000 allocations, peak live", shown)
        self.assertNotIn(b"lost", shown)


if __name__ == "__main__":
    main()
