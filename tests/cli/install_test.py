"""`cmake --install` over an installation whose programs run.

usage: install_test.py BUILD
"""

import os
import subprocess

from command import BUILD, GREEDY, CommandTest, main

STAND_INS = ("libcuda.so.1", "libnvidia-ml.so.1")


class Install(CommandTest):
    def install(self, prefix):
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        for name in STAND_INS:  # or the next installation would find nothing to do
            os.utime(os.path.join(prefix, "lib", "vram", name), (0, 0))

    def test_a_new_version_leaves_running_programs_their_old_library(self):
        prefix = os.path.join(self.folder, "prefix")
        ready, until = (os.path.join(self.folder, name) for name in ("ready", "until"))
        self.install(prefix)
        files = [os.path.join(prefix, "lib", "vram", name) for name in STAND_INS]
        before = [os.stat(file).st_ino for file in files]
        process = subprocess.Popen([os.path.join(prefix, "bin", "vram"), "run", "-m", "2GiB", "--sim", "1x24GiB", "--", GREEDY,
                                    "--take", "100", "--ready", ready, "--until", until], env=self.environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        self.wait_for(lambda: os.path.exists(ready), "the program's start")
        kept = [os.open(file, os.O_RDONLY) for file in files]  # an inode's number must not come back
        self.install(prefix)
        self.assertTrue(all(old != os.stat(file).st_ino for old, file in zip(before, files)), "rewritten in place")
        for descriptor in kept:
            os.close(descriptor)
        with open(until, "w", encoding="utf-8"):
            pass
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("took 100 MiB", out)
        self.assertRegex(err, r"peak \d+MiB of 2GiB")


if __name__ == "__main__":
    main()
