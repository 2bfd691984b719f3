"""vramd starts, says that it is ready, and ends; it refuses what it does not understand, and nothing that is sent to it hurts it.

usage: service_test.py BUILD
"""

import os
import re
import signal
import socket
import stat
import subprocess
import time

from daemon import (ADMIT, GRANTED, NEVER, OTHER_VERSION, ROOM, STATUS, VERSION, VRAMD, DaemonTest, Reply, main,
                    request)

BAD_POLICIES = [
    ("quantum = 5\n", ":1: quantum must be a text in quotes, like quantum = \"2s\""),
    ("\nidle_after = \"soon\"\n", ":2: idle_after: 'soon' is not a time; write one like 60s"),
    ("limits = \"4GiB\"\n", ":1: unknown key 'limits'; known are idle_after, quantum, host_memory and the tables [default], "
     "[user.NAME], [group.NAME], [card.NUMBER]"),
    ("[user.alice]\nmay_park = \"all\"\n", ":2: may_park: 'all' is unknown; use own, idle or any"),
    ("[user.alice]\nlimit = \"4\"\n", ":2: limit: '4' has no unit; did you mean 4GiB, 4MiB, 4B or 4%?"),
    ("[user]\nlimit = \"4GiB\"\n", ":2: 'limit' stands in [user] itself; write [user.NAME]"),
    ("[group.a]\npriority = 2000\n", ":2: priority must be a whole number from -1000 to 1000"),
    ("[default]\nceiling = \"4GiB\"\n", ":2: unknown key 'ceiling' in [default]; known are limit, reserve, may_park, priority"),
    ("[card.0]\nlimit = \"4GiB\"\n", ":2: unknown key 'limit' in [card.0]; known is budget"),
    ("[groups.a]\n", ":1: unknown table 'groups'; known are [default], [user.NAME], [group.NAME], [card.NUMBER]"),
    ("host_memory = \"50%\"\n", ":1: host_memory must be in bytes, like host_memory = \"64GiB\""),
]


class Service(DaemonTest):
    def test_it_says_when_it_is_ready_and_ends_when_told(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start_daemon()
            self.assertTrue(self.is_alive())
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=10), 0)
        self.assertIn("vramd: ready: 1 cards, 0 jobs, no policy file\n", self.log())

    def test_folder_and_socket_are_the_users_alone(self):
        self.start_daemon()
        self.assertEqual((stat.S_IMODE(os.stat(self.state).st_mode), stat.S_IMODE(os.stat(self.socket).st_mode)), (0o700, 0o600))

    def test_a_folder_that_others_may_write_to_is_refused(self):
        folder = os.path.join(self.folder, "open")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        result = self.vramd("--socket", folder + "/vramd.sock")
        self.assertEqual((result.returncode, result.stderr),
                         (1, f"vramd: socket folder {folder} belongs to another user or is writable by others; choose one of your "
                          "own with --socket\n"))

    def test_there_is_one_daemon(self):
        first = self.start_daemon()
        result = self.vramd()
        self.assertEqual((result.returncode, result.stderr),
                         (1, f"vramd: another vramd listens in {self.state}; end that one first\n"))
        self.kill(first)
        self.start_daemon()
        self.assertTrue(self.is_alive())

    def test_a_socket_of_the_service_manager_is_taken_over(self):
        path = os.path.join(self.folder, "given.sock")
        given = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given.bind(path)
        given.listen(8)
        self.addCleanup(given.close)
        notify = self.notify_socket()
        script = f"import os; os.dup2({given.fileno()}, 3); os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid())); "
        script += f"os.execv({VRAMD!r}, ['vramd'])"
        process = subprocess.Popen(["python3", "-c", script], env={**self.environment, "NOTIFY_SOCKET": notify.getsockname()},
                                   pass_fds=[given.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        with notify:
            notify.settimeout(20)
            self.assertEqual(notify.recv(100), b"READY=1")
        self.assertEqual(self.ask(request(STATUS), path).verdict, GRANTED)

    def test_a_watchdog_gets_its_signs_of_life(self):
        notify = self.notify_socket()
        process = subprocess.Popen([VRAMD], stderr=subprocess.PIPE, text=True,
                                   env={**self.environment, "NOTIFY_SOCKET": notify.getsockname(), "WATCHDOG_USEC": "400000"})
        self.addCleanup(self.end, process)
        with notify:
            notify.settimeout(5)
            said = [notify.recv(100) for _ in range(6)]
        self.assertEqual(said[0], b"READY=1")
        self.assertGreaterEqual(said.count(b"WATCHDOG=1"), 3, said)

    def test_a_bad_policy_is_refused_with_its_place(self):
        for text, message in BAD_POLICIES:
            with self.subTest(text=text):
                option, path = self.policy(text)
                for more in ((), ("--dry-run",)):
                    result = self.vramd(option, path, *more)
                    self.assertEqual((result.returncode, result.stderr), (1, f"vramd: {path}{message}\n"))
        self.assertRegex(self.vramd("--policy", "/nowhere.toml").stderr, "^vramd: /nowhere.toml: there is no such file; ")

    def test_wrong_usage_is_one_line_with_the_next_step(self):
        for arguments, message in ((("--nonsense",), "; see 'vramd --help'"), (("--log-level", "loud"), "use error, info or debug"),
                                   (("--sim", "2"), "did you mean"), (("--socket", "/x" * 80), "choose a shorter one"),
                                   (("--state", "/nowhere"), "is no folder; make it, or correct the path")):
            result = self.vramd(*arguments)
            self.assertIn(message, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)
            self.assertIn(result.returncode, (1, 2))
        self.assertRegex(self.vramd("--version").stdout, r"^vramd \d+\.\d+\.\d+\n$")

    def test_every_option_is_in_the_manual_and_no_other(self):
        with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "docs", "user", "vramd.8.scd"),
                  encoding="utf-8") as file:
            section = file.read().split("# OPTIONS")[1].split("# POLICY")[0]
        option = r"(?<![\w-])--?[a-z][a-z-]*"
        documented = {name for line in section.splitlines() if line.startswith("*-") for name in re.findall(option, line.replace("*", " "))}
        self.assertEqual(documented, set(re.findall(option, self.vramd("--help").stdout.split("Options:")[1])))

    def test_the_example_policy_is_one(self):
        example = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "integrations", "systemd", "policy.toml")
        result = self.vramd("--policy", example, "--dry-run")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("22.8GiB may be reserved", result.stdout)

    def test_dry_run_tells_what_the_policy_means(self):
        self.elastic("notebook", "--hold", "1024", "--idle", "30")
        job = self.job("notebook")["id"]
        user = self.user()
        result = self.vramd(*self.policy(f'[user.{user}]\npriority = 3\nreserve = "1GiB"\n'), "--dry-run")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, rf"job {job} \({user}\): admitted with a reserve of 1GiB; priority 3, may park own; idle 1GiB, "
                         "at work 0B, parked 0B\n")
        self.assertIn("card 0: 23GiB of 24GiB free, 24GiB may be reserved\n", result.stdout)
        self.assertFalse(os.path.exists(self.socket), "it does not listen")

    @staticmethod
    def user():
        return subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()

    def test_bad_packets_end_the_connection_and_nothing_else(self):
        self.start_daemon()
        for packet in (b"x", b"x" * 112, request(STATUS)[:-1], request(STATUS) + b"x", request(0), request(99),
                       request(STATUS, magic=7), request(ADMIT, job=b"j" * 64), os.urandom(112), os.urandom(4096)):
            line = self.call()
            line.send(packet)
            self.assertEqual(line.recv(4096), b"", packet[:20])
            self.assertTrue(self.is_alive())
        self.assertIn("a packet of another size", self.log())

    def test_another_version_is_told_which_one_is_spoken(self):
        self.start_daemon()
        line = self.call()
        line.send(request(STATUS, version=9))
        reply = Reply(line.recv(4096))
        self.assertEqual((reply.version, reply.verdict), (VERSION, OTHER_VERSION))

    def test_a_client_has_one_request_open(self):
        self.start_daemon()
        self.elastic("holder", "--hold", "64", run=("--reserve", "23GiB"))
        line = self.call()
        waiting = self.start("run", "-q", "--elastic", "--reserve", "2GiB", "--", "sleep", "60")
        job = self.wait_for(lambda: [job["id"] for job in self.jobs() if not job["name"]], "the job")[0]
        del waiting
        line.send(request(ADMIT, flags=1, job=job.encode()))
        self.assertTrue(self.is_alive())
        line.send(request(STATUS))
        line.send(request(STATUS))
        with self.assertRaises((ConnectionResetError, BrokenPipeError, StopIteration)):
            while True:
                line.send(request(STATUS))
                if not line.recv(4096):
                    raise StopIteration
        self.assertTrue(self.is_alive())

    def test_one_user_cannot_take_all_connections(self):
        self.start_daemon()
        lines = []
        for _ in range(200):
            lines.append(self.call())
            time.sleep(0.001)
        kept = 0
        for line in lines:
            try:
                line.send(request(STATUS))
                kept += bool(line.recv(4096))
            except OSError:  # it was disconnected
                pass
        self.assertEqual(kept, 128)
        for line in lines:
            line.close()
        self.wait_for(self.is_alive, "the daemon")

    def test_a_client_that_never_reads_is_let_go(self):
        self.start_daemon()
        line = self.call()
        line.setblocking(False)
        for _ in range(20000):
            try:
                line.send(request(STATUS))
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                break
        self.assertTrue(self.is_alive())

    def test_room_is_for_processes_of_jobs(self):
        self.start_daemon()
        reply = self.ask(request(ROOM, size=1))
        self.assertEqual((reply.verdict, reply.text), (NEVER, "this process is in no job that this daemon serves"))

    def test_a_job_file_cut_short_does_not_end_the_daemon(self):
        self.start_daemon(*self.policy('idle_after = "1ms"\n'))
        self.elastic("notebook", "--hold", "1024", "--idle", "30", run=("--park-after", "1s"))
        job = self.job("notebook")["id"]
        os.truncate(os.path.join(self.state, job + ".job"), 0)
        time.sleep(1.5)
        self.assertTrue(self.is_alive())


if __name__ == "__main__":
    main()
