"""Programs that are killed while their memory moves leave nothing behind, and hold nobody up.

usage: death_test.py BUILD
"""

import os
import signal
import threading
import time

from scene import GIB, MIB, ElasticTest, Ended, main, seeded

# The simulated link to the card: slow enough that a kill falls between its pieces (costs.h has the words).
SLOW_LINK = "card.to_host 1000 400\ncard.to_card 1000 400\n"
KILLS = 8


# The card is small, so that moving takes no time: two contexts, and one of two large blocks.
LARGE = GIB // 4


class Death(ElasticTest):
    card = "1x2GiB"

    def kill(self, name="job"):
        for process in self.processes_of(name):
            try:
                os.kill(process["pid"], signal.SIGKILL)
            except ProcessLookupError:
                pass

    def slow_scene(self, name):
        costs = self.script("costs", SLOW_LINK, 0o644)
        return self.scene(name=name, environment={"VRAM_SIM_COSTS": costs})

    def killed_while(self, verb, delay, name):
        """A scene that dies `delay` seconds after it was asked; returns what the command said."""
        scene = self.slow_scene(name)
        self.tell(scene, f"take big block {LARGE}", f"take own scattered {64 * MIB}", "many small 100 512")
        if verb == "unpark":
            self.park(name)
        told = []
        asking = threading.Thread(target=lambda: told.extend(self.move(verb, name)))
        asking.start()
        time.sleep(delay)
        self.kill(name)
        asking.join(30)
        self.assertFalse(asking.is_alive(), "the command waits for the dead")
        scene.process.wait(timeout=30)
        return told

    def test_while_it_parks_or_restores(self):
        chance = seeded(3)
        outcomes = set()
        for number in range(KILLS):
            verb = ("park", "unpark")[number % 2]
            for told in self.killed_while(verb, chance.random() * 0.8, f"job{number}"):
                outcomes.add(told["outcome"])
            self.assert_nothing_left()
        self.assertLessEqual(outcomes, {"ended", "parked", "restored"})

    def test_while_it_is_parked(self):
        scene = self.scene()
        self.tell(scene, f"take big block {LARGE}")
        self.park()
        self.kill()
        scene.process.wait(timeout=30)
        self.assert_nothing_left()

    def test_while_it_waits_for_memory(self):
        first = self.scene(name="first")
        second = self.scene(name="second")
        self.tell(first, f"take big block {5 * LARGE // 2}")
        self.park("first")
        self.tell(second, f"take big block {5 * LARGE // 2}")
        first.tell("check")
        self.wait_for(lambda: self.process_of("first")["place"] == "waiting", "the wait")
        self.kill("first")
        with self.assertRaises(Ended):
            first.hear()
        self.tell(second, "check")
        self.park("second")
        self.tell(second, "check")
        second.process.stdin.close()
        second.process.wait(timeout=30)
        self.assert_nothing_left()

    def test_of_the_command_that_asked(self):
        scene = self.slow_scene("job")
        self.tell(scene, f"take big block {LARGE}")
        for verb in ("park", "unpark") * 3:
            asking = self.start(verb, "job", "--timeout", "50s")
            time.sleep(0.15)
            asking.kill()
            asking.wait()
            self.wait_for(lambda: self.process_of()["place"] in ("parked", "card"), "the end of the move")
        self.tell(scene, "check")

    def test_an_ordinary_end_while_parked(self):
        scene = self.scene()
        self.take_every_kind(scene)
        self.park()
        scene.process.stdin.close()
        self.assertEqual(scene.process.wait(timeout=30), 0)
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
