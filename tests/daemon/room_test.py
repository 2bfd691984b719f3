"""Room on a card: who gives it, in which order, and that a reserve is a promise.

usage: room_test.py BUILD
"""

import re
import time

from daemon import CARD_MIB, DaemonTest, main

QUICK = 'idle_after = "100ms"\nquantum = "300ms"\n'


class Room(DaemonTest):
    def test_what_is_free_is_granted_and_nobody_is_parked(self):
        self.start_daemon()
        self.elastic("idle", "--hold", "4096", "--idle", "30")
        self.elastic("asker", "--hold", "1024", "--grow", "8192")
        self.assertEqual(self.grow("asker")[0], "granted")
        self.assertEqual(self.place("idle"), "card")

    def test_the_oldest_idle_is_parked_and_no_other(self):
        self.start_daemon()
        for name, idle in (("younger", "10"), ("oldest", "90"), ("middle", "30")):
            self.elastic(name, "--hold", "6144", "--idle", idle)
        self.elastic("asker", "--hold", "1024", "--grow", "7168")
        verdict, _ = self.grow("asker")
        self.assertEqual((verdict, [self.place(name) for name in ("younger", "middle", "oldest")]),
                         ("granted", ["card", "card", "parked"]))
        job, asker = self.job("oldest")["id"], self.job("asker")["id"]
        self.assertRegex(self.log(), rf"vramd: parked job {job} \([\w-]+, idle 9\d s\): 3GiB for job {asker}'s 7GiB\n")

    def test_one_that_gives_enough_alone_is_parked_alone(self):
        self.start_daemon()
        self.elastic("small", "--hold", "2048", "--idle", "60")
        self.elastic("large", "--hold", "12288", "--idle", "30")
        self.elastic("asker", "--hold", "8192", "--grow", "8192")
        self.assertEqual((self.grow("asker")[0], self.place("small"), self.place("large")), ("granted", "card", "parked"))

    def test_as_many_are_parked_as_are_needed(self):
        self.start_daemon()
        for name in ("a", "b", "c"):
            self.elastic(name, "--hold", "6144", "--idle", "30")
        self.elastic("asker", "--hold", "1024", "--grow", "16384")
        self.assertEqual((self.grow("asker")[0], [self.place(name) for name in "abc"].count("parked")), ("granted", 2))

    def test_nobody_is_parked_in_vain(self):
        self.start_daemon()
        self.elastic("idle", "--hold", "6144", "--idle", "30")
        self.elastic("stays", "--hold", "12288", "--idle", "30", run=("--no-park",))
        self.elastic("asker", "--hold", "1024", "--grow", "16384")
        self.touch("asker.go")
        self.wait_for(lambda: self.read("asker.later"), "an answer")
        self.assertEqual((self.place("idle"), self.place("stays")), ("card", "card"))

    def test_one_at_work_is_not_parked_at_once_and_one_that_stays_never(self):
        self.start_daemon(*self.policy('quantum = "1h"\n'))
        self.elastic("work", "--hold", "10240")
        self.elastic("stays", "--hold", "10240", "--idle", "30", run=("--no-park",))
        self.elastic("asker", "--hold", "1024", "--grow", "8192")
        self.touch("asker.go")
        self.wait_for(lambda: self.read("asker.later"), "an answer")
        self.assertEqual((self.place("work"), self.place("stays")), ("card", "card"))

    def test_one_that_cannot_be_parked_is_passed_over(self):
        self.start_daemon()
        self.elastic("shares", "--hold", "8192", "--idle", "60", "--park", "4")
        self.elastic("idle", "--hold", "8192", "--idle", "30")
        self.elastic("asker", "--hold", "4096", "--grow", "8192")
        self.assertEqual((self.grow("asker")[0], self.place("shares"), self.place("idle")), ("granted", "card", "parked"))
        self.assertRegex(self.log(), r"not parked: job \w{4} \([\w-]+\): it shares memory with others\n")

    def test_more_than_the_card_has_is_never_granted(self):
        self.start_daemon()
        self.elastic("asker", "--hold", "1024", "--grow", str(CARD_MIB + 1))
        self.assertEqual(self.grow("asker")[0], "never")

    def test_a_budget_of_host_memory_is_kept(self):
        self.start_daemon(*self.policy('host_memory = "7GiB"\n'))
        for name in ("a", "b", "c"):
            self.elastic(name, "--hold", "6144", "--idle", "30")
        self.elastic("asker", "--hold", "1024", "--grow", "16384")
        self.touch("asker.go")
        self.wait_for(lambda: self.read("asker.later"), "an answer")
        self.assertEqual([self.place(name) for name in "abc"], ["card"] * 3)

    def test_no_byte_is_promised_twice(self):
        self.start_daemon()
        for name in "abcd":
            self.elastic(name, "--hold", "3072", "--idle", "30")
        askers = [f"asker{number}" for number in range(6)]
        for name in askers:
            self.elastic(name, "--hold", "16", "--grow", "3500")
        for name in askers:
            self.touch(name + ".go")
        for name in askers:
            self.wait_for(lambda name=name: self.read(name + ".grown") or self.read(name + ".full"), name)
        self.assertEqual([self.read(name + ".full") for name in askers], [""] * 6, "granted, and no room")
        self.assertEqual({self.read(name + ".grown").split()[0] for name in askers}, {"granted"})

    def test_a_reserve_is_a_promise(self):
        """With every byte lent out to a job at work, one within its reserve gets room, however long that one's turn is."""
        self.start_daemon(*self.policy('quantum = "1h"\n'))
        self.elastic("lender", "--hold", "64", "--grow", "8128", run=("--reserve", "8GiB"))
        self.elastic("borrower", "--hold", str(CARD_MIB - 1024), run=("--reserve", "2GiB"))
        verdict, ms = self.grow("lender")
        self.assertEqual((verdict, self.place("borrower")), ("granted", "parked"))
        self.assertLess(ms, 5000)

    def test_above_its_reserve_a_job_has_no_claim(self):
        self.start_daemon(*self.policy('quantum = "1h"\n'))
        self.elastic("lender", "--hold", "64", "--grow", "8192", run=("--reserve", "8GiB"))
        self.elastic("borrower", "--hold", str(CARD_MIB - 1024), run=("--reserve", "2GiB"))
        self.touch("lender.go")
        self.wait_for(lambda: self.read("lender.later"), "an answer")
        self.assertEqual(self.place("borrower"), "card")

    def test_a_job_is_parked_when_it_idled_as_long_as_it_said(self):
        self.start_daemon()
        self.elastic("notebook", "--hold", "1024", "--idle", "90", run=("--park-after", "1min"))
        self.elastic("other", "--hold", "1024", "--idle", "30", run=("--park-after", "1h"))
        self.wait_for(lambda: self.place("notebook") == "parked", "the park")
        self.assertEqual(self.place("other"), "card")
        self.assertRegex(self.log(), r"parked job \w{4} \([\w-]+\): 1GiB, idle 9\d s, as it was started to be\n")

    def test_a_killed_daemon_loses_nothing(self):
        """It is killed while it parks for a request; the next one grants it, and knows what was admitted."""
        daemon = self.start_daemon()
        self.elastic("slow", "--hold", "12288", "--idle", "30", "--park", "slow", run=("--reserve", "4GiB"))
        self.elastic("asker", "--hold", "8192", "--grow", "12288")
        self.touch("asker.go")
        self.wait_for(lambda: self.place("slow") == "parking", "the park")
        self.kill(daemon)
        self.start_daemon()
        self.assertEqual(self.grow("asker")[0], "granted")
        self.assertEqual((self.place("slow"), self.read("asker.full")), ("parked", ""))
        result = self.vram("run", "--elastic", "--reserve", "21GiB", "--no-wait", "--", "true")
        self.assertEqual(result.returncode, 125, "the reserve of the first is still kept")


class Turns(DaemonTest):
    def moves(self, name):
        return [(move, int(ms)) for move, ms in (line.split() for line in self.read(name + ".log").splitlines())]

    def test_those_that_do_not_fit_together_take_turns_and_keep_them(self):
        """Two at work, of 70 % of the card each: turns of four times what both moves take, and none shorter."""
        self.start_daemon(*self.policy(QUICK))
        self.elastic("first", "--hold", "17000", "--work", "100")
        second = self.elastic("second", "--hold", "16", "--grow", "17000", "--work", "100")
        del second
        self.touch("second.go")
        self.wait_for(lambda: len(self.moves("first")) >= 5 and len(self.moves("second")) >= 5, "turns")
        for name in ("first", "second"):
            moves = self.moves(name)[2:]  # the first moves had no measured cost yet
            stays = [out - into for (a, into), (b, out) in zip(moves, moves[1:]) if (a, b) == ("in", "out")]
            self.assertGreaterEqual(min(stays), 700, (name, moves))
            self.assertLess(max(stays), 4000, (name, moves))
        self.assertEqual((self.read("first.full"), self.read("second.full")), ("", ""))

    def test_ps_shows_whose_turn_it_is(self):
        self.start_daemon(*self.policy('quantum = "20s"\n'))
        self.elastic("first", "--hold", "17000")
        self.elastic("second", "--hold", "16", "--grow", "17000")
        self.touch("second.go")
        first, second = self.job("first")["id"], self.job("second")["id"]
        shown = self.wait_for(lambda: re.search(r"GPU 0: .*", self.vram("ps").stdout), "the turn").group(0)
        self.assertRegex(shown, rf"^GPU 0: it is the turn of job {first} for (1\d|20) s more; job {second} waits$")
        turn, = self.wait_for(lambda: self.json("ps")["turns"], "the turn")
        self.assertEqual((turn["job"], turn["waiting"]), (first, second))
        self.assertTrue(0 < turn["left_ms"] <= 20000)

    def test_without_a_daemon_there_are_no_turns(self):
        self.assertEqual(self.json("ps")["turns"], None)
        self.start_daemon()
        self.assertEqual(self.json("ps")["turns"], [])


if __name__ == "__main__":
    main()
