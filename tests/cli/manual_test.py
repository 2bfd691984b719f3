"""The manual page and the command have the same options, and the page can be made.

usage: manual_test.py BUILD
"""

import os
import re
import shutil
import subprocess
import unittest

from command import CommandTest, main

SOURCE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "docs", "user", "vram.1.scd")
OPTION = r"(?<![\w-])--?[a-z][a-z-]*"


class Manual(CommandTest):
    def setUp(self):
        super().setUp()
        with open(SOURCE, encoding="utf-8") as file:
            self.page = file.read()

    def section(self, title):
        return re.search(rf"^# {title}\n(.*?)(?=^# |\Z)", self.page, re.DOTALL | re.MULTILINE).group(1)

    def documented(self, title):
        """The options that head a paragraph of the section."""
        lines = [line for line in self.section(title).splitlines() if line.startswith("*-")]
        return {option for line in lines for option in re.findall(OPTION, line.replace("*", " "))}

    def helped(self, *command):
        text = self.vram(*command, "--help").stdout.split("Options:")[1].split("Exit status")[0].split("Subcommands:")[0]
        return set(re.findall(OPTION, text)) - {"-h", "--help"}

    def test_every_option_is_documented_and_no_other(self):
        for command in (("run",), ("trace",), ("replay",), ("ps",), ("devices",), ("limit",), ("park",), ("unpark",), ("env",), ("config", "show"), ("completion",)):
            with self.subTest(command=command):
                documented = self.documented(f"VRAM {' '.join(command).upper()}") - {"-h", "--help"}
                self.assertEqual(documented, self.helped(*command))

    def test_every_command_has_a_section(self):
        commands = re.findall(r"^  ([a-z]+) ", self.vram("--help").stdout.split("Subcommands:")[1], re.MULTILINE)
        sections = {title.split()[1].lower() for title in re.findall(r"^# (VRAM .*)$", self.page, re.MULTILINE)}
        self.assertEqual(set(commands), sections)

    def test_the_example_file_is_a_settings_file(self):
        example = re.search(r"```\n(limit = .*?)```", self.page, re.DOTALL).group(1)
        self.config(example)
        self.assertEqual(self.json("config", "show")["settings"]["limit"]["value"], "4GiB")

    def test_the_page_can_be_made(self):
        if shutil.which("scdoc") is None:
            raise unittest.SkipTest("scdoc is not installed")
        made = subprocess.run(["scdoc"], input=self.page, text=True, capture_output=True, check=False)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        self.assertIn(".TH \"vram\" \"1\"", made.stdout)


if __name__ == "__main__":
    main()
