"""Programs at work while they are parked and restored again and again: nothing wrong, nobody stuck.

usage: threads_test.py BUILD [--seconds N]
"""

import time

from scene import MIB, ElasticTest, main, option, seeded

SECONDS = option("--seconds", 3)


class Threads(ElasticTest):
    def trouble(self, names, seed):
        """Parks and restores for a while; how often it was parked."""
        chance = seeded(seed)
        end = time.monotonic() + SECONDS
        parked = 0
        while time.monotonic() < end:
            verb = chance.choice(("park", "park", "unpark"))
            for told in self.move(verb, chance.choice(names)):
                # A program at work may take its memory back at once, and may be too busy for a moment.
                self.assertIn(told["outcome"], ("parked", "restored", "already", "overtaken", "refused"), told)
                self.assertIn(told["refusal"], (None, "busy"), told)
                parked += told["outcome"] == "parked"
            time.sleep(chance.random() * 0.05)
        return parked

    def test_that_launch_and_allocate(self):
        scene = self.scene()
        self.take_every_kind(scene)
        self.tell(scene, "work 6")
        parked = self.trouble(["job"], 1)
        rounds = int(self.tell(scene, "rest"))
        self.tell(scene, "check")
        self.assertGreater(parked, 0)
        self.assertGreater(rounds, 100)

    def test_of_two_jobs(self):
        scenes = {name: self.scene(name=name) for name in ("one", "two")}
        for scene in scenes.values():
            self.tell(scene, f"take big scattered {64 * MIB}", "work 3")
        parked = self.trouble(list(scenes), 2)
        for scene in scenes.values():
            self.tell(scene, "rest", "check")
        self.assertGreater(parked, 0)

    def test_that_fork_meanwhile(self):
        scene = self.scene()
        self.tell(scene, f"take big block {32 * MIB}", "work 3")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            self.tell(scene, "fork")
            self.move("park")
            self.tell(scene, "join")
        self.tell(scene, "rest", "check")

    def test_a_busy_card_is_waited_for(self):
        scene = self.scene()
        self.tell(scene, f"take big block {16 * MIB}", "spin 800")
        started = time.monotonic()
        told, = self.move("park")
        self.assertIn(told["outcome"], ("parked", "refused"), told)
        if told["outcome"] == "refused":
            self.assertEqual(told["refusal"], "busy")
        else:
            self.assertGreater(time.monotonic() - started, 0.3, "work was under way")
        self.tell(scene, "check")


if __name__ == "__main__":
    main()
