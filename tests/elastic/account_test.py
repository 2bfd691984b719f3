"""Accounts and limits while memory moves: what is parked is nobody's on the card, and a limit is a limit at every moment.

usage: account_test.py BUILD
"""

from scene import GIB, KIB, MIB, ElasticTest, main


# The card is small, so that moving takes no time: two contexts, and one of two large blocks.
LARGE = GIB // 4


class Account(ElasticTest):
    card = "1x2GiB"

    def test_parked_memory_is_off_the_card_and_out_of_the_account(self):
        scene = self.scene()
        self.tell(scene, "take one block 512")
        self.park()
        empty, alone = self.held(), self.process_of()["used"]
        self.unpark()
        self.tell(scene, f"take big block {LARGE}", f"take own virtual {LARGE // 2}")
        self.assertGreaterEqual(self.held(), empty + 3 * LARGE // 2)
        before = self.held(), self.process_of()["used"]
        told = self.park()
        self.assertGreaterEqual(told["bytes"], 3 * LARGE // 2)
        self.assertEqual(self.held(), empty, "only the context is left on the card")
        process = self.process_of()
        self.assertEqual((process["used"], process["parked_bytes"]), (alone, told["bytes"]))
        self.unpark()
        self.assertEqual((self.held(), self.process_of()["used"]), before)
        self.assertEqual(self.process_of()["parked_bytes"], 0)
        self.tell(scene, "check", "give all")
        self.park_if_anything()
        self.assertLessEqual(self.process_of()["used"], alone)

    def park_if_anything(self):
        for told in self.move("park"):
            self.assertIn(told["outcome"], ("parked", "already", "nothing"), told)

    def test_a_limit_holds_before_between_and_after(self):
        scene = self.scene("-m", "1GiB")
        self.tell(scene, f"take big block {LARGE}")
        self.assertRegex(scene.ask(f"take more block {LARGE}"), "no .*OUT_OF_MEMORY")
        free = self.tell(scene, "left")
        self.park()
        self.assertEqual(self.tell(scene, "left"), free, "what the program sees is what it has")
        self.park_if_anything()
        self.assertRegex(scene.ask(f"take more block {LARGE}"), "no .*OUT_OF_MEMORY")
        self.park_if_anything()
        left = int(free.split()[0]) // (2 * MIB) * (2 * MIB)
        self.tell(scene, f"take rest virtual {left - 4 * MIB}", "check")
        self.assertLessEqual(self.process_of()["peak"], 4 * LARGE)
        self.assertLessEqual(self.held(), 4 * LARGE)
        for _ in range(3):
            self.park()
            self.unpark()
            self.assertRegex(scene.ask(f"take more block {64 * MIB}"), "no .*OUT_OF_MEMORY")
        self.tell(scene, "check")

    def test_small_blocks_cost_what_they_are(self):
        scene = self.scene()
        self.tell(scene, "take one block 512")
        before = self.process_of()["used"]
        self.tell(scene, "many small 10000 512", "check")
        self.assertLessEqual(self.process_of()["used"] - before, 8 * MIB, "10,000 blocks of 512 B")
        self.park()
        self.tell(scene, "check", "give all")

    def test_middling_blocks_do_not_cost_whole_pages_each(self):
        scene = self.scene()
        self.tell(scene, "take one block 512")
        before = self.process_of()["used"]
        self.tell(scene, f"many middling 400 {300 * KIB}")
        self.assertLessEqual(self.process_of()["used"] - before, 400 * 300 * KIB * 3 // 2)
        self.park()
        self.tell(scene, "check")

    def test_what_is_freed_goes_back(self):
        scene = self.scene()
        self.tell(scene, "take one block 512")
        self.park()
        empty = self.held()
        for _ in range(4):
            self.tell(scene, f"take big block {LARGE}", f"take own scattered {64 * MIB}", f"take async async {256 * MIB}")
            self.park()
            self.tell(scene, "give big", "give own", "give async", "check")
        self.park()
        self.assertEqual(self.held(), empty)

    def test_another_job_has_the_room_meanwhile(self):
        first = self.scene(name="first")
        self.tell(first, f"take big block {5 * LARGE // 2}")
        second = self.scene(name="second")
        self.assertRegex(second.ask(f"take big block {5 * LARGE // 2}"), "no .*OUT_OF_MEMORY")
        self.park("first")
        self.tell(second, f"take big block {5 * LARGE // 2}")
        # The card has no room: a command says so, and a call of the program waits.
        told, = self.move("unpark", "first", timeout="1s")
        self.assertIn(told["outcome"], ("refused", "no_answer"), told)
        first.tell("check")
        self.assertTrue(first.is_silent_for(1.0), "it waits for memory")
        self.wait_for(lambda: self.process_of("first")["place"] == "waiting", "the word for it")
        self.tell(second, "check", "give big")
        self.assertEqual(first.hear(), "ok 1", "as soon as there is room")
        self.assertEqual(self.process_of("first")["place"], "card")

    def test_one_that_waits_has_the_room_that_a_park_makes(self):
        first = self.scene(name="first")
        second = self.scene(name="second")
        self.tell(first, f"take big virtual {5 * LARGE // 2}")
        self.park("first")
        self.tell(second, f"take big block {5 * LARGE // 2}")
        names = ["first", "second"]
        for _ in range(4):
            waiting, holding = names
            scenes = {"first": first, "second": second}
            scenes[waiting].tell("check")
            self.wait_for(lambda name=waiting: self.process_of(name)["place"] == "waiting", "the wait")
            self.park(holding)
            self.assertEqual(scenes[waiting].hear(), "ok 1")
            names.reverse()


if __name__ == "__main__":
    main()
