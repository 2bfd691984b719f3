"""pool_traces measures, survives peers that fail, and merges what several runs found.

usage: pool_traces_test.py FOLDER
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.realpath(sys.argv[1])
TRACES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "traces")
SMALL = os.path.join(TRACES, "rl_small.gz")
STREAMS = os.path.join(TRACES, "two_streams.gz")
PEER = os.path.join(FOLDER, "libpeer_for_test.so")


class PoolTraces(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = os.path.join(folder.name, "results.json")

    def run_it(self, *arguments, status=0, **environment):
        result = subprocess.run([os.path.join(FOLDER, "pool_traces"), *arguments], env={**os.environ, **environment},
                                text=True, capture_output=True, timeout=100, check=False)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def results(self):
        with open(self.json, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_measures(self):
        shown = self.run_it("--dry", "--peer", PEER, "--smallest-limit", "--json", self.json, SMALL, STREAMS).stdout
        self.assertRegex(shown, r"^Peak reserved / peak live:\n\n\| trace \| live, MiB \| vram \| vram BFC \| peer \|\n"
                         r"(\|---){5}\|\n\| rl_small \| 295 \| 1\.0\d\d \| [^|]+ \| 2\.000 \|\n"
                         r"\| two_streams \| 3778 \| 1\.0\d\d \| [^|]+ \| 2\.000 \|\n"
                         r"\| geometric mean \| \| 1\.0\d\d \| [^|]+ \| 2\.000 \|\n\| worst \| \| 1\.0\d\d \| [^|]+ \| 2\.000 \|\n")
        self.assertIn("\nSmallest limit at which it completes / peak live:\n", shown)
        for result in self.results():
            self.assertEqual(result["failure"], "")
            self.assertGreater(min(result["first_ns"], result["again_ns"]), 0)
            precision = max(2 << 20, result["peak_live"] // 256)
            self.assertGreaterEqual(result["smallest_limit"], result["peak_live"])
            self.assertLessEqual(result["smallest_limit"], result["peak_reserved"] + precision)

    def test_one_allocator(self):
        self.run_it("--dry", "--peer", PEER, "--only", "peer", "--json", self.json, SMALL)
        self.assertEqual([result["allocator"] for result in self.results()], ["peer"])
        self.assertIsNone(self.results()[0]["smallest_limit"])
        refused = self.run_it("--dry", "--only", "other", SMALL, status=1)
        self.assertEqual(refused.stderr, "pool_traces: no allocator has 'other' in its name\n")

    def test_every_trace_has_a_name_of_its_own(self):
        traces = sorted(name for name in os.listdir(TRACES) if name.endswith(".gz"))
        self.run_it("--dry", "--only", "peer", "--peer", PEER, "--json", self.json, *(os.path.join(TRACES, name) for name in traces))
        self.assertEqual([result["trace"] + ".gz" for result in self.results()], traces)
        self.assertEqual(len(re.findall(r"^\| .* 2\.000 \|$", self.run_it("--table", self.json).stdout, re.MULTILINE)),
                         len(traces) + 2)

    def test_failures(self):
        for how, line in (("open", "does not open"), ("throw", "threw: a block too many"),
                          ("refuse", r"refused \d+ bytes at event \d+ of 6327, with \d+ live and \d+ reserved")):
            with self.subTest(how=how):
                shown = self.run_it("--dry", "--peer", PEER, SMALL, PEER_FAILS=how).stdout
                self.assertRegex(shown, rf"\nrl_small, peer: {line}\n")
                self.assertRegex(shown, r"\| rl_small \| 295 \| 1\.0\d\d \| [^|]+ \| failed \|\n"
                                 r"\| geometric mean \| \| 1\.0\d\d \| [^|]+ \| - \|\n")

    def test_merged(self):
        self.run_it("--dry", "--only", "peer", "--peer", PEER, "--json", self.json, SMALL, PEER_FAILS="throw")
        self.run_it("--dry", "--only", "peer", "--peer", PEER, "--json", self.json, SMALL)
        other = self.json + ".vram"
        self.run_it("--dry", "--json", other, SMALL, STREAMS)
        merged = self.run_it("--table", self.json, other).stdout
        self.assertRegex(merged, r"\| trace \| live, MiB \| peer \| vram \| vram BFC \|\n")
        self.assertRegex(merged, r"\n\| rl_small \| 295 \| 2\.000 \| 1\.0\d\d \|")
        self.assertRegex(merged, r"\n\| two_streams \| 3778 \|  \| 1\.0\d\d \|")
        self.assertRegex(merged, r"\n\| geometric mean \| \| 2\.000 of 1 \| 1\.0\d\d \|")

    def test_wrong_input(self):
        with open(self.json, "w", encoding="utf-8") as file:
            file.write("{}\n")
        for arguments, line, status in (
                ((), "no trace, and no table", 2), (("--dy", SMALL), "unknown option --dy", 2),
                ((SMALL, "--json"), "--json needs a value", 2), (("--dry", "/nowhere"), "/nowhere: No such file or directory", 1),
                (("--table", "/nowhere"), "/nowhere cannot be read", 1),
                (("--dry", "--json", "/nowhere/x", SMALL), "/nowhere/x cannot be written", 1)):
            self.assertEqual(self.run_it(*arguments, status=status).stderr.splitlines()[-1], f"pool_traces: {line}")
        wrong = self.run_it("--table", self.json, status=1)
        self.assertTrue(re.match(rf"pool_traces: {self.json}:1: ", wrong.stderr), wrong.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
