"""`vram park` and `vram unpark` ask the elastic processes of jobs, wait for their answers, and tell what came of it.

usage: park_test.py BUILD
"""

import json
import os
import pty
import re
import signal
import subprocess
import time

from command import BUILD, GREEDY, VRAM, CommandTest, main

SIM = ("--sim", "1x4GiB")
FAKE = os.path.join(BUILD, "tests", "fake_elastic")
MIB = 1 << 20
# Longer than any answer takes on a loaded machine, and shorter than a test may last.
PATIENT = ("--timeout", "50s")
IMPATIENT = ("--timeout", "300ms")

# What a process says, by number: whether it is asked to park or to unpark, the sentence after its name, and its name there.
REFUSALS = [
    (2, "park", "{} has work under way that did not come to an end in time; stays on the card; park it again when it pauses",
     "busy"),
    (3, "park", "{} is capturing a stream into a graph, which must not be interrupted; stays on the card; park it again in a "
     "moment", "capture"),
    (4, "park", "{} shares memory with other processes, which would lose it; stays on the card; park it again when it no "
     "longer does, or end it", "shared"),
    (5, "park", "{} holds managed memory, which only the driver can move; stays on the card; end it to free that", "managed"),
    (6, "park", "{} holds memory that is mapped nowhere, so that nobody can copy it; stays on the card; park it again when it "
     "is mapped, or end it", "unmapped"),
    (7, "park", "the host has no memory for the memory of {}; stays on the card; free host memory, then park it again",
     "host_memory"),
    (8, "unpark", "the card has no room for 64MiB of {}; it is restored when there is some; park or end what holds it (see "
     "'vram ps')", "card_memory"),
    (9, "park", "the driver refused a step of moving {}; stays on the card; see whether nvidia-smi works, then park it again",
     "driver"),
    (9, "unpark", "the driver refused a step of moving {}; stays parked; see whether nvidia-smi works, then unpark it again",
     "driver"),
]


class Park(CommandTest):
    def elastic(self, *script, name="job", count=1, last=()):
        """A job of `count` processes that play elastic ones, the `last` with more of a script; returns when they hold their
        memory. Their pids, in the order in which they came."""
        ready = [os.path.join(self.folder, f"{name}{number}") for number in range(count)]
        started = [f"{FAKE} --ready {file} {' '.join(script)}" for file in ready]
        started[-1] = " ".join((started[-1], *last))
        command = ("sh", "-c", " & ".join(started) + " & wait") if count > 1 else tuple(started[0].split())
        self.start("run", "-q", "--elastic", "--name", name, *SIM, "--", *command)
        self.wait_for(lambda: all(os.path.exists(file) for file in ready), "the processes")
        pids = [process["pid"] for process in self.processes(name)]
        if count > 1:  # the shell that waits for them ends by itself
            self.addCleanup(self.kill, pids)
        return pids

    @staticmethod
    def kill(pids):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def processes(self, name="job"):
        job, = (job for job in self.jobs() if job["name"] == name)
        return [process for device in job["devices"] for process in device["processes"]]

    def shown_state(self, name="job"):
        """What the table shows."""
        return re.search(rf"\({name}\) .* \d+  (\S.*?) +/", self.vram("ps").stdout).group(1)

    def outcome(self, verb, *arguments):
        result = self.vram(verb, *arguments, "--json")
        shown = json.loads(result.stdout)
        self.assertEqual(shown["schema"], 1)
        return [process for job in shown["jobs"] for process in job["processes"]], result

    def test_memory_goes_to_the_host_and_back(self):
        pid, = self.elastic("--hold", "64")
        self.assertEqual((self.shown_state(), self.processes()[0]["used"]), ("on the card", 64 * MIB))
        for _ in range(2):
            result = self.vram("park", "job", *PATIENT)
            self.assertEqual((result.stdout, result.stderr, result.returncode),
                             (f"parked 64MiB of PID {pid} (fake_elastic) in 0.50s (128MiB/s)\n", "", 0))
            self.assertEqual((self.shown_state(), self.processes()[0]["used"]), ("parked 64MiB", 0))
            result = self.vram("unpark", "job", *PATIENT)
            self.assertEqual((result.stdout, result.stderr, result.returncode),
                             (f"restored 64MiB of PID {pid} (fake_elastic) in 0.50s (128MiB/s)\n", "", 0))
            self.assertEqual((self.shown_state(), self.processes()[0]["used"]), ("on the card", 64 * MIB))

    def test_a_job_is_named_as_for_limit(self):
        pid, = self.elastic()
        job = self.jobs()[0]["id"]
        for name in (job, "job", str(pid)):
            self.assertIn("parked 64MiB", self.vram("park", name, *PATIENT).stdout)
            self.assertIn("restored 64MiB", self.vram("unpark", name, *PATIENT).stdout)

    def test_parked_already_is_success(self):
        pid, = self.elastic()
        self.vram("park", "job", *PATIENT)
        result = self.vram("park", "job", *PATIENT)
        self.assertEqual((result.stdout, result.returncode), (f"process {pid} (fake_elastic) is parked already\n", 0))
        self.assertEqual(self.processes()[0]["times_parked"], 1)
        self.vram("unpark", "job", *PATIENT)
        result = self.vram("unpark", "job", *PATIENT)
        self.assertEqual((result.stdout, result.returncode), (f"process {pid} (fake_elastic) is on the card already\n", 0))

    def test_every_refusal_has_its_sentence(self):
        for number, verb, sentence, name in REFUSALS:
            with self.subTest(number=number, verb=verb):
                job = f"{name}-{verb}"
                pid, = self.elastic(f"--{verb}", str(number), name=job)
                if verb == "unpark":
                    self.assertEqual(self.vram("park", job, *PATIENT).returncode, 0)
                result = self.vram(verb, job, *PATIENT)
                process = f"process {pid} (fake_elastic)"
                self.assertEqual((result.stderr, result.stdout, result.returncode), (f"vram: {sentence.format(process)}\n", "", 1))
                self.assertEqual(self.processes(job)[0]["last_refusal"], name)
                (told,), result = self.outcome(verb, job, *PATIENT)
                self.assertEqual((told["outcome"], told["refusal"], result.returncode), ("refused", name, 1))

    def test_who_has_nothing_to_move_is_no_failure(self):
        pid, = self.elastic("--park", "1", name="nothing")
        result = self.vram("park", "nothing", *PATIENT)
        self.assertEqual((result.stdout, result.returncode),
                         (f"process {pid} (fake_elastic) holds nothing that could be moved\n", 0))
        self.start("run", "-q", "--elastic", "--name", "empty", *SIM, "--", "sleep", "60")
        self.wait_for(lambda: len(self.jobs()) == 2, "the job")
        result = self.vram("park", "empty")
        self.assertRegex(result.stdout, r"^job \w{4} holds nothing that could be moved\n$")
        self.assertEqual(result.returncode, 0)

    def test_a_process_without_memory_is_not_waited_for(self):
        ready = os.path.join(self.folder, "ready")
        self.start("run", "-q", "--elastic", "--name", "job", *SIM, "--", FAKE, "--hold", "0", "--park", "never", "--ready", ready)
        self.wait_for(lambda: os.path.exists(ready), "the process")
        result = self.vram("park", "job", *PATIENT)
        self.assertRegex(result.stdout, r"^process \d+ \(fake_elastic\) holds nothing that could be moved\n$")
        self.assertEqual(result.returncode, 0)

    def test_a_job_that_is_not_elastic_is_refused_with_the_way_to_make_it_so(self):
        self.elastic()
        self.start("run", "-q", "--name", "plain", *SIM, "--", "sleep", "60")
        plain = self.wait_for(lambda: [job["id"] for job in self.jobs() if job["name"] == "plain"], "the job")[0]
        for verb in ("park", "unpark"):
            result = self.vram(verb, "job", "plain", *PATIENT)
            self.assertEqual((result.stderr, result.stdout, result.returncode),
                             (f"vram: job {plain} is not elastic, so its memory cannot be moved; start it with "
                              "'vram run --elastic'\n", "", 1))
        self.assertEqual(self.shown_state(), "on the card", "nobody was asked")

    def test_all_processes_of_all_jobs_are_asked_at_once(self):
        first = self.elastic("--after", "1500", name="first", count=2)
        second = self.elastic("--after", "1500", name="second", count=2)
        start = time.monotonic()
        result = self.vram("park", "first", "second", "first", *PATIENT)
        self.assertLess(time.monotonic() - start, 5, "one after the other")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(re.findall(r"parked 64MiB of PID (\d+)", result.stdout)),
                         sorted(str(pid) for pid in first + second))

    def test_one_that_refuses_does_not_hold_up_the_others(self):
        mover, = self.elastic(name="mover")
        sharer, = self.elastic("--park", "4", name="sharer")
        busy, = self.elastic("--park", "2", name="busy")
        result = self.vram("park", "sharer", "mover", "busy", *PATIENT)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, rf"^parked 64MiB of PID {mover} [^\n]*\n$")
        self.assertRegex(result.stderr, rf"^vram: process {sharer} [^\n]*\nvram: process {busy} [^\n]*\n$")

    def test_one_that_does_not_answer_is_waited_for_as_long_as_told(self):
        pid, = self.elastic("--park", "never")
        job = self.jobs()[0]["id"]
        start = time.monotonic()
        result = self.vram("park", "job", *IMPATIENT)
        self.assertTrue(0.3 < time.monotonic() - start < 20)
        self.assertEqual((result.stderr, result.stdout, result.returncode),
                         (f"vram: process {pid} (fake_elastic) did not answer in 300ms, and stays asked; see 'vram ps', or take it "
                          f"back with 'vram unpark {job}'\n", "", 1))
        result = self.vram("unpark", "job", *PATIENT)
        self.assertEqual(result.returncode, 0, "which takes it back")
        self.assertEqual(self.shown_state(), "on the card")

    def test_one_that_is_stopped_is_named_as_such(self):
        pid, = self.elastic()
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        result = self.vram("park", "job", *IMPATIENT)
        self.assertEqual((result.stderr, result.returncode),
                         (f"vram: process {pid} (fake_elastic) is stopped, so it did not answer in 300ms; it stays asked, and moves "
                          f"once it goes on: kill -CONT {pid}\n", 1))
        self.assertEqual(self.shown_state(), "stopped, on the card")

    def test_one_that_is_half_way_is_named_as_such(self):
        self.elastic("--park", "stuck")
        result = self.vram("park", "job", *IMPATIENT)
        self.assertRegex(result.stderr, r"^vram: process \d+ \(fake_elastic\) still moves after 300ms \(32MiB of 64MiB\), and goes "
                         r"on; see 'vram ps', or take it back with 'vram unpark \w{4}'\n$")
        self.assertEqual((result.returncode, self.shown_state()), (1, "parking"))

    def test_one_that_waits_for_memory_is_named_as_such(self):
        self.elastic("--unpark", "wait")
        self.vram("park", "job", *PATIENT)
        result = self.vram("unpark", "job", *IMPATIENT)
        self.assertRegex(result.stderr, r"^vram: the card has no room for 64MiB of process \d+ \(fake_elastic\); it is restored when "
                         r"there is some; park or end what holds it \(see 'vram ps'\)\n$")
        self.assertEqual((result.returncode, self.shown_state()), (1, "waits for memory"))
        (told,), result = self.outcome("unpark", "job", *IMPATIENT)
        self.assertEqual((told["outcome"], told["place"], result.returncode), ("no_answer", "waiting", 1))

    def test_one_that_waits_for_memory_can_be_told_to_stay_parked(self):
        pid, = self.elastic("--unpark", "wait")
        self.vram("park", "job", *PATIENT)
        self.vram("unpark", "job", *IMPATIENT)
        result = self.vram("park", "job", *PATIENT)
        self.assertEqual((result.stdout, result.returncode), (f"process {pid} (fake_elastic) is parked already\n", 0))
        self.assertEqual(self.shown_state(), "parked 64MiB")

    def test_ctrl_c_ends_the_waiting_and_tells_what_stands(self):
        for name, script, told in (("silent", "never", ""), ("half", "stuck", r" is on the move \(32MiB of 64MiB\) and")):
            with self.subTest(name):
                pid, = self.elastic("--park", script, name=name)
                for number in (signal.SIGINT, signal.SIGTERM):
                    waiting = self.start("park", name, *PATIENT)
                    self.wait_for(lambda: os.path.exists(os.path.join(self.folder, f"{name}0.asked")), "the request")
                    os.unlink(os.path.join(self.folder, f"{name}0.asked"))
                    waiting.send_signal(number)
                    out, err = waiting.communicate(timeout=30)
                    self.assertEqual((out, waiting.returncode), ("", -number), err)
                    self.assertRegex(err, rf"^vram: process {pid} \(fake_elastic\){told} stays asked; take it back with "
                                     r"'vram unpark \w{4}'\n$")
                self.assertEqual(self.vram("unpark", name, *PATIENT).returncode, 0)

    def test_one_that_dies_is_not_waited_for(self):
        pids = self.elastic("--park", "die", count=2, last=("--park", "move"))
        start = time.monotonic()
        result = self.vram("park", "job", *PATIENT)
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual(result.returncode, 1)
        parked = int(re.match(r"parked 64MiB of PID (\d+) [^\n]*\n$", result.stdout).group(1))
        dead = int(re.match(r"vram: process (\d+) \(fake_elastic\) ended before it was parked; see 'vram ps' for what is left of "
                            r"job \w{4}\n$", result.stderr).group(1))
        self.assertEqual({parked, dead}, set(pids))

    def test_an_opposite_request_of_somebody_else_ends_the_wait(self):
        pid, = self.elastic("--park", "never")
        waiting = self.start("park", "job", *PATIENT)
        self.wait_for(lambda: os.path.exists(os.path.join(self.folder, "job0.asked")), "the request")
        self.vram("unpark", "job", *PATIENT)
        out, err = waiting.communicate(timeout=30)
        self.assertEqual((out, err, waiting.returncode),
                         ("", f"vram: process {pid} (fake_elastic) was asked the opposite by somebody else meanwhile; see 'vram ps' "
                          "where its memory is\n", 1))

    def test_json_tells_what_was_done_and_where_memory_is(self):
        pid, = self.elastic()
        (told,), result = self.outcome("park", "job", *PATIENT)
        self.assertEqual(told, {"pid": pid, "program": "fake_elastic", "outcome": "parked", "refusal": None, "place": "parked",
                                "bytes": 64 * MIB, "us": 500000})
        self.assertEqual((result.stderr, result.returncode), ("", 0))
        process, = self.processes()
        self.assertEqual({name: process[name] for name in ("place", "parked_bytes", "times_parked", "last_move_us", "last_refusal")},
                         {"place": "parked", "parked_bytes": 64 * MIB, "times_parked": 1, "last_move_us": 500000,
                          "last_refusal": None})
        (told,), _ = self.outcome("park", "job", *PATIENT)
        self.assertEqual((told["outcome"], told["us"]), ("already", None))
        (told,), _ = self.outcome("unpark", "job", *PATIENT)
        self.assertEqual((told["outcome"], told["place"]), ("restored", "card"))
        self.assertEqual(self.processes()[0]["parked_bytes"], 0)

    def test_progress_is_shown_on_a_terminal_and_nowhere_else(self):
        self.elastic("--park", "slow", "--unpark", "slow")
        self.assertEqual(self.vram("park", "job", *PATIENT).stderr, "")
        shown, terminal = pty.openpty()
        self.addCleanup(os.close, shown)
        result = subprocess.run([VRAM, "unpark", "job", *PATIENT], env=self.environment, stdout=subprocess.PIPE, stderr=terminal,
                                text=True, check=False, timeout=60)
        os.close(terminal)
        told = ""
        try:
            while True:
                told += os.read(shown, 4096).decode()
        except OSError:  # the other side is closed
            pass
        self.assertTrue(told.endswith("\r\x1b[K"), repr(told))
        self.assertIn("\r\x1b[Krestoring 32MiB / 64MiB", told)
        self.assertIn("restored 64MiB", result.stdout)

    def test_the_table_is_readable_in_a_hundred_columns(self):
        self.elastic("--hold", "1000", "--unpark", "wait", name="notebook")
        self.vram("park", "notebook", *PATIENT)
        self.vram("unpark", "notebook", *IMPATIENT)
        header, *rows = self.vram("ps").stdout.splitlines()
        self.assertTrue(any(FAKE in row for row in rows), rows)
        for line in header, *rows:
            before_the_command = line.find(FAKE) if FAKE in line else line.find("COMMAND")
            self.assertLessEqual(before_the_command, 90, line)

    def test_a_slot_taken_again_shows_nothing_of_its_last_owner(self):
        pids = self.elastic(count=2)
        self.vram("park", "job", *PATIENT)
        self.kill(pids[:1])
        self.wait_for(lambda: len(self.processes()) == 1, "the end")
        job, = self.jobs()
        ready = os.path.join(self.folder, "again")
        again = subprocess.Popen([FAKE, "--ready", ready], stdout=subprocess.DEVNULL,
                                 env={**self.environment, "VRAM_JOB": os.path.join(self.environment["VRAM_STATE_DIR"], job["id"] + ".job")})
        self.addCleanup(again.wait)
        self.addCleanup(again.kill)
        self.wait_for(lambda: os.path.exists(ready), "the process")
        process, = (process for process in self.processes() if process["pid"] == again.pid)
        self.assertEqual((process["place"], process["parked_bytes"], process["times_parked"]), ("card", 0, 0))

    def test_elastic_is_a_setting_like_others(self):
        def pools(*arguments, environment=None):
            """Whether the job is one that can be parked."""
            process = self.start("run", "-q", *arguments, *SIM, "--", "sleep", "60", environment=environment)
            job = self.wait_for(lambda: self.jobs(), "the job")[0]
            result = self.vram("park", job["id"])
            self.end(process)
            return result.returncode == 0
        self.assertEqual([pools(), pools("--alloc", "vram"), pools("--elastic"), pools("--elastic", "--alloc", "vram")],
                         [False, False, True, True])
        self.assertTrue(pools(environment={"VRAM_ELASTIC": "true"}))
        self.config("elastic = true\n")
        self.assertTrue(pools())
        self.assertFalse(pools("--alloc", "driver"))
        self.assertFalse(pools(environment={"VRAM_ELASTIC": "false"}))

    def test_frameworks_keep_their_caches(self):
        def told(*arguments):
            result = self.vram("run", "-q", *arguments, *SIM, "--", "sh", "-c", "env | grep -c cudaMallocAsync")
            return result.stdout
        self.assertEqual((told("--alloc", "vram"), told("--elastic"), told("--elastic", "--alloc", "vram")), ("1\n", "0\n", "0\n"))

    def test_a_job_that_takes_no_part_runs_as_before(self):
        result = self.vram("run", "--elastic", "-m", "1GiB", *SIM, "--", GREEDY)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("then: out of memory", result.stdout)


if __name__ == "__main__":
    main()
