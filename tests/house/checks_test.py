"""Every check of tools/check fails on what it exists to find, and passes beside it."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
CLANG_TIDY = os.path.join(SOURCE, "build", "deps", "clang-tidy", "bin", "clang-tidy")
CHECKS = os.path.join(SOURCE, "tools", "check")


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


class CudaWalk(CheckTest):
    HEADER = ("CUresult CUDAAPI cuInit(unsigned int Flags);\n"
              "/* CUresult CUDAAPI cuMemOldAlloc(CUdeviceptr *dptr); */\n"
              "CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);\n"
              "CUresult CUDAAPI cuTakeSome(CUdeviceptr *out,\n    size_t n);\n"
              "CUresult CUDAAPI cuEventCreate(CUevent *phEvent);\n")
    ROWS = "HOOK(cuMemAlloc, 2000, kDevice)\nHOOK(cuTakeSome, 13000, kDevice)\n"
    ALLOWED = "# kept short\nholds no memory:\n  cuEventCreate\n"

    def setUp(self):
        super().setUp()
        self.header = self.write("cuda.h", self.HEADER)
        self.write("src/driver/hooks.def", self.ROWS)
        self.write("tools/check/cuda_walk_allowed.txt", self.ALLOWED)

    def test_complete_table_passes(self):
        self.assert_passes("cuda_walk.py", self.root, self.header)

    def test_missing_row_fails(self):
        self.write("src/driver/hooks.def", "HOOK(cuMemAlloc, 2000, kDevice)\n// HOOK(cuTakeSome, 1, x)\n")
        self.assert_fails("cuTakeSome: can change or touch device memory", "cuda_walk.py", self.root, self.header)

    def test_missing_table_fails(self):
        os.remove(os.path.join(self.root, "src/driver/hooks.def"))
        self.assert_fails("cuMemAlloc: can change or touch device memory", "cuda_walk.py", self.root, self.header)

    def test_call_with_an_address_needs_a_row(self):
        self.write("cuda.h", self.HEADER + "CUresult CUDAAPI cuTouch(CUdeviceptr at, size_t n);\n")
        self.assert_fails("cuTouch: can change or touch device memory", "cuda_walk.py", self.root, self.header)
        self.write("src/driver/hooks.def", self.ROWS + "GATED(cuTouch, 13000)\n")
        self.assert_passes("cuda_walk.py", self.root, self.header)

    def test_attribute_that_names_addresses_needs_a_row(self):
        self.write("cuda.h", self.HEADER + "CUresult CUDAAPI cuKeep(CUstream stream, const CUstreamAttrValue *value);\n")
        self.assert_fails("cuKeep: can change or touch device memory", "cuda_walk.py", self.root, self.header)

    def test_one_version_with_a_row_and_another_without_fails(self):
        for row in ("GATED(cuTouch, 13000)\n", "HOOK(cuTouch, cuTouch, 13000, blocks, -, -)\n"):
            with self.subTest(row):
                self.write("src/driver/exports-cuda.txt", "cuTouch\ncuTouch_v2_ptsz\n")
                self.write("src/driver/hooks.def", self.ROWS + row)
                self.assert_fails("cuTouch_v2_ptsz: has no row", "cuda_walk.py", self.root, self.header)
                self.write("tools/check/cuda_walk_allowed.txt", "holds no memory:\n  cuEventCreate cuTouch_v2_ptsz\n")
                self.assert_passes("cuda_walk.py", self.root, self.header)
                self.write("tools/check/cuda_walk_allowed.txt", self.ALLOWED)

    def test_export_that_the_header_does_not_declare_needs_a_row_or_a_reason(self):
        self.write("src/driver/exports-cuda.txt", "cuInit\ncuGLTakeSome_v2\n")
        self.assert_fails("cuGLTakeSome: is exported by drivers", "cuda_walk.py", self.root, self.header)
        self.write("tools/check/cuda_walk_allowed.txt", self.ALLOWED.replace("cuEventCreate", "cuEventCreate cuGLTakeSome"))
        self.assert_passes("cuda_walk.py", self.root, self.header)

    def test_excuse_for_a_governed_call_fails(self):
        self.write("tools/check/cuda_walk_allowed.txt", "no memory:\n cuEventCreate cuMemAlloc\n")
        self.assert_fails("cuMemAlloc has a row in hooks.def", "cuda_walk.py", self.root, self.header)

    def test_excuse_without_reason_fails(self):
        self.write("tools/check/cuda_walk_allowed.txt", "  cuEventCreate\n")
        self.assert_fails("cuEventCreate has no reason", "cuda_walk.py", self.root, self.header)


class Built(CheckTest):
    """The base of tests that compile a small program into root/lib."""

    def compile(self, source, *arguments):
        file = self.write("source.cc", source)
        os.makedirs(os.path.join(self.root, "lib"), exist_ok=True)
        subprocess.run(["g++", "-O1", "-fPIC", "-fno-stack-protector", file, *arguments], check=True, cwd=self.root)


class Libraries(Built):
    ROW = "lib/liba.so names/list.txt,vram_*\n"

    def setUp(self):
        super().setUp()
        self.write("names/list.txt", "cuInit\ncuMemAlloc_v2\n")
        self.write("tools/check/libraries.txt", self.ROW)

    def link(self, source, *arguments):
        self.compile(source, "-shared", "-nostdlib", "-o", "lib/liba.so", *arguments, "-lc")

    GOOD = ('#include <cstring>\nextern "C" { int cuInit() { return 0; } int vram_version() { return 1; }\n'
            'void* cuMemAlloc_v2(void* a, const void* b, size_t n) { return memcpy(a, b, n); } }\n')

    def test_stated_names_pass(self):
        self.link(self.GOOD)
        self.assert_passes("libraries.py", self.root, self.root)

    def test_extra_name_fails(self):
        self.link(self.GOOD + 'extern "C" void leaked() {}\n')
        self.assert_fails("exports 'leaked'", "libraries.py", self.root, self.root)

    def test_missing_name_fails(self):
        self.link(self.GOOD.replace("cuInit", "cuDone"))
        self.assert_fails("does not export 'cuInit'", "libraries.py", self.root, self.root)

    def test_other_library_fails(self):
        self.link(self.GOOD, "-Wl,--no-as-needed", "-lm")
        self.assert_fails("needs 'libm.so.6'", "libraries.py", self.root, self.root)
        self.write("tools/check/libraries.txt", self.ROW.rstrip() + " libm.so.6\n")
        self.assert_passes("libraries.py", self.root, self.root)

    def test_symbol_from_outside_libc_fails(self):
        self.link(self.GOOD + 'extern "C" int elsewhere();\n__attribute__((visibility("hidden"))) '
                  "int call() { return elsewhere(); }\n")
        self.assert_fails("takes 'elsewhere' from outside libc", "libraries.py", self.root, self.root)

    def test_new_libc_function_fails(self):
        self.link(self.GOOD + "#include <stdlib.h>\n__attribute__((visibility(\"hidden\"))) "
                  "unsigned call() { return arc4random(); }\n")
        self.assert_fails("takes 'arc4random@GLIBC_2.36'", "libraries.py", self.root, self.root)

    def test_library_without_row_fails(self):
        self.link(self.GOOD)
        self.write("lib/libother.so.1", "")
        self.assert_fails("lib/libother.so.1: has no row", "libraries.py", self.root, self.root)

    def test_library_that_was_not_built_fails(self):
        self.assert_fails("lib/liba.so: was not built", "libraries.py", self.root, self.root)
        self.write("tools/check/libraries.txt", "?" + self.ROW)
        self.assert_passes("libraries.py", self.root, self.root)

    def test_optional_library_is_checked_where_it_was_built(self):
        self.write("tools/check/libraries.txt", "?" + self.ROW)
        self.link(self.GOOD + 'extern "C" void leaked() {}\n')
        self.assert_fails("exports 'leaked'", "libraries.py", self.root, self.root)


class HotPath(Built):
    RULES = "layer hot\nanywhere memcpy\n"
    COPY = "#include <cstring>\nvoid copy(void* a, const void* b, size_t n) { memcpy(a, b, n); }\n"

    def build(self, source, rules):
        self.write("tools/check/hot_path.txt", rules)
        os.makedirs(os.path.join(self.root, "src/hot/CMakeFiles/vram_hot.dir"), exist_ok=True)
        self.compile(source, "-c", "-o", "src/hot/CMakeFiles/vram_hot.dir/copy.cc.o")

    def test_allowed_symbols_pass(self):
        self.build(self.COPY, self.RULES)
        self.assert_passes("hot_path.py", self.root, self.root)

    def test_system_call_on_the_hot_path_fails(self):
        self.build(self.COPY + "#include <unistd.h>\nvoid f() { getpid(); }\n", self.RULES)
        self.assert_fails("hot/copy.cc: uses 'getpid'", "hot_path.py", self.root, self.root)

    def test_only_the_named_target_of_a_layer_is_held_to_it(self):
        source = self.COPY + "#include <unistd.h>\nvoid f() { getpid(); }\n"
        self.build(source, "layer hot vram_hot\nanywhere memcpy\n")
        self.assert_fails("hot/copy.cc: uses 'getpid'", "hot_path.py", self.root, self.root)
        self.build(source, "layer hot vram_other\nanywhere memcpy\n")
        self.assert_fails("src/hot: no object was built", "hot_path.py", self.root, self.root)

    def test_object_off_the_hot_path_may_do_what_its_row_says(self):
        source = self.COPY + "#include <unistd.h>\nvoid f() { getpid(); }\n"
        self.build(source, self.RULES + "object hot/copy.cc getpid identifies the process at start\n")
        self.assert_passes("hot_path.py", self.root, self.root)

    def test_row_without_reason_or_use_fails(self):
        self.build(self.COPY, self.RULES + "object hot/copy.cc getpid\n")
        self.assert_fails("row of hot/copy.cc has no reason", "hot_path.py", self.root, self.root)
        self.assert_fails("hot/copy.cc does not use 'getpid'", "hot_path.py", self.root, self.root)

    def test_constructor_fails_unless_declared(self):
        source = self.COPY + "int g;\n__attribute__((constructor)) void start() { g = 1; }\n"
        self.build(source, self.RULES)
        self.assert_fails("hot/copy.cc: runs code when it is loaded", "hot_path.py", self.root, self.root)
        self.build(source, self.RULES + "constructor hot/copy.cc finds the driver before the program does\n")
        self.assert_passes("hot_path.py", self.root, self.root)


class Format(CheckTest):
    def run_format(self, text):
        shutil.copy(os.path.join(SOURCE, ".clang-format"), self.root)
        return subprocess.run([os.path.join(CHECKS, "format"), self.write("a.cc", text)], capture_output=True,
                              text=True, check=False)

    def test_badly_formatted_file_fails(self):
        result = self.run_format("int  f( ){return 1;}\n")
        if "skipped" in result.stdout:
            self.skipTest(result.stdout.strip())
        self.assertIn("a.cc: run clang-format", result.stderr)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(self.run_format("int f() { return 1; }\n").returncode, 0)


class Tidy(CheckTest):
    def run_tidy(self, text):
        config = os.path.join(SOURCE, ".clang-tidy")
        return subprocess.run([CLANG_TIDY, "--quiet", f"--config-file={config}", self.write("a.cc", text), "--",
                               "-std=c++20"], capture_output=True, text=True, check=False)

    def test_fault_in_the_source_fails(self):
        if not os.path.exists(CLANG_TIDY):
            self.skipTest("clang-tidy is not installed; run: tools/setup test")
        result = self.run_tidy("int f(int* p) { if (p) return 1; return *p; }\n")
        self.assertIn("clang-analyzer-core.NullDereference", result.stdout)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(self.run_tidy("int f(int* p) { return p ? *p : 0; }\n").returncode, 0)


if __name__ == "__main__":
    unittest.main()
