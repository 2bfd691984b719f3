"""A daemon for several users: what one may do to another's jobs, and what the policy changes about that.

usage: users_test.py BUILD
"""

import json
import os
import pwd
import stat
import subprocess
import unittest

from daemon import BUILD, GRANTED, NEVER, PARK, STATUS, UNPARK, VRAM, DaemonTest, Reply, main, request

OTHER = "nobody"


def is_possible():
    """Root runs the test, and the other user may run what was built."""
    if os.geteuid() != 0:
        return False
    return subprocess.run([VRAM, "--version"], user=OTHER, group=0, extra_groups=[], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(os.geteuid() == 0, "only root can play two users")
class Users(DaemonTest):
    def setUp(self):
        super().setUp()
        if not is_possible():
            self.skipTest(f"the user {OTHER} cannot run what was built")
        os.chmod(self.folder, 0o755)
        os.chmod(self.environment["FAKE_NVML_TAKEN"], 0o777)
        os.mkdir(self.state, 0o700)
        self.other = pwd.getpwnam(OTHER)
        self.other_state = self.state + "-other"
        os.mkdir(self.other_state, 0o700)
        os.chown(self.other_state, self.other.pw_uid, 0)
        self.public = os.path.join(self.folder, "run", "vramd.sock")

    def serve(self, *arguments):
        return self.start_daemon("--socket", self.public, "--state", self.state, "--state", self.other_state, *arguments)

    def as_other(self, **more):
        return {"user": OTHER, "group": self.other.pw_gid, "extra_groups": [], **more}

    def environment_of(self, other):
        state = self.other_state if other else self.state
        return {"VRAM_STATE_DIR": state, "VRAM_DAEMON": self.public}

    def job_of(self, name, *script, other=False, run=()):
        """A job of root's or of the other user's; its id."""
        folder = os.path.join(self.folder, "of-other" if other else "of-root")
        if not os.path.isdir(folder):
            os.mkdir(folder)
            os.chown(folder, self.other.pw_uid if other else 0, 0)
        ready = os.path.join(folder, name)
        fake = os.path.join(BUILD, "tests", "fake_elastic")
        user = self.as_other() if other else {}
        process = self.start("run", "-q", "--elastic", "--name", name, *run, "--", fake, "--ready", ready, *script,
                             environment=self.environment_of(other), **user)
        self.wait_for(lambda: os.path.exists(ready) or process.poll() is not None, name)
        if process.poll() is not None:
            self.fail(process.communicate()[1])
        return self.member(name, other)["id"]

    def member(self, name, other):
        result = self.vram("ps", "--json", environment=self.environment_of(other), **(self.as_other() if other else {}))

        job, = (job for job in json.loads(result.stdout)["jobs"] if job["name"] == name)
        return {**job, "place": job["devices"][0]["processes"][0]["place"]}

    def ask_as_other(self, packet):
        """What the daemon answers to the other user."""
        script = ("import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1]); "
                  "s.send(bytes.fromhex(sys.argv[2])); s.settimeout(20); sys.stdout.write(s.recv(4096).hex())")
        result = subprocess.run(["python3", "-c", script, self.public, packet.hex()], capture_output=True, text=True, check=True,
                                **self.as_other())
        return Reply(bytes.fromhex(result.stdout))

    def grow_as(self, name, other):
        folder = "of-other" if other else "of-root"
        self.touch(f"{folder}/{name}.go")
        return self.wait_for(lambda: self.read(f"{folder}/{name}.grown") or self.read(f"{folder}/{name}.later"), name).split()[0]

    def test_the_socket_is_for_everybody_and_the_folders_are_not(self):
        self.serve()
        self.assertEqual((stat.S_IMODE(os.stat(self.public).st_mode), stat.S_IMODE(os.stat(os.path.dirname(self.public)).st_mode)),
                         (0o666, 0o755))
        self.assertEqual(self.ask_as_other(request(STATUS)).verdict, GRANTED)
        job = self.job_of("notebook", "--hold", "1024")
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.state, job + ".job")).st_mode), 0o600)
        read = subprocess.run(["cat", os.path.join(self.state, job + ".job")], capture_output=True, check=False, **self.as_other())
        self.assertNotEqual(read.returncode, 0)

    def test_another_users_job_is_neither_parked_by_hand_nor_for_room(self):
        self.serve()
        job = self.job_of("notebook", "--hold", "12288", "--idle", "30")
        for ask in (PARK, UNPARK):
            reply = self.ask_as_other(request(ask, job=job.encode(), timeout_ms=1000))
            self.assertEqual((reply.verdict, reply.text),
                             (NEVER, f"there is no job '{job}' that {OTHER} may move (may_park is own, no policy file); ask its "
                              "owner, or the administrator"))
        other = self.job_of("asker", "--hold", "8192", "--grow", "8192", other=True)
        self.assertEqual(self.grow_as("asker", True), "later")
        self.assertEqual(self.member("notebook", False)["place"], "card")
        del other

    def test_a_job_that_is_there_is_answered_like_one_that_is_not(self):
        self.serve()
        job = self.job_of("notebook", "--hold", "1024")
        texts = [self.ask_as_other(request(PARK, job=name.encode())).text for name in (job, "zzzz")]
        self.assertEqual(texts[0].replace(job, "zzzz"), texts[1])

    def test_the_policy_lets_a_user_have_what_idles(self):
        self.serve(*self.policy(f'[user.{OTHER}]\nmay_park = "idle"\n'))
        self.job_of("notebook", "--hold", "12288", "--idle", "30")
        self.job_of("asker", "--hold", "8192", "--grow", "8192", other=True)
        self.assertEqual(self.grow_as("asker", True), "granted")
        self.assertEqual(self.member("notebook", False)["place"], "parked")
        job = self.member("notebook", False)["id"]
        self.assertEqual(self.ask_as_other(request(UNPARK, job=job.encode())).verdict, NEVER, "and no more")

    def test_the_policy_lets_a_user_park_by_hand(self):
        self.serve(*self.policy(f'[user.{OTHER}]\nmay_park = "any"\n'))
        job = self.job_of("notebook", "--hold", "1024")
        result = self.vram("park", job, environment=self.environment_of(True), **self.as_other())
        self.assertRegex(result.stdout, rf"^parked job {job} \(root\): 1GiB, asked by {OTHER}\n$")
        self.assertEqual((result.returncode, self.member("notebook", False)["place"]), (0, "parked"))
        result = self.vram("unpark", job, environment=self.environment_of(True), **self.as_other())
        self.assertEqual((result.returncode, self.member("notebook", False)["place"]), (0, "card"), result.stderr)

    def test_a_refusal_names_the_policy(self):
        option, path = self.policy('[default]\nmay_park = "idle"\n')
        self.serve(option, path)
        job = self.job_of("notebook", "--hold", "1024")
        result = self.vram("park", job, environment=self.environment_of(True), **self.as_other())
        self.assertEqual((result.returncode, result.stderr),
                         (1, f"vram: there is no job '{job}' that {OTHER} may move (may_park is idle, {path}); ask its owner, or the "
                          "administrator\n"))

    def test_a_reserve_is_kept_across_users(self):
        self.serve(*self.policy('quantum = "1h"\n'))
        self.job_of("borrower", "--hold", "20480")
        self.job_of("lender", "--hold", "64", "--grow", "8000", other=True, run=("--reserve", "8GiB"))
        self.assertEqual(self.grow_as("lender", True), "granted")
        self.assertEqual(self.member("borrower", False)["place"], "parked")

    def test_memory_of_lower_priority_goes_first(self):
        self.serve(*self.policy(f'[default]\nmay_park = "idle"\n[user.{OTHER}]\npriority = -1\n'))
        self.job_of("high", "--hold", "8192", "--idle", "90")
        self.job_of("low", "--hold", "8192", "--idle", "30", other=True)
        self.job_of("asker", "--hold", "4096", "--grow", "8192")
        self.assertEqual(self.grow_as("asker", False), "granted")
        self.assertEqual((self.member("high", False)["place"], self.member("low", True)["place"]), ("card", "parked"))

    def test_nobody_admits_another_users_job(self):
        self.serve()
        job = self.job_of("notebook", "--hold", "1024")
        reply = self.ask_as_other(request(1, job=job.encode()))
        self.assertEqual((reply.verdict, reply.text),
                         (NEVER, f"there is no job '{job}' of {OTHER} in the folders that this daemon serves"))

    def test_whose_turn_it_is_is_told_without_the_others_name(self):
        self.serve(*self.policy('quantum = "1h"\n'))
        self.job_of("first", "--hold", "17000")
        self.job_of("second", "--hold", "16", "--grow", "17000")
        self.touch("of-root/second.go")
        self.wait_for(lambda: self.ask(request(STATUS), self.public).job, "the turn")
        self.assertEqual(self.ask_as_other(request(STATUS)).job, "other")

    def test_an_answer_counts_from_root_or_oneself_alone(self):
        """A socket of another user's is no daemon, whatever it answers."""
        folder = os.path.join(self.folder, "foreign")
        os.mkdir(folder)
        os.chown(folder, self.other.pw_uid, 0)
        script = ("import os, socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.bind(sys.argv[1]); "
                  "os.chmod(sys.argv[1], 0o666); s.listen(8); print('up', flush=True)\nwhile True: c = s.accept(); c[0].recv(999)")
        process = subprocess.Popen(["python3", "-c", script, folder + "/vramd.sock"], stdout=subprocess.PIPE, text=True,
                                   **self.as_other())
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "up\n")
        result = self.vram("run", "-q", "--elastic", "--reserve", "1GiB", "--", "true",
                           environment={"VRAM_DAEMON": folder + "/vramd.sock"})
        self.assertRegex(result.stderr, "^vram: no vramd listens at .*, so nobody keeps the reserve; ")
        self.assertEqual(result.returncode, 125)


if __name__ == "__main__":
    main()
