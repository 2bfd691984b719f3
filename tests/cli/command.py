"""The command under test, each time with folders of its own, so that tests may run side by side."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.realpath(sys.argv[1])
VRAM = os.path.join(BUILD, "bin", "vram")
GREEDY = os.path.join(BUILD, "bin", "greedy")
FAKE_NVML = os.path.join(BUILD, "tests", "fake_nvml")
# A host without a card runs these tests, and so does one with: nobody sees that one's driver.
NO_DRIVER = "no-driver"


class CommandTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="vram-cli-")
        self.addCleanup(self.remove_folders)  # the last, when everything that was started has ended
        self.state = os.path.join(self.folder, "state")
        no_driver = os.path.join(self.folder, NO_DRIVER)
        os.mkdir(no_driver)
        with open(os.path.join(no_driver, "libnvidia-ml.so.1"), "w", encoding="ascii") as library:
            library.write("not a library")
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.environment = {
            **kept,
            "VRAM_STATE_DIR": self.state,
            "VRAM_SIM_NAME": os.path.basename(self.folder),
            "XDG_CONFIG_HOME": os.path.join(self.folder, "config"),
            "XDG_CACHE_HOME": os.path.join(self.folder, "cache"),
            "LD_LIBRARY_PATH": no_driver,
        }

    def remove_folders(self):
        shutil.rmtree(self.folder)
        machine = f"/dev/shm/vram-sim-{os.geteuid()}-{os.path.basename(self.folder)}"
        if os.path.exists(machine):
            os.remove(machine)

    def vram(self, *arguments, environment=None, **options):
        """Runs the command to its end; its CompletedProcess."""
        return subprocess.run(
            [VRAM, *arguments], env={**self.environment, **(environment or {})}, text=True, capture_output=True,
            timeout=60, check=False, **options)

    def start(self, *arguments, environment=None, **options):
        """Starts the command; its Popen, ended with the test at the latest."""
        process = subprocess.Popen(
            [VRAM, *arguments], env={**self.environment, **(environment or {})}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=30)

    def json(self, *arguments):
        result = self.vram(*arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def jobs(self):
        return self.json("ps")["jobs"]

    def wait_for(self, condition, what):
        for _ in range(600):
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        return self.fail(f"{what}: not within 30 s")

    def config(self, text):
        folder = os.path.join(self.environment["XDG_CONFIG_HOME"], "vram")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "config.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def script(self, name, text, mode=0o755):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def job_files(self):
        return os.listdir(self.state) if os.path.isdir(self.state) else []


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
