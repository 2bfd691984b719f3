"""Completion offers what the command has, and nothing else.

usage: completion_test.py BUILD
"""

import os
import re
import shutil
import subprocess
import unittest

from command import VRAM, CommandTest, main


class Completion(CommandTest):
    def offered(self, *words):
        """What bash offers for the last word."""
        script = self.vram("completion", "bash").stdout + """
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vram; printf '%s\\n' "${COMPREPLY[@]}"
"""
        environment = {**self.environment, "PATH": f"{os.path.dirname(VRAM)}:{self.environment['PATH']}"}
        result = subprocess.run(["bash", "-c", script, "bash", "vram", *words], env=environment, text=True, capture_output=True,
                                check=True)
        self.assertEqual(result.stderr, "")
        return set(result.stdout.split())

    def test_commands(self):
        self.assertEqual(self.offered(""), {"run", "trace", "replay", "ps", "devices", "limit", "park", "unpark", "env", "config",
                                            "completion", "--help", "--version"})
        self.assertEqual(self.offered("de"), {"devices"})

    def test_options_are_those_of_the_help(self):
        for verb in ("run", "trace", "replay", "ps", "devices", "limit", "park", "unpark", "env"):
            shown = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", self.vram(verb, "--help").stdout.split("Options:")[1]
                                   .split("Exit status")[0]))
            self.assertEqual(self.offered(verb, "-"), shown, verb)

    def test_values(self):
        self.assertEqual(self.offered("run", "--profile", ""), {"shared", "serve", "train"})
        self.assertEqual(self.offered("run", "--on-failure", "a"), {"allow"})
        self.assertEqual(self.offered("run", "--alloc", ""), {"driver", "vram"})
        self.assertEqual(self.offered("run", "-m", "4"), {"4GiB"})
        self.assertEqual(self.offered("run", "--limit", "4"), {"4GiB"})
        self.assertEqual(self.offered("ps", "--sim", "2"), {"2x24GiB"})
        self.assertEqual(self.offered("replay", "--pool", ""), {"segments", "bfc", "driver-async", "all"})
        self.assertEqual(self.offered("park", "--timeout", "6"), {"60s"})
        self.assertEqual(self.offered("env", "j"), {"jax"})
        self.assertEqual(self.offered("config", ""), {"show", "--origin", "--json", "--help", "-h"})
        self.assertEqual(self.offered("completion", "z"), {"zsh"})

    def test_programs(self):
        self.assertIn("python3", self.offered("run", "-m", "4GiB", "pytho"))
        self.script("data.txt", "")
        self.assertEqual(self.offered("run", "-m", "4GiB", "cat", self.folder + "/da"), {self.folder + "/data.txt"})
        self.assertEqual(self.offered("run", "--", "cat", self.folder + "/da"), {self.folder + "/data.txt"})
        self.assertIn("python3", self.offered("trace", "-o", "t.gz", "pytho"))
        self.assertEqual(self.offered("trace", "-o", "t.gz", "--", "cat", self.folder + "/da"), {self.folder + "/data.txt"})
        self.assertEqual(self.offered("trace", "-o", self.folder + "/da"), {self.folder + "/data.txt"})

    def test_traces(self):
        trace = self.script("run.vtrace.gz", "")
        self.assertEqual(self.offered("replay", self.folder + "/ru"), {trace})
        self.assertEqual(self.offered("replay", trace, self.folder + "/ru"), {trace})
        self.assertEqual(self.offered("replay", "--re"), {"--real"})

    def test_jobs(self):
        process = self.start("run", "-m", "4GiB", "--sim", "1x24GiB", "--", "sleep", "60")
        job = self.wait_for(lambda: self.jobs(), "the job")[0]
        for words in (("limit", ""), ("park", ""), ("unpark", ""), ("park", "other", "")):
            self.assertIn(job["id"], self.offered(*words), words)
        process.terminate()

    def test_other_shells_can_read_theirs(self):
        for shell in ("zsh", "fish"):
            script = self.vram("completion", shell).stdout
            words = {"zsh": ("*::command:_normal", "1:value:(tensorflow jax"), "fish": ("__fish_complete_subcommand", "-a 'tensorflow jax")}
            for word in ("run", "limit", "profile", "shared serve train", *words[shell]):
                self.assertIn(word, script)
            if shutil.which(shell) is None:
                continue
            subprocess.run([shell, "-n"], input=script, text=True, check=True)


if __name__ == "__main__":
    main()
