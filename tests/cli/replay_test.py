"""`vram replay` runs recorded traces through the pools.

usage: replay_test.py BUILD
"""

import fcntl
import glob
import gzip
import json
import os
import pty
import re
import struct
import termios

from command import GREEDY, VRAM, CommandTest, main

MIB = 1 << 20
TRACES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "bench", "traces")
SMALL = os.path.join(TRACES, "rl_small.gz")
# Live: 100 MiB, 140, 40, 130, 90 of the first process; 10 of the second.
SEVERAL = f"""\
# vram-trace 1 unit=us device0.bytes={1 << 30} device1.bytes={2 << 30}
p 0 pid=1
a 1 {100 * MIB} 0 +5
a 2 {40 * MIB} 1
x {500 * MIB} 0 +1
f 1
a 3 0 0
p 1 pid=2
a 4 {10 * MIB} 0 create @1
p 0
a 5 {90 * MIB} 2
f 2 2
q
"""


class Replay(CommandTest):
    def write(self, text, name="t.vtrace"):
        return self.script(name, text, mode=0o644)

    def replay(self, *arguments, status=0):
        result = self.vram("replay", *arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def one(self, *arguments):
        answer = self.json("replay", *arguments)
        self.assertEqual(answer["schema"], 1)
        self.assertEqual(len(answer["replays"]), 1)
        return answer["replays"][0]

    def refused(self, line, *arguments, status=1):
        result = self.vram("replay", *arguments)
        self.assertEqual((result.returncode, result.stderr, result.stdout), (status, f"vram: {line}\n", ""))

    def test_what_is_found(self):
        found = self.one(self.write(SEVERAL))
        self.assertGreater(found.pop("ns_per_event"), 0)
        pages, mapped = found.pop("pages_mapped"), found.pop("bytes_mapped")
        self.assertEqual(mapped % (2 * MIB), 0)
        self.assertTrue(140 * MIB <= mapped and 0 < pages <= mapped // (2 * MIB), (pages, mapped))
        reserved, ratio = found.pop("peak_reserved"), found.pop("ratio")
        self.assertTrue(140 * MIB <= reserved <= 160 * MIB, reserved)
        self.assertAlmostEqual(ratio, reserved / (140 * MIB))
        self.assertEqual(found, {
            "trace": os.path.join(self.folder, "t.vtrace"), "pool": "segments", "process": 0, "processes": 2, "device": 0,
            "devices": 2, "truncated": False, "lost": 0, "left_out": {"refused": 1, "zero_bytes": 1, "foreign": 0},
            "events": 5, "card": 1 << 30, "limit": None, "unavailable": None, "completed": True, "replayed": 5,
            "allocations": 3, "peak_live": 140 * MIB, "smallest_limit": None, "stopped": None})

    def test_for_a_person(self):
        path = self.write(SEVERAL)
        card, titles, row, *notes = self.replay(path).stdout.splitlines()
        self.assertEqual(card, "a card of bookkeeping, 1GiB")
        self.assertEqual(titles.split(), ["TRACE", "POOL", "LIVE", "RESERVED", "RATIO", "RESULT", "EVENTS", "ALLOCS", "PAGES",
                                          "NS/EVENT"])
        self.assertRegex(row, r"^t\.vtrace +segments +140MiB +1\d\dMiB +1\.\d{3} +complete +5 +3 +\d+ +\d+$")
        self.assertEqual(notes, [
            f"{path}: process 0 (2 allocate) on device 0 (2 in use) alone; choose with --process and --device",
            f"{path}: left out: 1 request that the recorded program was refused, 1 allocation of no bytes"])

    def test_a_name_moves_no_cursor(self):
        shown = self.replay(self.write(SEVERAL, "a\x1b[2J\nb")).stdout
        self.assertNotIn("\x1b", shown)
        self.assertIn("\na?[2J?b  segments ", shown)
        self.assertIn("/a?[2J?b: left out: ", shown)

    def test_process_and_device(self):
        path = self.write(SEVERAL)
        second = self.one("--process", "1", path)
        self.assertEqual((second["process"], second["device"], second["peak_live"], second["card"]), (1, 1, 10 * MIB, 2 << 30))
        self.assertEqual(self.one("--device", "1", path)["process"], 1)
        self.refused(f"{path}: process 2 allocates nothing in it; those that do: 0, 1", "--process", "2", path)
        self.refused(f"{path}: nothing is allocated on device 3 in it; devices with allocations: 0, 1", "--device", "3", path)

    def test_a_limit_stops_it(self):
        path = self.write(SEVERAL)
        found = self.one("--limit", "128MiB", path)
        self.assertFalse(found["completed"])
        stopped = found["stopped"]
        self.assertTrue(100 * MIB <= stopped.pop("reserved") <= 128 * MIB)
        self.assertEqual(stopped, {"event": 2, "bytes": 40 * MIB, "live": 100 * MIB})
        self.assertEqual((found["limit"], found["replayed"], found["peak_live"]), (128 * MIB, 1, 100 * MIB))
        self.assertEqual(self.one("-m", "12.5%", path)["limit"], 128 * MIB)
        text = self.replay("-m", "128MiB", path).stdout
        self.assertRegex(text, rf"\n{path}, segments: stopped at event 2 of 5: 40MiB asked for, with 100MiB live and "
                         r"1\d\dMiB reserved of a limit of 128MiB\n")
        self.assertRegex(self.replay("--card", "120MiB", path).stdout, r"reserved of a card of 120MiB\n")

    def test_the_smallest_limit_does_and_less_does_not(self):
        for path in (self.write(SEVERAL), SMALL):
            found = self.one("--smallest-limit", path)
            smallest = found["smallest_limit"]
            self.assertTrue(found["peak_live"] <= smallest <= found["peak_reserved"])
            self.assertTrue(self.one("-m", f"{smallest}B", path)["completed"])
            if smallest - 2 * MIB >= found["peak_live"]:
                self.assertFalse(self.one("-m", f"{smallest - 2 * MIB}B", path)["completed"])
        self.assertIn("SMALLEST", self.replay("--smallest-limit", path).stdout)
        self.assertIsNone(self.one("--smallest-limit", "--card", "100MiB", SMALL)["smallest_limit"])

    def test_every_committed_trace(self):
        paths = sorted(glob.glob(os.path.join(TRACES, "*.gz")))
        answer = self.json("replay", *paths)
        self.assertEqual([found["trace"] for found in answer["replays"]], paths)
        ratios = [found["ratio"] for found in answer["replays"]]
        pools = answer["pools"]
        self.assertEqual((len(pools), pools[0]["pool"], pools[0]["completed"]), (1, "segments", len(paths)))
        self.assertAlmostEqual(pools[0]["mean_ratio"], sum(ratios) / len(ratios))
        self.assertEqual(pools[0]["worst_ratio"], max(ratios))
        self.assertRegex(self.replay(*paths).stdout, rf"\nmean of {len(paths)} +segments +1\.0\d\d  worst 1\.0\d\d\n")

    def test_what_stopped_is_in_no_mean(self):
        small = self.one("-m", "400MiB", SMALL)
        conv = os.path.join(TRACES, "conv.gz")
        pools = self.json("replay", "-m", "400MiB", SMALL, conv)["pools"]
        self.assertEqual(pools, [{"pool": "segments", "completed": 1, "mean_ratio": small["ratio"],
                                  "worst_ratio": small["ratio"]}])
        self.assertRegex(self.replay("-m", "400MiB", SMALL, conv).stdout, r"\nmean of 1 +segments +1\.0\d\d +worst 1\.0\d\d\n")
        self.assertRegex(self.replay("-m", "40MiB", SMALL, conv).stdout, r"\nmean of 0 +segments +-\n")

    def test_all_pools(self):
        found = {row["pool"]: row for row in self.json("replay", "--pool", "all", SMALL)["replays"]}
        self.assertEqual(set(found), {"segments", "bfc", "driver-async"})
        for pool in ("segments", "bfc"):
            self.assertTrue(found[pool]["completed"], pool)
        self.assertEqual(found["bfc"]["pages_mapped"], 0)
        self.assertGreater(found["bfc"]["ratio"], found["segments"]["ratio"])
        reason = "it is the driver's own, and this card has no driver; use --real or --sim"
        self.assertEqual(found["driver-async"]["unavailable"], reason)
        notes = self.replay("--pool", "all", SMALL, os.path.join(TRACES, "conv.gz")).stdout.splitlines()[-1:]
        self.assertEqual(notes, [f"driver-async: {reason}"])
        self.refused(f"--pool driver-async: {reason}", "--pool", "driver-async", SMALL)

    def test_on_a_simulated_card(self):
        answer = self.json("replay", "--sim", "1x24GiB", "--pool", "all", self.write(SEVERAL))
        self.assertEqual(answer["card"], "simulated")
        found = {row["pool"]: row for row in answer["replays"]}
        self.assertEqual(set(found), {"segments", "bfc", "driver-async"})
        for pool in found:
            self.assertTrue(found[pool]["completed"], pool)
            self.assertEqual((found[pool]["peak_live"], found[pool]["card"]), (140 * MIB, 24 << 30))
            self.assertGreaterEqual(found[pool]["peak_reserved"], 140 * MIB)

    def test_a_recording_is_replayed(self):
        path = os.path.join(self.folder, "r.gz")
        recorded = self.vram("trace", "-q", "-o", path, "--sim", "1x24GiB", "-m", "4GiB", "--", GREEDY)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        found = self.one(path)
        self.assertEqual((found["completed"], found["card"]), (True, 24 << 30))
        self.assertEqual(found["left_out"]["refused"], 8)

    def test_truncated(self):
        path = os.path.join(self.folder, "half.gz")
        with open(SMALL, "rb") as whole, open(path, "wb") as half:
            half.write(whole.read()[:9000])
        found = self.one(path)
        self.assertTrue(found["truncated"] and found["completed"])
        self.assertTrue(0 < found["events"] < 6327)
        self.assertIn(f"\n{path}: it stops in the middle; what is there was replayed\n", self.replay(path).stdout)

    def test_damaged(self):
        path = os.path.join(self.folder, "damaged.gz")
        with open(SMALL, "rb") as whole, open(path, "wb") as damaged:
            data = bytearray(whole.read())
            data[9000:9100] = bytes(100)
            damaged.write(data)
        result = self.replay(path, status=1)
        self.assertRegex(result.stderr, rf"^vram: {path}:\d+: [^\n]+\n$")
        self.assertEqual(result.stdout, "")
        with gzip.open(path, "wt") as file:
            file.write("a 1 100 0\na 2 many 0\n")
        self.refused(f"{path}:2: expected BYTES, found 'many'", path)

    def test_what_is_no_trace(self):
        self.refused("/nowhere/t.gz: No such file or directory", "/nowhere/t.gz")
        self.refused(f"{self.folder}: it is a directory; name a trace in it", self.folder)
        self.assertRegex(self.replay(VRAM, status=1).stderr, rf"^vram: {VRAM}:1: [^\n]+\n$")
        empty = self.write("")
        self.refused(f"{empty}: it has no allocation to replay", empty)
        # Nothing is shown of those before it either.
        self.refused(f"{empty}: it has no allocation to replay", SMALL, empty)

    def test_wrong_input(self):
        names = "use segments, bfc, driver-async or all"
        for arguments, line, status in [
                (("--pool", "best"), f"--pool: there is no pool 'best'; {names}", 2),
                (("--pool", ""), f"--pool: there is no pool ''; {names}", 2),
                (("--limit", "0"), "--limit: '0' is no memory at all; to hide a card use --gpu, for no limit leave it out", 1),
                (("--limit", "4"), "--limit: '4' has no unit; did you mean 4GiB, 4MiB, 4B or 4%?", 1),
                (("--card", "50%"), "--card: '50%' is a share of nothing; write a size like 24GiB", 2),
                (("--sim", "many"), "--sim: 'many' is no machine; write COUNTxSIZE, like 2x24GiB", 1),
                (("--sim", "1x24GiB", "--real"), "--sim and --real exclude each other; choose one", 2),
                (("--card", "1GiB", "--real"), "--card is for a card of bookkeeping; leave it out, or leave --real out", 2),
                (("--card", "1GiB", "--sim", "24GiB"), "--card is for a card of bookkeeping; leave it out, or leave --sim out", 2),
                (("--limit", "1GiB", "--smallest-limit"), "--smallest-limit looks for the limit; leave --limit out", 2)]:
            with self.subTest(arguments=arguments):
                self.refused(line, *arguments, SMALL, status=status)
        self.refused("replay: FILE is required; see 'vram replay --help'", status=2)

    def test_without_a_driver(self):
        result = self.replay("--real", SMALL, status=1)
        self.assertRegex(result.stderr, r"^vram: --real: [^\n]+\n$")

    def on_terminal(self, width, *arguments, **environment):
        """What a terminal of this width shows."""
        pid, terminal = pty.fork()
        if pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
            os.execve(VRAM, (VRAM, "replay", *arguments), {**self.environment, "TERM": "xterm", **environment})
        shown = b""
        while True:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, shown)
        return shown.decode().replace("\r\n", "\n")

    def test_a_terminal_gets_a_curve(self):
        shown = self.on_terminal(80, SMALL)
        self.assertIn("\x1b[32m#", shown)
        plain = self.on_terminal(80, SMALL, NO_COLOR="1")
        self.assertNotIn("\x1b", plain)
        self.assertNotIn("\x1b", self.on_terminal(80, SMALL, TERM="dumb"))
        lines = plain.splitlines()
        self.assertEqual({len(line) <= 80 for line in lines}, {True})
        self.assertRegex(lines[0], r"^   310MiB \| ")
        self.assertIn("#", lines[11])
        self.assertEqual(lines[12], "        0 +" + "-" * 69)
        self.assertRegex(lines[13], r"# live  : reserved +6327 events$")
        self.assertEqual(re.sub("\x1b\\[\\d+m", "", shown).splitlines()[:14], lines[:14])
        self.assertEqual(self.on_terminal(25, SMALL, NO_COLOR="1").splitlines()[0], "a card of bookkeeping, 141GiB")

    def test_no_curve_elsewhere(self):
        self.assertTrue(self.replay(SMALL).stdout.startswith("a card of bookkeeping, 141GiB\n"))
        self.assertTrue(self.on_terminal(80, SMALL, SMALL).startswith("a card of bookkeeping, 141GiB\n"))
        self.assertEqual(json.loads(self.on_terminal(80, "--json", SMALL))["card"], "dry")


if __name__ == "__main__":
    main()
