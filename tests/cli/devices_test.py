"""`vram devices` shows the cards, `vram env` the environment of a preset.

usage: devices_test.py BUILD
"""

import os
import subprocess

from command import FAKE_NVML, GREEDY, VRAM, CommandTest, main

GIB, MIB = 1 << 30, 1 << 20


class Devices(CommandTest):
    def test_a_host_without_a_card_is_no_failure(self):
        result = self.vram("devices")
        self.assertEqual((result.stdout, result.stderr, result.returncode), ("no NVIDIA GPU found\n", "", 0))
        self.assertEqual(self.json("devices"), {"schema": 1, "devices": []})

    def test_cards_of_different_sizes(self):
        devices = self.json("devices", "--sim", "1x24GiB,1x80GiB")["devices"]
        self.assertEqual([(device["index"], device["total"], device["free"]) for device in devices],
                         [(0, 24 * GIB, 24 * GIB), (1, 80 * GIB, 80 * GIB)])
        for device in devices:
            self.assertRegex(device["uuid"], r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
            self.assertRegex(device["pci"], r"^[0-9a-f]{4}:[0-9a-f]{2}:00\.0$")
        lines = self.vram("devices", "--sim", "1x24GiB,1x80GiB").stdout.splitlines()
        self.assertEqual(lines[0].split(), "GPU NAME TOTAL USED FREE JOBS CAPS PCI UUID".split())
        self.assertEqual(len(lines), 3)

    def test_sim_may_come_from_the_environment(self):
        self.assertIn("24GiB", self.vram("devices", environment={"VRAM_SIM": "1x24GiB"}).stdout)

    def test_jobs_are_counted_on_their_card(self):
        ready, until = (os.path.join(self.folder, name) for name in ("ready", "until"))
        self.start("run", "-m", "4GiB", "--gpu", "1", "--sim", "2x24GiB", "--", GREEDY, "--take", "1000", "--ready", ready,
                   "--until", until)
        self.wait_for(lambda: os.path.exists(ready), "the program")
        first, second = self.json("devices", "--sim", "2x24GiB")["devices"]
        self.assertEqual((first["jobs"], first["used"]), ([], 0))
        self.assertEqual((second["used"], second["free"]), (1518 * MIB, 24 * GIB - 1518 * MIB))
        job, = second["jobs"]
        self.assertEqual((job["used"], job["limit"]), (1518 * MIB, 4 * GIB))
        self.assertEqual(set(second), {"index", "uuid", "name", "pci", "total", "reserved", "used", "free", "mig", "jobs"})
        self.assertEqual(set(job), {"id", "used", "limit"})
        caps = r"^ *{} .* 24GiB +\S+ +\S+ +{} +{} +0000:"
        lines = self.vram("devices", "--sim", "2x24GiB").stdout.splitlines()
        self.assertRegex(lines[1], caps.format(0, 0, "0B"))
        self.assertRegex(lines[2], caps.format(1, 1, "4GiB"))

    def test_jobs_without_a_limit_promise_no_sum(self):
        for limit in (("-m", "4GiB"), ()):
            self.start("run", *limit, "--sim", "1x24GiB", "--", "sleep", "60")
        self.wait_for(lambda: len(self.jobs()) == 2, "the jobs")
        lines = self.vram("devices", "--sim", "1x24GiB").stdout.splitlines()
        self.assertRegex(lines[1], r" 2 +- +0000:")
        device, = self.json("devices", "--sim", "1x24GiB")["devices"]
        self.assertEqual({job["limit"] for job in device["jobs"]}, {None, 4 * GIB})

    def test_an_old_management_library_is_enough(self):
        environment = {"LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML_CARDS": "2", "FAKE_NVML_MIG": "1"}
        lines = self.vram("devices", environment=environment).stdout.splitlines()
        self.assertRegex(lines[1], r"^ *0  Card +24GiB +0B +24GiB +0 +0B +0000:01:00.0")
        self.assertRegex(lines[2], r"^ *1  Card \(MIG\)")

    def test_a_driver_that_does_not_answer_is_a_failure(self):
        result = self.vram("devices", environment={"LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML_INIT": "999"})
        self.assertEqual((result.stdout, result.returncode), ("", 1))

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run([VRAM, "devices"], env=self.environment, stdout=full, stderr=subprocess.PIPE,
                                    text=True, check=False)
        self.assertEqual((result.stderr, result.returncode), ("vram: standard output cannot be written\n", 1))


class Presets(CommandTest):
    def test_exports_can_be_evaluated(self):
        script = self.vram("env", "jax", "--greedy").stdout + 'echo "$XLA_PYTHON_CLIENT_PREALLOCATE"'
        self.assertEqual(subprocess.run(["sh", "-c", script], text=True, capture_output=True, check=True).stdout, "true\n")

    def test_every_framework_has_an_answer(self):
        for framework, preset, variables in [
                ("tensorflow", ("--growth",), {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}),
                ("tensorflow", ("--profile", "shared"), {"TF_FORCE_GPU_ALLOW_GROWTH": "true",
                                                         "TF_ENABLE_GPU_GARBAGE_COLLECTION": "true"}),
                ("jax", ("--growth",), {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
                ("jax", ("--greedy", "-m", "40%"), {"XLA_PYTHON_CLIENT_PREALLOCATE": "true",
                                                    "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.400"}),
                ("jax", ("-m", "5%"), {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.050"}),
                ("jax", ("-m", "0.5%"), {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.005"}),
                ("jax", ("-m", "100%"), {"XLA_PYTHON_CLIENT_MEM_FRACTION": "1.0"}),
                ("pytorch", ("--profile", "train"), {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
                ("cupy", ("-m", "4GiB"), {"CUPY_GPU_MEMORY_LIMIT": "4294967296"}),
                ("cupy", ("-m", "40%"), {"CUPY_GPU_MEMORY_LIMIT": "40%"}),
                ("onnxruntime", ("--growth",), {})]:
            with self.subTest(framework=framework, preset=preset):
                shown = self.json("env", framework, *preset)
                self.assertEqual((shown["schema"], shown["framework"], shown["variables"]), (1, framework, variables))
                if not variables:
                    self.assertTrue(shown["notes"])

    def test_notes_are_comments(self):
        for line in self.vram("env", "onnxruntime", "-m", "4GiB", "--growth").stdout.splitlines():
            self.assertTrue(line.startswith("# "), line)


if __name__ == "__main__":
    main()
