"""A program gives a part of its memory: the rest stays, its bytes and its account are right, and it can give more.

usage: part_test.py BUILD
"""

from daemon_test import KEEPS_NOBODY_WAITING, SharedCard
from scene import KINDS, MIB, ElasticTest, main

# What one block of own pools may lie on; a part is whole ones of them.
PAGE = 32 * MIB


class Part(ElasticTest):
    def shown(self):
        process = self.process_of()
        return process["place"], process["used"], process["parked_bytes"]

    def test_is_off_the_card_and_out_of_the_account_and_the_rest_is_not(self):
        scene = self.scene()
        self.take_every_kind(scene)
        self.tell(scene, f"take big virtual {64 * MIB}", f"take blocks block {96 * MIB}")
        self.park()
        self.unpark()
        whole, held = self.shown()[1], self.held()
        given = 0
        for size in (2 * MIB, 40 * MIB, 10 * MIB):
            self.assertEqual(self.take_part(size), 0)
            place, used, parked = self.shown()
            self.assertEqual((place, used, self.held()), ("parked", whole - parked, held - parked))
            self.assertTrue(given + size <= parked <= given + size + PAGE, (given, size, parked))
            given = parked
        self.tell(scene, "check")
        self.assertEqual((*self.shown(), self.held()), ("card", whole, 0, held))
        self.tell(scene, "ids", "give all")

    def test_is_followed_by_the_rest_when_all_is_parked(self):
        scene = self.scene()
        self.take_every_kind(scene)
        whole = self.park()["bytes"]
        empty = self.held()
        self.unpark()
        self.assertEqual(self.take_part(6 * MIB), 0)
        told = self.park()
        self.assertEqual((told["bytes"], self.held()), (whole, empty))
        self.assertGreaterEqual(whole, sum(KINDS.values()))
        told, = self.move("park")
        self.assertEqual(told["outcome"], "already")
        self.tell(scene, "check")

    def test_that_idle_memory_makes_up_for_moves_nothing(self):
        scene = self.scene()
        self.tell(scene, "keep", "take one async 512", f"take idle async {64 * MIB}")
        held = self.held()
        self.tell(scene, "give idle")
        self.assertEqual(self.held(), held, "it idles on the card")
        self.assertEqual(self.take_part(4 * MIB), 0)
        self.assertLessEqual(self.held(), held - 64 * MIB)
        self.assertEqual(self.process_of()["times_parked"], 0)
        self.tell(scene, "check")

    def test_of_a_limit_is_the_programs_all_the_same(self):
        scene = self.scene("-m", "1GiB")
        self.tell(scene, f"take big virtual {256 * MIB}", f"take more virtual {64 * MIB}")
        left = self.tell(scene, "left")
        self.assertEqual(self.take_part(64 * MIB), 0)
        self.assertEqual(self.tell(scene, "left"), left)
        self.tell(scene, "check")


class HostMemory(SharedCard):
    card = "1x2GiB"
    MISSING = 160 * MIB
    # src/daemon/room.cc: what is taken beyond what is missing, of a card of this size.
    MORE = 128 * MIB

    def test_that_holds_neither_of_two_programs_whole_is_enough_for_both_in_turns(self):
        budget = 2 * (self.MISSING + self.MORE + PAGE)
        self.start_daemon(KEEPS_NOBODY_WAITING + f'host_memory = "{budget // MIB}MiB"\n')
        programs = [self.start_program() for _ in range(2)]
        left = 2048 * MIB - self.held()
        # Beside each other they miss 400 MiB of the card.
        size = (left + self.MISSING) // 2 // PAGE * PAGE
        self.assertGreater(3 * size - left, budget, "one whole, and what is then missing of the other")
        for name, scene in programs:
            self.tell(scene, f"take large block {size}")
            self.assertEqual(scene.ask("check"), "ok 1", name)
        for _ in range(2):
            for name, scene in programs:
                self.assertEqual(scene.ask("fill large"), "ok", name)
                self.assertEqual(scene.ask("check"), "ok 1", name)
                self.assertLessEqual(sum(self.process_of(one)["parked_bytes"] for one, _ in programs), budget)
        for name, _ in programs:
            self.assertGreater(self.process_of(name)["times_parked"], 0, name)


if __name__ == "__main__":
    main()
