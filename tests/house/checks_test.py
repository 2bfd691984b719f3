"""Every check of tools/check fails on what it exists to find, and passes beside it."""

import os
import subprocess
import sys
import tempfile
import unittest

CHECKS = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "check")


class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_check(self, name, *arguments):
        return subprocess.run([sys.executable, os.path.join(CHECKS, name), *arguments],
                              capture_output=True, text=True, check=False)

    def assert_passes(self, name, *arguments):
        result = self.run_check(name, *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def assert_fails(self, expected, name, *arguments):
        result = self.run_check(name, *arguments)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(expected, result.stderr)


class Layers(CheckTest):
    TABLE = ("| Folder | Purpose | May include |\n|---|---|---|\n"
             "| `base` | b | – |\n| `ledger` | l | `base` |\n| `cli` | c | `ledger` |\n")

    def setUp(self):
        super().setUp()
        self.write("src/README.md", self.TABLE)
        self.write("src/base/bytes.h", '#include "vram/abi.h"\n#include <cstdint>\n')
        self.write("src/ledger/ledger.cc", '#include "base/bytes.h"\n')
        self.write("src/cli/run.cc", '#include "ledger/ledger.h"\n#include "base/bytes.h"\n')

    def test_downward_includes_pass(self):
        self.assert_passes("layers.py", self.root)

    def test_upward_include_fails(self):
        self.write("src/base/bytes.cc", '#include "ledger/ledger.h"\n')
        self.assert_fails("layer 'base' may not include \"ledger/ledger.h\"", "layers.py", self.root)

    def test_single_file_may_be_allowed(self):
        self.write("src/README.md", self.TABLE + "| `sim` | s | `cli/table.def` |\n")
        self.write("src/sim/sim.cc", '#include "cli/table.def"\n')
        self.assert_passes("layers.py", self.root)
        self.write("src/sim/sim.cc", '#include "cli/run.h"\n')
        self.assert_fails("layer 'sim' may not include \"cli/run.h\"", "layers.py", self.root)

    def test_folder_without_row_fails(self):
        self.write("src/extra/x.cc", "")
        self.assert_fails("folder 'src/extra' has no row", "layers.py", self.root)

    def test_row_without_folder_fails(self):
        self.write("src/README.md", self.TABLE + "| `gone` | g | `base` |\n")
        self.assert_fails("row 'gone' has no folder", "layers.py", self.root)

    def test_row_that_points_up_fails(self):
        self.write("src/README.md", self.TABLE.replace("| `base` | b | – |", "| `base` | b | `cli` |"))
        self.assert_fails("'base' may include 'cli', which is not below it", "layers.py", self.root)

    def test_include_relative_to_the_file_fails(self):
        self.write("src/cli/ps.cc", '#include "run.h"\n')
        self.assert_fails('include "run.h" by its path from src/', "layers.py", self.root)


class Speech(CheckTest):
    def test_plain_text_passes(self):
        self.write("README.md", "The card works; http://localhost:9400 and /home/alice are examples.\n")
        self.assert_passes("speech.py", self.root)

    def test_each_banned_kind_fails(self):
        for text in ("/wor" + "k/main", "https:/" + "/mirror.corp.net/x", "pypi.or" + "g",
                     "TOD" + "O later", "someone@corp" + ".com", "see issue " + "12"):
            with self.subTest(text):
                self.write("README.md", f"before {text} after\n")
                self.assert_fails("README.md:1", "speech.py", self.root)


class CudaCalls(CheckTest):
    HEADER = ("CUresult CUDAAPI cuInit(unsigned int Flags);\n"
              "/* CUresult CUDAAPI cuMemOldAlloc(CUdeviceptr *dptr); */\n"
              "CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);\n"
              "CUresult CUDAAPI cuTakeSome(CUdeviceptr *out,\n    size_t n);\n"
              "CUresult CUDAAPI cuEventCreate(CUevent *phEvent);\n")

    def setUp(self):
        super().setUp()
        self.header = self.write("cuda.h", self.HEADER)
        self.write("src/driver/hooks.def", "HOOK(cuMemAlloc, 2000, kDevice)\nHOOK(cuTakeSome, 13000, kDevice)\n")
        self.write("tools/check/cuda_calls_allowed.txt", "# kept short\ncuEventCreate  holds no memory\n")

    def test_complete_table_passes(self):
        self.assert_passes("cuda_calls.py", self.root, self.header)

    def test_missing_row_fails(self):
        self.write("src/driver/hooks.def", "HOOK(cuMemAlloc, 2000, kDevice)\n// HOOK(cuTakeSome, 1, x)\n")
        self.assert_fails("cuTakeSome: can change device memory", "cuda_calls.py", self.root, self.header)

    def test_missing_table_fails(self):
        os.remove(os.path.join(self.root, "src/driver/hooks.def"))
        self.assert_fails("cuMemAlloc: can change device memory", "cuda_calls.py", self.root, self.header)

    def test_excuse_for_a_governed_call_fails(self):
        self.write("tools/check/cuda_calls_allowed.txt", "cuEventCreate  no memory\ncuMemAlloc  no\n")
        self.assert_fails("cuMemAlloc has a row in hooks.def", "cuda_calls.py", self.root, self.header)

    def test_excuse_without_reason_fails(self):
        self.write("tools/check/cuda_calls_allowed.txt", "cuEventCreate\n")
        self.assert_fails("cuEventCreate has no reason", "cuda_calls.py", self.root, self.header)


if __name__ == "__main__":
    unittest.main()
