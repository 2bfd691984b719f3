"""Programs that share a small card through vramd, while the daemon is killed and started again at any moment, programs are
killed, and people park and unpark: no wrong byte, nobody stuck, nobody refused what is there for it, nothing left behind.

usage: daemon_test.py BUILD [--cycles N] [--seed N]
"""

import collections
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from scene import BUILD, MIB, Ended, ElasticTest, main, option, seeded

VRAMD = os.path.join(BUILD, "bin", "vramd")
CYCLES = option("--cycles", 12)
SEED = option("--seed", 1)
PROGRAMS = 3
# Two of three fit beside their contexts.
BLOCK = 640 * MIB
KEEPS_NOBODY_WAITING = 'idle_after = "50ms"\nquantum = "100ms"\n'
MOVES_NOBODY = 'idle_after = "1h"\nquantum = "1h"\n'
# src/interpose/room.cc: how long a daemon that is gone is waited for.
UNTIL_IT_IS_BACK = 10


class SharedCard(ElasticTest):
    """A daemon and programs that it serves."""

    def setUp(self):
        super().setUp()
        self.seen = collections.Counter()
        self.daemon = None
        self.number = 0

    def start_daemon(self, policy=KEEPS_NOBODY_WAITING):
        """Returns when it listens."""
        with open(os.path.join(self.folder, "policy.toml"), "w", encoding="ascii") as file:
            file.write(policy)
        notify = os.path.join(self.folder, f"notify{time.monotonic_ns()}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, \
                open(os.path.join(self.folder, "vramd.log"), "a", encoding="utf-8") as log:
            ready.bind(notify)
            ready.settimeout(30)
            self.daemon = subprocess.Popen([VRAMD, "--sim", self.card, "--policy", file.name], stdout=log, stderr=log,
                                           env={**self.environment, "NOTIFY_SOCKET": notify})
            self.addCleanup(self.end, self.daemon)
            self.assertEqual(ready.recv(4096), b"READY=1")

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()

    def start_program(self, *commands):
        self.number += 1
        name = f"job{self.number}"
        scene = self.scene("-m", "1500MiB", name=name)
        self.tell(scene, *commands)
        return name, scene


class Daemon(SharedCard):
    card = "1x3GiB"

    def fill_the_card(self):
        return [self.start_program(f"take large block {BLOCK}")[1] for _ in range(2)]

    def test_who_waits_for_room_goes_on_when_the_daemon_is_killed_and_comes_back(self):
        self.start_daemon(MOVES_NOBODY)
        programs = self.fill_the_card()
        _, third = self.start_program()
        third.tell(f"take large block {BLOCK}")
        self.assertTrue(third.is_silent_for(1), "it waits")
        self.kill_daemon()
        self.assertTrue(third.is_silent_for(1), "it goes on waiting")
        self.start_daemon()
        self.assertEqual(third.hear(), "ok")
        for scene in (*programs, third):
            self.assertEqual(scene.ask("check"), "ok 1")

    def test_who_needs_room_while_the_daemon_is_away_waits_for_it(self):
        self.start_daemon()
        programs = self.fill_the_card()
        _, third = self.start_program()
        self.kill_daemon()
        third.tell(f"take large block {BLOCK}")
        self.assertTrue(third.is_silent_for(1), "it waits")
        self.start_daemon()
        self.assertEqual(third.hear(), "ok")
        for scene in (*programs, third):
            self.assertEqual(scene.ask("check"), "ok 1")

    def test_a_daemon_that_does_not_come_back_is_waited_for_once(self):
        self.start_daemon()
        self.fill_the_card()
        _, third = self.start_program()
        self.kill_daemon()
        for least, most in ((UNTIL_IT_IS_BACK - 1, UNTIL_IT_IS_BACK + 10), (0, UNTIL_IT_IS_BACK - 2)):
            start = time.monotonic()
            self.assertIn("OUT_OF_MEMORY", third.ask(f"take large block {BLOCK}"))
            self.assertTrue(least <= time.monotonic() - start <= most, time.monotonic() - start)

    def live(self, name, scene, chance, stop):
        """A program at work now and then, in a thread; it goes on until told to stop or killed."""
        blocks = 1
        try:
            while not stop.is_set():
                said = scene.ask(chance.choice(("check", "fill large")))
                if not said.startswith("ok"):
                    self.wrong.append(f"{name}: {said}")
                    return
                if chance.random() < 0.2:
                    blocks += 1
                    self.tell(scene, f"take more{blocks} async {chance.randrange(1, 4 * MIB)}", f"give more{blocks}")
                self.seen["done"] += 1
                time.sleep(chance.random() * 0.3)
        except Ended:
            if name not in self.killed:
                self.wrong.append(f"{name} ended by itself")
        except Exception as error:  # pylint: disable=broad-except
            self.wrong.append(f"{name}: {error!r}")

    def test_programs_and_the_daemon_killed_at_random_cost_nobody_else_anything(self):
        chance = seeded(SEED)
        self.wrong, self.killed = [], set()
        stop = threading.Event()
        lives = {}

        def start():
            name, scene = self.start_program(f"take large block {BLOCK}", f"take small pitch {3 * MIB}")
            thread = threading.Thread(target=self.live, args=(name, scene, seeded(f"{SEED} {name}"), stop))
            lives[name] = scene, thread
            thread.start()

        self.start_daemon()
        try:
            for _ in range(PROGRAMS):
                start()
            for _ in range(CYCLES):
                what = chance.choice(("kill the daemon", "kill the daemon", "park", "unpark", "kill a program"))
                name = chance.choice(list(lives))
                if what == "kill the daemon":
                    self.kill_daemon()
                    time.sleep(chance.random() * 0.5)
                    self.start_daemon()
                elif what == "kill a program":
                    scene, thread = lives.pop(name)
                    self.killed.add(name)
                    for process in self.processes_of(name):
                        os.kill(process["pid"], signal.SIGKILL)
                    thread.join(60)
                    self.finish(scene.process)
                    start()
                else:
                    self.vram(what, name, "--timeout", "2s")
                self.seen[what] += 1
                self.assertEqual(self.wrong, [])
                time.sleep(chance.random() * 0.2)
        finally:
            stop.set()
            for _, thread in lives.values():
                thread.join(90)
        self.assertEqual(self.wrong, [])
        self.assertFalse([name for name, (_, thread) in lives.items() if thread.is_alive()], "stuck")
        moved = sum(process["times_parked"] for job in self.jobs() for device in job["devices"] for process in device["processes"])
        for name, (scene, _) in lives.items():
            scene.process.stdin.close()
            self.assertEqual(scene.process.wait(timeout=60), 0, name)
        self.end(self.daemon)
        os.remove(os.path.join(self.state, "vramd.sock"))  # a daemon leaves it to the next one
        self.assert_nothing_left()
        self.assertGreater(moved, 0)
        print(f"{CYCLES} cycles: " + ", ".join(f"{count} x {what}" for what, count in sorted(self.seen.items())), file=sys.stderr)


if __name__ == "__main__":
    main()
