"""Bad input gets one line that names the thing, the limit and the next step; its exit status; and nothing starts.

usage: bad_input_test.py BUILD
"""

import os
import shutil
import subprocess
import unittest

from command import FAKE_NVML, VRAM, CommandTest, main

SIM = ("--sim", "1x24GiB")
UNITS = "use KiB, MiB, GiB, TiB (1024), KB, MB, GB, TB (1000), B or %"

# Arguments of `vram run` before `-- CMD`, and the line.
WRONG_SETTINGS = [
    (("-m", "4"), "-m: '4' has no unit; did you mean 4GiB, 4MiB, 4B or 4%?"),
    (("-m", "4096"), "-m: '4096' has no unit; did you mean 4096GiB, 4096MiB, 4096B or 4096%?"),
    (("-m", "4g5"), f"-m: '4g5' has an unknown unit; {UNITS}"),
    (("-m", "4 GiB"), f"-m: '4 GiB' has an unknown unit; {UNITS}"),
    (("-m", "4\n\x1b[2J"), f"-m: '4??[2J' has an unknown unit; {UNITS}"),
    (("-m", "-4GiB"), "-m: '-4GiB' is negative; a limit is at least 1MiB"),
    (("-m", "0"), "-m: '0' is no memory at all; to hide a card use --gpu, for no limit leave it out"),
    (("-m", "NaN"), "-m: 'NaN' is not a size; write one like 4GiB or 40%"),
    (("-m", ""), "-m: the size is empty; write one like 4GiB or 40%"),
    (("-m", "99999999999GiB"), "-m: '99999999999GiB' is more than any card has; write a size like 4GiB"),
    (("-m", "140%"), "-m: '140%' is more than the whole card; use 100% or less"),
    (("-m", "0%"), "-m: '0%' is no memory at all; to hide a card use --gpu, for no limit leave it out"),
    (("-m", "33.33%"), "-m: '33.33%' is too fine; percentages have one decimal at most, like 12.5%"),
    (("-m", "4GiB,8GiB"), "-m: '4GiB,8GiB' lists sizes without cards; write 0=4GiB,1=8GiB"),
    (("-m", "0=4GiB,0=8GiB"), "-m: card 0 has two limits; give it one"),
    (("-m", "30GiB"), "-m: 30GiB is more than card 0 has (24GiB); use less, or a percentage like 90%"),
    (("-m", "100MiB"), "-m: 100MiB is less than a CUDA context takes on card 0 (518MiB), so the program could not start; "
                       "use more, like 1GiB"),
    (("-m", "1%"), "-m: 245.8MiB is less than a CUDA context takes on card 0 (518MiB), so the program could not start; "
                   "use more, like 1GiB"),
    (("-m", "1=4GiB"), "-m: there is no card 1; the only card is 0 (see 'vram devices')"),
    (("-m", "GPU-ffff=4GiB"), "-m: 'GPU-ffff' is no card; the only card is 0 (numbers and UUIDs: 'vram devices')"),
    (("--gpu", "1"), "--gpu: there is no card 1; the only card is 0 (see 'vram devices')"),
    (("--gpu", "0,0"), "--gpu: card 0 is named twice; name it once"),
    (("--gpu", "first"), "--gpu: 'first' is no card; the only card is 0 (numbers and UUIDs: 'vram devices')"),
    (("--gpu", ""), "--gpu: a card is missing; write a number of 'vram devices' or a UUID"),
    (("--gpu", "MIG-6d9d"), "--gpu: 'MIG-6d9d' is a MIG instance; vram governs whole cards: MIG already divides memory in "
                            "hardware, so run the program without vram, or name a card"),
    (("--profile", "fast"), "--profile: there is no profile 'fast'; use shared, serve or train"),
    (("--growth", "--greedy"), "--growth and --greedy exclude each other; choose one"),
    (("--on-failure", "ignore"), "--on-failure: 'ignore' is unknown; use refuse or allow"),
    (("--alloc", "magic"), "--alloc: 'magic' is unknown; use driver or vram"),
    (("--elastic", "--alloc", "driver"), "--elastic needs vram's own pools, and --alloc chooses the driver's, which cannot be "
                                         "parked; leave one of them out"),
    (("--name", "7"), "--name: '7' is no name; use 1 to 63 characters without spaces, not only digits"),
    (("--name", "a" * 64), f"--name: '{'a' * 64}' is no name; use 1 to 63 characters without spaces, not only digits"),
    (("--name", "my job"), "--name: 'my job' is no name; use 1 to 63 characters without spaces, not only digits"),
]

WRONG_MACHINES = [
    ("many", "--sim: 'many' is no machine; write COUNTxSIZE, like 2x24GiB"),
    ("2x24", "--sim: '24' has no unit; did you mean 24GiB, 24MiB, 24B or 24%?"),
    ("0x24GiB", "--sim: '0x24GiB' has 0 cards; a machine has 1 to 64"),
    ("65x24GiB", "--sim: '65x24GiB' has 65 cards; a machine has 1 to 64"),
    ("2x40%", "--sim: a simulated card of 40% is too small; use 1GiB or more"),
    ("1x1MiB", "--sim: a simulated card of 1MiB is too small; use 1GiB or more"),
    ("2x24GiB,", "--sim: '2x24GiB,' is no machine; write COUNTxSIZE, like 2x24GiB"),
    ("x24GiB", "--sim: 'x24GiB' is no machine; write COUNTxSIZE, like 2x24GiB"),
]


class BadInput(CommandTest):
    def refused(self, arguments, line, status=125, environment=None, command=None):
        ran = os.path.join(self.folder, "ran")
        command = command if command is not None else ("--", "touch", ran)
        result = self.vram("run", *arguments, *command, environment=environment)
        self.assertEqual(result.stderr, f"vram: {line}\n")
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.returncode, status)
        self.assertFalse(os.path.exists(ran), "it was started")
        self.assertEqual(self.job_files(), [])

    def test_wrong_settings(self):
        for arguments, line in WRONG_SETTINGS:
            with self.subTest(arguments=arguments):
                self.refused((*SIM, *arguments), line)

    def test_wrong_machines(self):
        for machine, line in WRONG_MACHINES:
            with self.subTest(machine=machine):
                self.refused(("--sim", machine), line)

    def test_empty_command(self):
        line = "run: there is no command to run; write: vram run -m 4GiB -- CMD ARG..."
        self.refused(("-m", "4GiB"), line, command=())
        self.refused(("-m", "4GiB"), line, command=("--",))
        self.refused(SIM, "the command's name is empty; write: vram run -m 4GiB -- CMD", command=("--", ""))

    def test_unknown_option(self):
        self.refused(("--frobnicate",), "run: The following argument was not expected: --frobnicate; see 'vram run --help'")
        self.refused(("-m",), "run: --limit: 1 required SIZE missing; see 'vram run --help'", command=())

    def test_wrong_variables(self):
        for name, value, line in [
                ("VRAM_LIMIT", "4", "VRAM_LIMIT: '4' has no unit; did you mean 4GiB, 4MiB, 4B or 4%?"),
                ("VRAM_LIMIT", "", "VRAM_LIMIT: the size is empty; write one like 4GiB or 40%"),
                ("PER_PROCESS_GPU_MEMORY", "lots", "PER_PROCESS_GPU_MEMORY: 'lots' is not a whole number of MiB; write 4096 "
                                                   "for 4GiB, or use VRAM_LIMIT=4GiB"),
                ("PER_PROCESS_GPU_MEMORY", "99999", "PER_PROCESS_GPU_MEMORY: 97.7GiB is more than card 0 has (24GiB); use "
                                                    "less, or a percentage like 90%"),
                ("VRAM_ELASTIC", "yes", "VRAM_ELASTIC: 'yes' is unknown; use true or false"),
                ("VRAM_PROFILE", "fast", "VRAM_PROFILE: there is no profile 'fast'; use shared, serve or train"),
                ("CUDA_VISIBLE_DEVICES", "MIG-1", "CUDA_VISIBLE_DEVICES: 'MIG-1' is a MIG instance; vram governs whole cards: "
                                                  "MIG already divides memory in hardware, so run the program without vram, "
                                                  "or name a card")]:
            with self.subTest(name=name, value=value):
                self.refused(SIM, line, environment={name: value})

    def test_state_folder_in_no_folder(self):
        folder = os.path.join(self.folder, "no", "state")
        self.refused(SIM, f"state folder {folder}: the folder it would lie in does not exist; make that, or set VRAM_STATE_DIR "
                     "to another", environment={"VRAM_STATE_DIR": folder})

    def test_hidden_card(self):
        self.refused(("--sim", "2x24GiB", "--gpu", "0"), "--gpu: card 0 is hidden by CUDA_VISIBLE_DEVICES=1; choose a "
                     "visible one or unset that variable", environment={"CUDA_VISIBLE_DEVICES": "1"})
        self.refused(("--sim", "2x24GiB", "--gpu", "0", "-m", "1=4GiB"),
                     "-m: the program will not see card 1; leave its limit out, or name it in --gpu")

    def test_wrong_files(self):
        path = self.config('quiet = true\nlimt = "4GiB"\n')
        self.refused(SIM, f"{path}:2: unknown key 'limt'; known are limit, reserve, gpu, profile, alloc, "
                     "park_after, on_failure, sim, growth, greedy, elastic, park, wait, quiet")
        self.config("limit = 4\n")
        self.refused(SIM, f'{path}:1: limit must be a text in quotes, like limit = "4GiB"')
        self.config('limit = "4"\n')
        self.refused(SIM, f"{path}:1: limit: '4' has no unit; did you mean 4GiB, 4MiB, 4B or 4%?")

    def test_file_that_is_not_toml(self):
        for text in ('limit = "4GiB\n', "[\n", "[&", "[[[", "\xe9 = [\n"):
            with self.subTest(text=text):
                path = self.config(text)
                result = self.vram("run", *SIM, "--", "true")
                self.assertEqual(result.returncode, 125)
                self.assertRegex(result.stderr, rf"^vram: {path}(:1)?: .*; correct the file\n$")

    def test_no_driver(self):
        self.refused(("-m", "4GiB"), "there is no NVIDIA driver (libnvidia-ml.so.1 was not found); install one, or simulate a "
                     "card with --sim 1x24GiB")

    def test_driver_not_loaded(self):
        self.refused(("-m", "4GiB"), "the NVIDIA driver is not loaded (Driver Not Loaded); load it, or simulate a card with "
                     "--sim 1x24GiB", environment={"LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML_INIT": "9"})

    def test_driver_that_does_not_answer(self):
        self.refused(("-m", "4GiB"), "the NVIDIA driver does not answer (Unknown Error); see whether nvidia-smi works",
                     environment={"LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML_INIT": "999"})

    def test_old_driver(self):
        self.refused(("-m", "4GiB"), "the NVIDIA driver is too old (460.106, CUDA 11.2); vram needs one for CUDA 11.3 or "
                     "later, which is 465.19 or later", environment={"LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML_CUDA": "11020"})

    def test_card_in_mig_mode(self):
        fake = {"LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML_CARDS": "2", "FAKE_NVML_MIG": "1"}
        self.refused(("-m", "4GiB"), "card 1 is divided by MIG, which vram does not govern; choose another with --gpu, or run "
                     "the program without vram", environment=fake)

    def test_cap_under_any_context(self):
        self.refused(("-m", "63MiB"), "-m: 63MiB is less than any CUDA context takes on card 0 (64MiB), so the program could "
                     "not start; use more, like 1GiB", environment={"LD_LIBRARY_PATH": FAKE_NVML})

    def test_numbers_of_different_models(self):
        fake = {"LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML_CARDS": "2", "FAKE_NVML_MIXED": "1", "CUDA_VISIBLE_DEVICES": "0"}
        self.refused(("--gpu", "0"), "--gpu: CUDA_VISIBLE_DEVICES=0 counts cards of different models by speed, which vram "
                     "cannot; set CUDA_DEVICE_ORDER=PCI_BUS_ID or unset CUDA_VISIBLE_DEVICES", environment=fake)

    def test_command_not_found(self):
        self.refused(SIM, "cannot run 'no-such-program': it is not in PATH; check the spelling, or write the path", status=127,
                     command=("--", "no-such-program"))
        self.refused(SIM, "cannot run '/no/such/program': No such file or directory; check the path", status=127,
                     command=("--", "/no/such/program"))

    def test_command_not_executable(self):
        self.refused(SIM, f"cannot run '{self.folder}': it is a folder; name a program in it", status=126,
                     command=("--", self.folder))
        text = self.script("text", "hello\n", mode=0o644)
        self.refused(SIM, f"cannot run '{text}': it is not executable; try chmod +x, or name its interpreter first",
                     status=126, command=("--", text))

    def test_state_folder_of_somebody_else(self):
        os.mkdir(self.state)
        os.chmod(self.state, 0o777)
        self.refused(SIM, f"state folder {self.state}: it belongs to another user, is writable by others, or is a link; remove "
                     "it, or set VRAM_STATE_DIR to a folder of your own")

    def test_libraries_missing(self):
        alone = os.path.join(self.folder, "bin", "vram")
        os.mkdir(os.path.dirname(alone))
        shutil.copy(VRAM, alone)
        result = subprocess.run([alone, "run", "-m", "4GiB", "true"], text=True, capture_output=True, check=False,
                                env={**self.environment, "LD_LIBRARY_PATH": FAKE_NVML})
        self.assertEqual(result.stderr, f"vram: the library {self.folder}/lib/vram/libcuda.so.1 is missing; reinstall vram, "
                         "or accept that with --on-failure allow\n")
        self.assertEqual(result.returncode, 125)
        result = subprocess.run([alone, "run", *SIM, "true"], text=True, capture_output=True, check=False, env=self.environment)
        self.assertEqual(result.stderr, f"vram: --sim: the simulator is missing ({self.folder}/lib/sim/libnvidia-ml.so.1); "
                         "reinstall vram\n")

    def test_programs_that_cannot_be_governed(self):
        static = os.path.join(self.folder, "static")
        source = self.script("static.c", "int main(void) { return 0; }\n")
        subprocess.run(["cc", "-static", "-o", static, source], check=True)
        next_step = "run a dynamically linked program of the same user, or accept that with --on-failure allow"
        self.refused(SIM, f"'{static}' is statically linked, so its GPU memory cannot be limited; {next_step}",
                     command=("--", static))
        script = self.script("script", f"#!{static}\n")
        self.refused(SIM, f"'{script}': its interpreter '{static}' is statically linked, so its GPU memory cannot be limited; "
                     f"{next_step}", command=("--", script))
        for line in (static, f"-S {static} -u", f"A=B {static}"):
            through_env = self.script("through-env", f"#!/usr/bin/env {line}\n")
            self.refused(SIM, f"'{through_env}': its interpreter '{static}' is statically linked, so its GPU memory cannot be "
                         f"limited; {next_step}", command=("--", through_env))
        allowed = self.vram("run", *SIM, "--on-failure", "allow", "--", static)
        self.assertEqual(allowed.returncode, 0)
        self.assertIn(f"vram: warning: '{static}' is statically linked", allowed.stderr)

    def test_programs_of_another_kind_cannot_be_governed(self):
        next_step = "run a dynamically linked program of the same user, or accept that with --on-failure allow"
        source = self.script("program.c", "int main(void) { return 0; }\n")
        musl, narrow, foreign = (os.path.join(self.folder, name) for name in ("musl", "narrow", "foreign"))
        subprocess.run(["cc", "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1", "-o", musl, source], check=True)
        for path, at, byte in [(narrow, 4, 1), (foreign, 18, 183)]:  # the class 32 bits, the machine AArch64
            shutil.copy(musl, path)
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(bytes([byte]))
        for path, reason in [(musl, "is linked with musl"), (narrow, "is a 32-bit program"),
                             (foreign, "is for another processor")]:
            with self.subTest(path=path):
                self.refused(SIM, f"'{path}' {reason}, so its GPU memory cannot be limited; {next_step}", command=("--", path))

    def test_programs_that_change_the_user_cannot_be_governed(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root")
        next_step = "run a dynamically linked program of the same user, or accept that with --on-failure allow"
        for name, mode, owner in [("user", 0o4755, (60000, 0)), ("group", 0o2755, (0, 60000))]:
            path = os.path.join(self.folder, name)
            shutil.copy("/bin/true", path)
            os.chown(path, *owner)
            os.chmod(path, mode)
            self.refused(SIM, f"'{path}' has the set-{name}-ID bit, so its GPU memory cannot be limited; {next_step}",
                         command=("--", path))
            os.chown(path, 0, 0)
            os.chmod(path, mode)
            self.assertEqual(self.vram("run", *SIM, "--", path).returncode, 0)

    def test_other_commands(self):
        for arguments, line, status in [
                ((), "A subcommand is required; see 'vram --help'", 2),
                (("frobnicate",), "there is no command 'frobnicate'; 'vram --help' lists them", 2),
                (("ps", "extra"), "ps: The following argument was not expected: extra; see 'vram ps --help'", 2),
                (("limit", "x"), "limit: SIZE is required; see 'vram limit --help'", 2),
                (("limit", "x", "4GiB"), "there is no job 'x'; 'vram ps' shows those that run", 1),
                (("park",), "park: JOB is required; see 'vram park --help'", 2),
                (("park", "x"), "there is no job 'x'; 'vram ps' shows those that run", 1),
                (("unpark", "x"), "there is no job 'x'; 'vram ps' shows those that run", 1),
                (("park", "x", "--timeout", "60"), "--timeout: '60' has no unit; did you mean 60s or 60min?", 1),
                (("env", "keras", "--growth"), "env: 'keras' is no framework known here; use tensorflow, jax, pytorch, cupy, "
                                               "onnxruntime", 2),
                (("env", "jax"), "env: choose what to print: --growth, --greedy, --profile NAME or -m SIZE", 2),
                (("env", "jax", "-m", "4"), "-m: '4' has no unit; did you mean 4GiB, 4MiB, 4B or 4%?", 1),
                (("completion", "tcsh"), "completion: 'tcsh' is no shell known here; use bash, zsh or fish", 2),
                (("devices", "--sim", "many"), "--sim: 'many' is no machine; write COUNTxSIZE, like 2x24GiB", 1),
                (("ps", "--sim", "many"), "--sim: 'many' is no machine; write COUNTxSIZE, like 2x24GiB", 1)]:
            with self.subTest(arguments=arguments):
                result = self.vram(*arguments)
                self.assertEqual(result.stderr, f"vram: {line}\n")
                self.assertEqual(result.stdout, "")
                self.assertEqual(result.returncode, status)


if __name__ == "__main__":
    main()
