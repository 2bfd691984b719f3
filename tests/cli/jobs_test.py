"""`vram ps` and `vram limit` tell and change what running jobs hold.

usage: jobs_test.py BUILD
"""

import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from command import BUILD, GREEDY, VRAM, CommandTest, main

SIM = ("--sim", "1x24GiB")
GIB, MIB = 1 << 30, 1 << 20


class Jobs(CommandTest):
    def hold(self, *arguments, take=1000, sim=SIM):
        """A job that holds `take` MiB and a context; returns when it does."""
        number = len(os.listdir(self.folder))
        ready = os.path.join(self.folder, f"ready{number}")
        process = self.start("run", *arguments, *sim, "--", GREEDY, "--take", str(take), "--ready", ready, "--until",
                             os.path.join(self.folder, "until"))
        self.wait_for(lambda: os.path.exists(ready), "the program")
        return process

    def test_nothing_runs(self):
        self.assertEqual(self.vram("ps").stdout, "no program holds GPU memory\n")
        self.assertEqual(self.json("ps"), {"schema": 1, "jobs": [], "ungoverned": None, "turns": None, "unreadable": []})
        self.assertEqual(self.json("ps", *SIM)["ungoverned"], [])

    def test_a_job_and_its_process(self):
        self.hold("-m", "4GiB", "--name", "train")
        job, = self.jobs()
        device, = job["devices"]
        process, = device["processes"]
        self.assertEqual((job["name"], job["uid"], job["simulated"]), ("train", os.geteuid(), True))
        self.assertTrue(job["command"].startswith(GREEDY))
        self.assertEqual((device["index"], device["limit"], device["total"]), (0, 4 * GIB, 24 * GIB))
        self.assertEqual((device["used"], device["peak"], device["denials"]), (1518 * MIB, 1518 * MIB, 0))
        self.assertEqual((process["used"], process["pid"], process["uid"]), (1518 * MIB, job["pid"], os.geteuid()))
        lines = self.vram("ps").stdout.splitlines()
        self.assertEqual(lines[0].split(), "JOB PID USER GPU USED CAP %CAP PEAK DENIED STATE COMMAND".split())
        self.assertRegex(lines[1], rf"^{job['id']} \(train\) +{job['pid']} +\S+ +sim0 +1518MiB +4GiB +37% +1518MiB +0 +\w+ +"
                         + re.escape(GREEDY))

    def test_a_job_without_a_limit(self):
        self.hold()
        job, = self.jobs()
        self.assertIsNone(job["devices"][0]["limit"])
        self.assertRegex(self.vram("ps").stdout, rf"{job['id']} +{job['pid']} +\S+ +sim0 +1518MiB +- +- +1518MiB +0 ")

    def test_json_has_all_there_is(self):
        self.hold("-m", "4GiB")
        job, = self.jobs()
        device, = job["devices"]
        process, = device["processes"]
        self.assertEqual(set(job), {"id", "name", "uid", "pid", "command", "created_unix_ns", "simulated", "elastic", "admission",
                                    "devices"})
        self.assertEqual(set(device), {"index", "uuid", "name", "total", "used", "limit", "reserve", "peak", "denials", "processes"})
        parking = {"place", "parked_bytes", "times_parked", "last_move_us", "last_refusal"}
        self.assertEqual(set(process), {"pid", "uid", "used", "peak", "denials", "state", "command", *parking})
        self.assertEqual({process[name] for name in parking}, {None}, "of one that is not elastic")

    def test_denials_are_counted_for_job_and_process(self):
        ready, until = (os.path.join(self.folder, name) for name in ("ready", "until"))
        self.start("run", "-m", "4GiB", *SIM, "--", GREEDY, "--ready", ready, "--until", until)
        self.wait_for(lambda: os.path.exists(ready), "the program")
        device, = self.jobs()[0]["devices"]
        process, = device["processes"]
        self.assertGreater(device["denials"], 0)
        self.assertEqual(process["denials"], device["denials"])

    def test_what_a_command_holds_cannot_move_the_cursor(self):
        self.start("run", "-m", "4GiB", *SIM, "--", "sh", "-c", "exec sleep 60 # \x1b[2J")
        job = self.wait_for(lambda: self.jobs(), "the job")[0]
        self.assertEqual(job["command"], "sh -c exec sleep 60 # ?[2J")
        self.assertNotIn("\x1b", self.vram("ps").stdout)

    def test_processes_of_a_job_are_summed(self):
        ready, until = (os.path.join(self.folder, name) for name in ("ready", "until"))
        one = f"exec {GREEDY} --take 100 --until {until} --ready {ready}"
        self.start("run", "-m", "4GiB", *SIM, "--", "sh", "-c", f"({one}1) & ({one}2) & wait")
        self.addCleanup(self.script, "until", "")
        self.wait_for(lambda: os.path.exists(ready + "1") and os.path.exists(ready + "2"), "both programs")
        device, = self.jobs()[0]["devices"]
        self.assertEqual([process["used"] for process in device["processes"]], [618 * MIB] * 2)
        self.assertEqual(device["used"], 1236 * MIB)
        self.assertRegex(self.vram("ps").stdout, r"all 2 .* 1236MiB +4GiB +30% ")
        for process in device["processes"]:
            self.assertEqual(self.vram("limit", str(process["pid"]), "5GiB").returncode, 0)

    def test_a_job_without_gpu_memory(self):
        self.start("run", "-m", "4GiB", *SIM, "--", "sleep", "60")
        job = self.wait_for(lambda: self.jobs(), "the job")[0]
        self.assertEqual(job["devices"][0]["processes"], [])
        self.assertRegex(self.vram("ps").stdout, rf"{job['id']} +{job['pid']} .* 0B +4GiB +0% +0B +0 +no memory +sleep 60\n")

    def test_an_ungoverned_process(self):
        ready = os.path.join(self.folder, "ready")
        environment = {**self.environment, "VRAM_SIM": "1x24GiB", "LD_LIBRARY_PATH": f"{BUILD}/lib/sim"}
        process = subprocess.Popen([GREEDY, "--take", "100", "--ready", ready, "--until", self.folder + "/until"],
                                   env=environment, stdout=subprocess.DEVNULL)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.wait_for(lambda: os.path.exists(ready), "the program")
        self.hold("-m", "4GiB")
        found, = self.json("ps", *SIM)["ungoverned"]
        self.assertEqual((found["pid"], found["used"], found["index"]), (process.pid, 618 * MIB, 0))
        self.assertRegex(self.vram("ps", *SIM).stdout,
                         rf"\n- +{process.pid} +\S+ +0 +618MiB +- +- +\? +- +ungoverned +{re.escape(GREEDY)}")

    def test_a_stopped_process(self):
        self.hold("-m", "4GiB")
        job, = self.jobs()
        os.kill(job["pid"], signal.SIGSTOP)
        self.addCleanup(os.kill, job["pid"], signal.SIGCONT)
        self.wait_for(lambda: self.jobs()[0]["devices"][0]["processes"][0]["state"] == "stopped", "the stop")

    def test_a_killed_process_holds_nothing(self):
        process = self.hold("-m", "4GiB")
        os.kill(self.jobs()[0]["pid"], signal.SIGKILL)
        self.assertEqual(process.wait(timeout=30), 137)
        self.assertEqual((self.jobs(), self.job_files()), ([], []))

    def test_files_that_are_no_jobs_are_named_and_harm_nothing(self):
        os.mkdir(self.state, 0o700)
        wrong = {"empty.job": b"", "text.job": b"hello" * 1000, "other.txt": b""}
        for name, content in wrong.items():
            with open(os.path.join(self.state, name), "wb") as file:
                file.write(content)
        os.symlink("/dev/zero", os.path.join(self.state, "link.job"))
        os.mkfifo(os.path.join(self.state, "pipe.job"))
        shown = self.json("ps")
        self.assertEqual(shown["jobs"], [])
        names = sorted(entry.split(":")[0].split("/")[-1] for entry in shown["unreadable"])
        self.assertEqual(names, ["empty.job", "link.job", "pipe.job", "text.job"])
        self.assertEqual(self.vram("ps").stderr.count("vram: not shown: "), 4)

    def test_a_job_file_of_somebody_else_is_not_believed(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root")
        self.hold("-m", "4GiB")
        job, = self.jobs()
        copy = os.path.join(self.state, "copy.job")
        subprocess.run(["cp", "--sparse=always", os.path.join(self.state, job["id"] + ".job"), copy], check=True)
        os.chown(copy, 60000, 60000)
        shown = self.json("ps")
        self.assertEqual([other["id"] for other in shown["jobs"]], [job["id"]])
        self.assertEqual([entry.split(":")[0] for entry in shown["unreadable"]], [copy])

    def test_what_killed_commands_left_is_swept(self):
        process = self.start("run", "-m", "4GiB", *SIM, "--", "sleep", "60")
        job = self.wait_for(lambda: self.jobs(), "the job")[0]
        process.kill()
        os.kill(job["pid"], signal.SIGKILL)
        process.wait()
        for name, age_s in [("old.job.new", 3600), ("young.job.new", 0)]:
            path = os.path.join(self.state, name)
            with open(path, "wb"):
                pass
            os.utime(path, (time.time() - age_s,) * 2)
        self.wait_for(lambda: not self.jobs(), "the end of the job")
        self.assertEqual(self.vram("run", "-q", *SIM, "--", "true").returncode, 0)
        self.assertEqual(self.job_files(), ["young.job.new"])

    def test_a_limit_changes_while_the_program_runs(self):
        self.hold("-m", "4GiB", "--name", "train")
        job, = self.jobs()
        for who in (job["id"], "train", str(job["pid"])):
            self.assertEqual(self.vram("limit", who, "6GiB").returncode, 0)
        self.assertEqual(self.vram("limit", "train", "25%").stdout, f"job {job['id']}: GPU 0: limit 6GiB, was 6GiB\n")
        self.assertEqual(self.vram("limit", "train", "1GiB").stdout,
                         f"job {job['id']}: GPU 0: limit 1GiB, was 6GiB; 1518MiB are in use: new requests are refused until "
                         "less than the limit is\n")
        self.assertEqual(self.jobs()[0]["devices"][0]["limit"], GIB)
        uuid = job["devices"][0]["uuid"]
        self.assertEqual(self.json("limit", "train", f"{uuid[:12]}=2GiB"),
                         {"schema": 1, "job": job["id"], "devices": [
                             {"index": 0, "uuid": uuid, "limit": 2 * GIB, "previous": GIB, "used": 1518 * MIB}]})
        self.assertEqual(self.vram("limit", "train", "none").stdout, f"job {job['id']}: GPU 0: limit none, was 2GiB\n")
        self.assertIsNone(self.jobs()[0]["devices"][0]["limit"])

    def test_a_raised_limit_is_used_and_a_lowered_one_refuses(self):
        gate, grown = (os.path.join(self.folder, name) for name in ("gate", "grown"))
        process = self.start("run", "-q", "-m", "4GiB", *SIM, "--", "sh", "-c",
                             f"while ! [ -e {gate} ]; do sleep 0.05; done; {GREEDY} --ready {grown}")
        job = self.wait_for(lambda: self.jobs(), "the job")[0]
        self.vram("limit", job["id"], "6GiB")
        with open(gate, "w", encoding="ascii"):
            pass
        self.assertIn("took 5626 MiB, then: out of memory", process.communicate(timeout=30)[0])

    def test_a_new_limit_is_also_for_cards_the_job_has_not_met(self):
        for number, (limit, took) in enumerate([("6GiB", "5626 MiB"), ("25%", "5626 MiB"), ("0=6GiB", "3578 MiB")]):
            gate = os.path.join(self.folder, f"gate{number}")
            process = self.start("run", "-q", "-m", "4GiB", "--gpu", "0", "--sim", "2x24GiB", "--", "sh", "-c",
                                 f"while ! [ -e {gate} ]; do sleep 0.05; done; CUDA_VISIBLE_DEVICES=1 {GREEDY}")
            job = self.wait_for(lambda: self.jobs(), "the job")[0]
            self.assertEqual(self.vram("limit", job["id"], limit).returncode, 0)
            with open(gate, "w", encoding="ascii"):
                pass
            self.assertIn(f"took {took}, then: out of memory", process.communicate(timeout=30)[0])

    def test_wrong_limits_change_nothing(self):
        self.hold("-m", "4GiB", "--name", "train")
        for text, line in [("30GiB", "30GiB is more than card 0 has (24GiB); use less, or none"),
                           ("-4GiB", "limit: '-4GiB' is negative; a limit is at least 1MiB"),
                           ("4", "limit: '4' has no unit; did you mean 4GiB, 4MiB, 4B or 4%?"),
                           ("unlimited", "limit: 'unlimited' is not a size; write one like 4GiB or 40%")]:
            result = self.vram("limit", "train", text)
            self.assertEqual((result.stderr, result.returncode), (f"vram: {line}\n", 1))
        job = self.jobs()[0]
        self.assertEqual(self.vram("limit", "train", "3=4GiB").stderr,
                         f"vram: job {job['id']}: there is no card 3; the only card is 0 (see 'vram devices')\n")
        self.assertEqual(job["devices"][0]["limit"], 4 * GIB)

    def test_a_name_of_two_jobs_is_ambiguous(self):
        self.hold("-m", "4GiB", "--name", "serve")
        self.hold("-m", "4GiB", "--name", "serve")
        first, second = (job["id"] for job in self.jobs())
        self.assertEqual(self.vram("limit", "serve", "2GiB").stderr,
                         f"vram: 'serve' is the name of several jobs ({first}, {second}); use an id\n")

    def under_policy(self, text, commands):
        """Runs shell commands where the system's file says `text`."""
        policy = self.script("policy.toml", text, mode=0o644)
        bound = ["unshare", "-rm", "sh", "-c", f"mount -t tmpfs none /etc && mkdir /etc/vram && cp {policy} "
                 f"/etc/vram/config.toml && {commands}"]
        result = subprocess.run(bound, env=self.environment, text=True, capture_output=True, check=False, timeout=60)
        if "unshare" in result.stderr or "mount" in result.stderr:
            raise unittest.SkipTest(f"no mount namespace here: {result.stderr.splitlines()[0]}")
        return result

    def test_the_ceiling_holds_on_a_card_that_nobody_named(self):
        result = self.under_policy('limit = "4GiB"\n', f"{VRAM} run -q -m 0=2GiB --gpu 0 --sim 2x24GiB -- "
                                   f"env CUDA_VISIBLE_DEVICES=1 {GREEDY} --take 1")
        self.assertIn(" of 4096 MiB free", result.stdout, result.stderr)

    def test_the_ceiling_of_the_system_holds(self):
        job = f"{VRAM} run -q -m 2GiB --name train --sim 1x24GiB -- sleep 60 & "
        result = self.under_policy('limit = "4GiB"\n', job + f"sleep 1; {VRAM} limit train 8GiB; {VRAM} limit train none; "
                                   f"{VRAM} limit train 3GiB; {VRAM} run -m 8GiB --sim 1x24GiB -- true; kill $!")
        ceiling = "is over the ceiling of this system (4GiB, /etc/vram/config.toml:1: limit); use 4GiB or less\n"
        self.assertEqual(result.stderr, f"vram: 8GiB on card 0 {ceiling}vram: none on card 0 {ceiling}"
                         f"vram: -m: 8GiB on card 0 {ceiling}")
        self.assertRegex(result.stdout, r"^job \w{4}: GPU 0: limit 3GiB, was 2GiB\n$")

    def test_a_limit_promises_no_more_than_the_card_has_free(self):
        self.hold(take=20000)
        result = self.vram("run", "-m", "10GiB", *SIM, "--", GREEDY, "--take", "1")
        free = re.search(r"context made: (\d+) MiB of 10240 MiB free", result.stdout)
        self.assertIsNotNone(free, result.stdout)
        self.assertLess(int(free.group(1)), 24576 - 20000)

    def test_root_sees_and_limits_everybodys_jobs(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root")
        # Their folder is under /dev/shm by the number of the user; one that nobody has.
        uid = 60000 + os.getpid() % 5000
        environment = {name: value for name, value in self.environment.items() if name != "VRAM_STATE_DIR"}
        os.chmod(self.folder, 0o711)
        # A copy where they can reach it: this tree may lie in root's home.
        for folder in ("bin", "lib/vram", "lib/sim"):
            shutil.copytree(os.path.join(BUILD, folder), os.path.join(self.folder, folder))
        reachable = os.path.join(self.folder, "bin", "vram")
        process = subprocess.Popen(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", reachable, "run", "-q",
                                    "-m", "4GiB", *SIM, "--name", f"theirs{uid}", "--", "sleep", "60"],
                                   env={**environment, "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent"})
        self.addCleanup(subprocess.run, f"rm -rf /dev/shm/vram-{uid} /dev/shm/vram-sim-{uid}-*", shell=True, check=False)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

        def theirs(*arguments):
            result = subprocess.run([VRAM, *arguments], env=environment, text=True, capture_output=True, check=False)
            return result.stdout

        line = self.wait_for(lambda: re.search(rf".*theirs{uid}.*", theirs("ps")), "their job").group()
        self.assertIn(f" {uid} ", line)
        self.assertRegex(theirs("limit", f"theirs{uid}", "2GiB"), r"limit 2GiB, was 4GiB")


if __name__ == "__main__":
    main()
