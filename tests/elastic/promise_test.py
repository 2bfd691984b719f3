"""A reserve is a promise: whatever others hold, and whether or not it can be parked, who wants its reserve gets it.

usage: promise_test.py BUILD
"""

import time

from daemon_test import KEEPS_NOBODY_WAITING, SharedCard
from scene import GIB, MIB, main

CARD = 3 * GIB
RESERVE = GIB
ARRAY = 64 * MIB
# What one takes beside its row, and what a measurement may find.
MARGIN = 96 * MIB
# The time of one park, on a loaded machine too.
SOON = 30


class Promise(SharedCard):
    card = "1x3GiB"

    def setUp(self):
        super().setUp()
        self.start_daemon(KEEPS_NOBODY_WAITING)

    def owner(self, begin=True):
        return self.scene("--reserve", f"{RESERVE // MIB}MiB", name="owner", begin=begin)

    def context(self):
        """What the owner's context costs."""
        return self.process_of("owner")["used"]

    def assert_kept(self, owner):
        """All of the reserve can be had now."""
        size = RESERVE - self.context() - MARGIN // 2
        start = time.monotonic()
        self.assertEqual(owner.ask(f"take own block {size}"), "ok")
        self.assertLess(time.monotonic() - start, SOON)
        self.assertEqual(owner.ask("check"), "ok 1")

    def log(self):
        with open(f"{self.folder}/vramd.log", encoding="utf-8") as log:
            return log.read()

    def test_what_nobody_can_park_ends_where_the_reserve_of_another_begins(self):
        owner = self.owner()
        borrower = self.scene(name="borrower")
        self.tell(borrower, f"take lent block {448 * MIB}")
        had = int(self.tell(borrower, f"arrays 64 {ARRAY}"))
        left = CARD - RESERVE - self.context() - had * ARRAY
        self.assertTrue(0 <= left < ARRAY + MARGIN, f"{had} arrays leave {left / MIB} MiB")
        self.assertRegex(self.log(), r"refused job \w+ \(\S+\): \S+ more on card 0 beside \S+ that cannot be parked would break a "
                                     r"reserve; \S+ are left: job \w+ \(\S+\) has reserved 1GiB")
        self.assert_kept(owner)
        self.assertEqual(borrower.ask("check"), "ok 1")

    def test_contexts_of_others_leave_the_reserve_of_one_that_has_none_yet(self):
        owner = self.owner(begin=False)
        borrower = self.scene(name="borrower")
        had = int(self.tell(borrower, "contexts 8"))
        self.assertTrue(1 <= had <= 2, f"{had} beside the first one")
        self.tell(owner, "begin")
        self.assert_kept(owner)

    def test_memory_is_not_shared_where_its_owner_could_not_give_it_back(self):
        owner = self.owner()
        borrower = self.scene(name="borrower")
        size = CARD - RESERVE - self.context()
        self.tell(borrower, f"take large shareable {size}", f"take small shareable {64 * MIB}")
        self.assertIn("OUT_OF_MEMORY", borrower.ask("export large"))
        self.assert_kept(owner)
        self.tell(borrower, "check", "give large", "export small")
        self.assertEqual(borrower.ask("check"), "ok 1")

    def test_managed_memory_pins_all_that_its_process_holds(self):
        owner = self.owner()
        borrower = self.scene(name="borrower")
        size = CARD - RESERVE - self.context()
        self.tell(borrower, f"take large block {size}")
        self.assertIn("OUT_OF_MEMORY", borrower.ask(f"take managed managed {MIB}"))
        self.assert_kept(owner)

    def test_a_job_that_is_never_parked_takes_what_is_nobodys_and_no_more(self):
        owner = self.owner()
        stays = self.scene("--no-park", name="stays")
        self.tell(stays, f"take one block {GIB}")
        self.assertIn("OUT_OF_MEMORY", stays.ask(f"take two block {GIB}"))
        self.assert_kept(owner)
        self.assertEqual(stays.ask("check"), "ok 1")

    def test_a_daemon_that_comes_later_binds_who_was_there_before(self):
        self.kill_daemon()
        borrower = self.scene(name="borrower")
        self.tell(borrower, f"arrays 2 {ARRAY}")
        self.start_daemon(KEEPS_NOBODY_WAITING)
        owner = self.owner()
        had = 2 + int(self.tell(borrower, f"arrays 64 {ARRAY}"))
        self.assertLessEqual(had * ARRAY, CARD - RESERVE - self.context())
        self.assert_kept(owner)

    def test_a_context_that_grows_by_itself_refuses_nothing_while_there_is_room(self):
        """Launches take memory that no call tells beforehand: it is found when the next call measures."""
        owner = self.owner()
        for number, then in enumerate((f"take large block {64 * MIB}", f"take odd block {512}", f"arrays 1 {ARRAY}", "work 2",
                                       "contexts 1", f"take async async {64 * MIB}", f"take virtual virtual {64 * MIB}")):
            borrower = self.scene(name=f"borrower{number}")
            before = self.process_of(f"borrower{number}")["used"]
            self.tell(borrower, "deep 1536", then, "deep 2048")
            self.assertGreater(self.process_of(f"borrower{number}")["used"], before + 64 * MIB)
            self.finish(borrower.process)
        self.assert_kept(owner)

    def test_what_was_given_up_is_the_next_ones(self):
        self.scene(name="first", begin=False)
        first = self.scene(name="greedy")
        had = int(self.tell(first, f"arrays 64 {ARRAY}"))
        self.assertGreaterEqual(had * ARRAY, 2 * GIB)
        self.finish(first.process)
        self.assert_kept(self.owner())

    def test_what_nobody_can_give_is_refused_soon(self):
        """Beside a job that holds all the rest itself."""
        alone = self.scene(name="alone")
        self.tell(alone, f"take large block {2 * GIB}")
        start = time.monotonic()
        self.assertIn("OUT_OF_MEMORY", alone.ask(f"take more block {GIB}"))
        self.assertLess(time.monotonic() - start, SOON)
        self.assertEqual(alone.ask("check"), "ok 1")


if __name__ == "__main__":
    main()
