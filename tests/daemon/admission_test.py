"""`vram run --reserve`: what is refused, who waits, and who is told.

usage: admission_test.py BUILD
"""

import os
import re
import signal
import time

from daemon import DaemonTest, main

ELASTIC = ("run", "-q", "--elastic")


class Admission(DaemonTest):
    def refused(self, *arguments, environment=None):
        result = self.vram(*arguments, environment=environment)
        self.assertEqual((result.returncode, result.stdout), (125, ""), result.stderr)
        return result.stderr

    def test_a_reserve_needs_memory_that_moves(self):
        text = "{0} is for memory that can be moved, and this run's cannot; add --elastic, or leave {0} out\n"
        for option, value in (("--reserve", "2GiB"), ("--park-after", "10min")):
            self.assertEqual(self.refused("run", option, value, "--", "true"), "vram: " + text.format(option))
        self.assertEqual(self.refused("run", "--no-park", "--", "true"), "vram: " + text.format("--no-park"))
        self.assertEqual(self.refused("run", "--", "true", environment={"VRAM_RESERVE": "2GiB"}),
                         "vram: " + text.format("VRAM_RESERVE"))
        self.config('reserve = "2GiB"\n')
        self.assertEqual(self.vram("run", "-q", "--", "true").returncode, 0, "a file speaks of elastic runs")

    def test_a_reserve_is_within_the_limit_and_the_card(self):
        self.assertEqual(self.refused(*ELASTIC, "--reserve", "4GiB", "-m", "2GiB", "--", "true"),
                         "vram: --reserve: 4GiB is more than the limit on card 0 (2GiB); reserve that or less, or raise the limit "
                         "with -m\n")
        self.assertEqual(self.refused(*ELASTIC, "--reserve", "0=30GiB", "--", "true"),
                         "vram: --reserve: 30GiB is more than card 0 has (24GiB); reserve that or less\n")
        self.assertIn("did you mean 4GiB", self.refused(*ELASTIC, "--reserve", "4", "--", "true"))

    def test_without_a_daemon_nobody_keeps_a_reserve(self):
        self.assertEqual(self.refused(*ELASTIC, "--reserve", "4GiB", "--", "true"),
                         f"vram: no vramd listens at {self.socket}, so nobody keeps the reserve; start vramd, or accept that with "
                         "--on-failure allow\n")
        self.assertEqual(self.job_files(), [], "nothing is left")
        result = self.vram(*ELASTIC, "--reserve", "4GiB", "--on-failure", "allow", "--", "echo", "ran")
        self.assertEqual((result.stdout, result.returncode), ("ran\n", 0))
        self.assertIn(f"vram: warning: no vramd listens at {self.socket}, so nobody keeps the reserve\n", result.stderr)
        self.assertEqual(self.vram(*ELASTIC, "--", "true").stderr, "", "and nobody else is told")

    def test_reserves_never_exceed_the_card(self):
        self.start_daemon()
        self.elastic("first", "--hold", "64", run=("--reserve", "14GiB"))
        job, user = self.job("first")["id"], re.search(r"admitted job \w{4} \(([\w-]+)\), reserve 14GiB\n", self.log()).group(1)
        self.assertEqual(self.refused(*ELASTIC, "--no-wait", "--reserve", "11GiB", "--", "true"),
                         "vram: not admitted: card 0 has 10GiB of 24GiB left to reserve, and this job wants 11GiB: "
                         f"job {job} ({user}) has reserved 14GiB\n")
        self.assertEqual(self.vram(*ELASTIC, "--no-wait", "--reserve", "10GiB", "--", "true").returncode, 0)

    def test_what_cannot_be_parked_counts_as_taken(self):
        self.start_daemon()
        self.elastic("stays", "--hold", "8192", run=("--no-park",))
        self.assertIn("8GiB are held by what cannot be parked",
                      self.refused(*ELASTIC, "--no-wait", "--reserve", "17GiB", "--", "true"))
        self.elastic("lent", "--hold", "8192")
        self.assertEqual(self.vram(*ELASTIC, "--no-wait", "--reserve", "16GiB", "--", "true").returncode, 0)

    def test_all_that_a_job_that_stays_may_take_is_kept_for_it(self):
        self.start_daemon()
        self.elastic("stays", "--hold", "4096", run=("--no-park", "--reserve", "8GiB", "-m", "16GiB"))
        self.assertIn("card 0 has 8GiB of 24GiB left", self.refused(*ELASTIC, "--no-wait", "--reserve", "9GiB", "--", "true"))

    def test_a_job_that_does_not_fit_waits_and_begins_when_it_does(self):
        self.start_daemon()
        first = self.elastic("first", "--hold", "64", run=("--reserve", "14GiB"))
        second = self.elastic("second", "--hold", "64", run=("--reserve", "14GiB"), wait=False)
        waiting = self.wait_for(lambda: [job for job in self.jobs() if job["admission"] == "waiting"], "the wait")
        self.assertEqual([job["name"] for job in waiting], ["second"])
        self.assertIn("waits to be admitted", self.vram("ps").stdout)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "second")))
        first.terminate()
        self.wait_for(lambda: os.path.exists(os.path.join(self.folder, "second")), "the second")
        self.assertEqual(self.job("second")["admission"], "admitted")
        self.end(second)

    def test_who_waits_is_told_why_and_who_came_first_is_first(self):
        self.start_daemon()
        first = self.elastic("first", "--hold", "64", run=("--reserve", "14GiB"))
        large = self.start("run", "--elastic", "--name", "large", "--reserve", "20GiB", "--", "echo", "large")
        self.wait_for(lambda: "wants 20GiB" in self.log(), "the large")
        small = self.start("run", "--elastic", "--name", "small", "--reserve", "5GiB", "--", "echo", "small")
        self.wait_for(lambda: "came first" in self.log(), "the small")
        self.assertIsNone(small.poll(), "it would fit, and another waits for the card")
        first.terminate()
        self.assertEqual(large.communicate(timeout=20)[0], "large\n")
        out, err = small.communicate(timeout=20)
        self.assertEqual(out, "small\n")
        self.assertIn("vram: waits: another job waits for the same card, and came first\n", err)

    def test_a_wait_outlives_the_daemon(self):
        daemon = self.start_daemon()
        first = self.elastic("first", "--hold", "64", run=("--reserve", "14GiB"))
        second = self.start("run", "--elastic", "--name", "second", "--reserve", "14GiB", "--", "echo", "second")
        self.wait_for(lambda: "waits to be admitted" in self.log(), "the wait")
        self.kill(daemon)
        self.start_daemon()
        time.sleep(0.5)
        self.assertIsNone(second.poll(), "the reserve of the first is known")
        first.terminate()
        self.assertEqual(second.communicate(timeout=20)[0], "second\n")

    def test_a_wait_can_be_ended(self):
        self.start_daemon()
        self.elastic("first", "--hold", "64", run=("--reserve", "14GiB"))
        second = self.start("run", "--elastic", "--name", "second", "--reserve", "14GiB", "--", "true")
        self.wait_for(lambda: "waits to be admitted" in self.log(), "the wait")
        second.send_signal(signal.SIGINT)
        second.communicate(timeout=20)
        self.assertNotEqual(second.returncode, 0)
        self.wait_for(lambda: [job["name"] for job in self.jobs()] == ["first"], "the end")
        self.assertEqual(self.vram(*ELASTIC, "--no-wait", "--reserve", "10GiB", "--", "true").returncode, 0)

    def test_budgets_and_ceilings_are_the_policys(self):
        option, path = self.policy('[default]\nlimit = "6GiB"\n[card.all]\nbudget = "8GiB"\n')
        self.start_daemon(option, path)
        self.assertEqual(self.refused(*ELASTIC, "-m", "7GiB", "--", "true"),
                         f"vram: not admitted: a limit of 7GiB on card 0 is over what the policy gives you (6GiB, {path}); use -m "
                         "6GiB or less\n")
        self.assertIn(f"is more than jobs may have reserved (6GiB, {path}); reserve less",
                      self.refused(*ELASTIC, "--reserve", "7GiB", "--", "true"))
        self.elastic("capped", "--hold", "64", run=("--reserve", "5GiB"))
        device, = self.job("capped")["devices"]
        self.assertEqual(device["limit"], 6 << 30, "no limit is the ceiling")
        self.assertIn("card 0 has 3GiB of 8GiB left", self.refused(*ELASTIC, "--no-wait", "--reserve", "4GiB", "--", "true"))

    def test_a_default_reserve_is_kept_like_one_asked_for(self):
        self.start_daemon(*self.policy('[default]\nreserve = "9GiB"\n'))
        self.elastic("first", "--hold", "64")
        self.elastic("second", "--hold", "64")
        self.assertIn("card 0 has 6GiB of 24GiB left", self.refused(*ELASTIC, "--no-wait", "--", "true"))

    def test_what_a_file_says_of_itself_is_not_believed(self):
        """A user who writes a reserve into a job's file gets none that does not fit."""
        self.start_daemon()
        self.elastic("first", "--hold", "64", run=("--reserve", "14GiB"))
        self.elastic("second", "--hold", "64")
        path = os.path.join(self.state, self.job("second")["id"] + ".job")
        with open(path, "r+b") as file:
            for card in range(1):
                file.seek(4096 + 256 * card + 16 + 48 + 16)  # DeviceAccount::reserve
                file.write((12 << 30).to_bytes(8, "little"))
        self.assertEqual(self.vram(*ELASTIC, "--no-wait", "--reserve", "10GiB", "--", "true").returncode, 0)

    def test_settings_come_from_everywhere(self):
        def shown(environment=None):
            result = self.vram("config", "show", environment=environment)
            return {line.split()[0]: line.split()[1] for line in result.stdout.splitlines()[1:]}
        self.assertEqual([shown()[name] for name in ("reserve", "park", "park_after", "wait")], ["-", "true", "-", "true"])
        self.config('elastic = true\nreserve = "2GiB"\npark_after = "90min"\nwait = false\n')
        self.assertEqual([shown()[name] for name in ("reserve", "park", "park_after", "wait")], ["2GiB", "true", "90min", "false"])
        seen = shown({"VRAM_RESERVE": "3GiB", "VRAM_PARK": "false", "VRAM_WAIT": "true"})
        self.assertEqual([seen[name] for name in ("reserve", "park", "park_after", "wait")], ["3GiB", "false", "-", "true"])


if __name__ == "__main__":
    main()
