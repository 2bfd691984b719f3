"""`vram run` starts a program with the limit, the cards and the environment asked for, and passes everything else through.

usage: run_test.py BUILD
"""

import json
import os
import re
import signal
import subprocess
import unittest

from command import BUILD, FAKE_NVML, GREEDY, VRAM, CommandTest, main

SIM = ("--sim", "1x24GiB")
SIM2 = ("--sim", "2x24GiB")
LIBRARIES = f"{BUILD}/lib/vram/libcuda.so.1:{BUILD}/lib/vram/libnvidia-ml.so.1"
GIB = 1 << 30


class Run(CommandTest):
    def seen(self, *arguments, environment=None):
        """The environment that a program sees."""
        result = self.vram("run", *arguments, "--", "env", "-0", environment=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return dict(variable.split("=", 1) for variable in result.stdout.split("\0") if variable)

    def devices_of_running(self, *arguments, environment=None):
        """The cards of a job, in the order in which the job sees them."""
        process = self.start("run", *arguments, "--", "sleep", "60", environment=environment)
        job = self.wait_for(lambda: self.jobs(), "the job")[0]
        process.terminate()
        process.communicate(timeout=30)
        return [(device["index"], device["limit"]) for device in job["devices"]]

    def test_limit_holds(self):
        result = self.vram("run", "-m", "4GiB", *SIM, "--", GREEDY)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"3578 MiB of 4096 MiB free\n.*took 3578 MiB, then: out of memory")
        self.assertRegex(result.stderr, r"^vram: job \w{4}: GPU 0 peak 4GiB of 4GiB, \d+ requests denied \(largest 256MiB\)\n$")
        self.assertEqual(self.job_files(), [])

    def test_least_limit_that_is_accepted_lets_a_program_start(self):
        result = self.vram("run", "-m", "518MiB", *SIM, "--", GREEDY)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("took 0 MiB, then: out of memory", result.stdout)

    def test_environment(self):
        seen = self.seen("-m", "4GiB", *SIM)
        self.assertEqual(seen["LD_PRELOAD"], LIBRARIES)
        self.assertRegex(seen["VRAM_JOB"], rf"^{re.escape(self.state)}/[a-z][a-z0-9]{{3}}\.job$")
        self.assertEqual(seen["VRAM_SIM"], "1x24576MiB")
        self.assertNotIn("CUDA_VISIBLE_DEVICES", seen)

    def test_preload_is_added_once(self):
        seen = self.seen(*SIM, environment={"LD_PRELOAD": f"/nowhere/other.so:{LIBRARIES}"})
        self.assertEqual(seen["LD_PRELOAD"], f"{LIBRARIES}:/nowhere/other.so")

    def test_limits_by_card(self):
        self.assertEqual(self.devices_of_running("-m", "0=4GiB,1=50%", *SIM2), [(0, 4 * GIB), (1, 12 * GIB)])
        self.assertEqual(self.devices_of_running("-m", "1=4GiB", *SIM2), [(0, None), (1, 4 * GIB)])

    def test_chosen_cards_and_their_order(self):
        uuids = [device["uuid"] for device in self.json("devices", *SIM2)["devices"]]
        self.assertEqual(self.seen("--gpu", "1,0", *SIM2)["CUDA_VISIBLE_DEVICES"], f"{uuids[1]},{uuids[0]}")
        self.assertEqual(self.seen("--gpu", uuids[1][:12], *SIM2)["CUDA_VISIBLE_DEVICES"], uuids[1])
        self.assertEqual(self.devices_of_running("--gpu", "1,0", "-m", "0=4GiB,1=8GiB", *SIM2),
                         [(1, 8 * GIB), (0, 4 * GIB)])

    def test_each_card_has_its_limit_whatever_the_program_numbers_it(self):
        result = self.vram("run", "--gpu", "1,0", "-m", "0=4GiB,1=8GiB", *SIM2, "--", GREEDY)
        self.assertIn("took 7674 MiB, then: out of memory", result.stdout)
        self.assertRegex(result.stderr, r"GPU 1 peak 8GiB of 8GiB, \d+ requests denied .*; GPU 0 peak 0B of 4GiB")

    def test_limit_holds_on_a_card_that_the_program_turns_to_itself(self):
        for limit in ("4GiB", "16.7%"):
            result = self.vram("run", "-m", limit, "--gpu", "0", *SIM2, "--", "env", "CUDA_VISIBLE_DEVICES=1", GREEDY)
            self.assertRegex(result.stdout, r"took 35\d\d MiB, then: out of memory", result.stderr)
            self.assertRegex(result.stderr, r"GPU \? peak 4(GiB|104MiB) of 4(\.0)?GiB")

    def test_inherited_cards_stay_as_they_are(self):
        for variable, indices in [("1", [1]), ("1,0", [1, 0]), ("0,9,1", [0]), ("", []), ("-1", []), ("0,0", [])]:
            with self.subTest(variable=variable):
                environment = {"CUDA_VISIBLE_DEVICES": variable}
                devices = self.devices_of_running("-m", "4GiB", *SIM2, environment=environment)
                self.assertEqual(devices, [(index, 4 * GIB) for index in indices])
                self.assertEqual(self.seen(*SIM2, environment=environment)["CUDA_VISIBLE_DEVICES"], variable)

    def test_cards_of_different_models_all_have_accounts(self):
        fake = {"LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML_CARDS": "2", "FAKE_NVML_MIXED": "1", "CUDA_VISIBLE_DEVICES": "0"}
        self.assertEqual(self.devices_of_running("-m", "4GiB", environment=fake), [(0, 4 * GIB), (1, 4 * GIB)])

    def test_limit_from_environment_and_file(self):
        self.config('limit = "6GiB"\n')
        self.assertEqual(self.devices_of_running(*SIM), [(0, 6 * GIB)])
        deployment = {"PER_PROCESS_GPU_MEMORY": "5120"}
        self.assertEqual(self.devices_of_running(*SIM, environment=deployment), [(0, 5 * GIB)])
        both = {**deployment, "VRAM_LIMIT": "4GiB"}
        self.assertEqual(self.devices_of_running(*SIM, environment=both), [(0, 4 * GIB)])
        self.assertEqual(self.devices_of_running(*SIM, "-m", "2GiB", environment=both), [(0, 2 * GIB)])

    def test_frameworks_are_told(self):
        growth = self.seen("--growth", *SIM)
        self.assertEqual(growth["TF_FORCE_GPU_ALLOW_GROWTH"], "true")
        self.assertEqual(growth["XLA_PYTHON_CLIENT_PREALLOCATE"], "false")
        self.assertEqual(self.seen("--greedy", *SIM)["XLA_PYTHON_CLIENT_PREALLOCATE"], "true")
        shared = self.seen("--profile", "shared", *SIM)
        self.assertEqual(shared["PYTORCH_CUDA_ALLOC_CONF"], "expandable_segments:True")
        chosen = {"TF_FORCE_GPU_ALLOW_GROWTH": "false"}
        self.assertEqual(self.seen("--growth", *SIM, environment=chosen)["TF_FORCE_GPU_ALLOW_GROWTH"], "true")
        self.config("growth = true\n")
        self.assertEqual(self.seen(*SIM, environment=chosen)["TF_FORCE_GPU_ALLOW_GROWTH"], "false")

    def test_status_is_the_programs_own(self):
        for status in (0, 1, 7, 124, 125, 126, 127, 255):
            result = self.vram("run", "-q", *SIM, "--", "sh", "-c", f"exit {status}")
            self.assertEqual((result.returncode, result.stderr), (status, ""))
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            result = self.vram("run", "-q", *SIM, "--", "sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual((result.returncode, result.stderr), (128 + number, ""))

    def test_interpreter_that_is_missing(self):
        script = self.script("script", "#!/no/such/interpreter\n")
        result = self.vram("run", *SIM, "--", script)
        self.assertEqual(result.stderr, f"vram: cannot run '{script}': No such file or directory; check the path, and that of "
                         "its interpreter\n")
        self.assertEqual(result.returncode, 127)
        self.assertEqual(self.job_files(), [])

    def test_script_without_an_interpreter_is_run_by_the_shell(self):
        result = self.vram("run", "-q", *SIM, "--", self.script("script", "echo $1; exit 3\n"), "word")
        self.assertEqual((result.stdout, result.returncode), ("word\n", 3))

    def test_arguments_and_streams_pass_through(self):
        result = self.vram("run", "-q", *SIM, "--", "sh", "-c", 'printf "%s|" "$@"; cat; echo err >&2', "sh", "a b", "", "-m", "--",
                           input="in\n")
        self.assertEqual(result.stdout, "a b||-m|--|in\n")
        self.assertEqual(result.stderr, "err\n")

    def test_no_descriptor_or_signal_setting_of_ours_reaches_the_program(self):
        show = "ls /proc/self/fd | wc -w; grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status"
        bare = subprocess.run(["sh", "-c", show], env=self.environment, text=True, capture_output=True, check=True)
        governed = self.vram("run", "-q", *SIM, "--", "sh", "-c", show)
        self.assertEqual(governed.stdout, bare.stdout)

    def test_summary_is_one_line_and_quiet_silences_it(self):
        self.assertRegex(self.vram("run", *SIM, "--", "true").stderr, r"^vram: job \w{4}: the program took no GPU memory\n$")
        self.assertEqual(self.vram("run", "-q", *SIM, "--", "true").stderr, "")
        self.config("quiet = true\n")
        self.assertEqual(self.vram("run", *SIM, "--", "true").stderr, "")

    def test_summary_of_a_job_without_a_limit(self):
        result = self.vram("run", *SIM, "--", GREEDY, "--take", "100")
        self.assertRegex(result.stderr, r"^vram: job \w{4}: GPU 0 peak 618MiB of 24GiB \(no limit\)\n$")
        result = self.vram("run", "--json", *SIM, "--", GREEDY, "--take", "100")
        self.assertIsNone(json.loads(result.stderr)["devices"][0]["limit"])

    def test_summary_for_programs(self):
        result = self.vram("run", "--json", "-m", "4GiB", *SIM, "--", "sh", "-c", f"{GREEDY} >/dev/null; exit 3")
        summary = json.loads(result.stderr)
        device, = summary["devices"]
        self.assertEqual((summary["schema"], summary["status"], result.returncode), (1, 3, 3))
        self.assertEqual((device["index"], device["limit"], device["peak"], device["largest_denied"]),
                         (0, 4 * GIB, 4 * GIB, 256 << 20))
        self.assertGreater(device["denials"], 0)
        self.assertEqual(set(summary), {"schema", "job", "status", "devices"})
        self.assertEqual(set(device), {"index", "uuid", "limit", "peak", "denials", "largest_denied"})

    def test_signals_sent_to_vram_reach_the_program(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT,
                       signal.SIGALRM, signal.SIGCONT):
            with self.subTest(signal=number):
                ready = os.path.join(self.folder, "ready")
                process = self.start("run", "-q", *SIM, "--", "sh", "-c",
                                     f'trap "echo got; exit 9" {int(number)}; touch {ready}; while :; do sleep 0.05; done')
                self.wait_for(lambda: os.path.exists(ready), "the program")
                os.remove(ready)
                process.send_signal(number)
                out, _ = process.communicate(timeout=30)
                self.assertEqual((out, process.returncode), ("got\n", 9))

    def test_first_process_of_a_container_takes_orphans_and_signals(self):
        program = "(sh -c 'exit 0' &); sleep 0.3; ps -o stat= -A | grep -c Z; kill -TERM 1; sleep 60"
        result = subprocess.run(["unshare", "-r", "-p", "-f", "--mount-proc", VRAM, "run", "-q", *SIM, "--", "sh", "-c", program],
                                env=self.environment, text=True, capture_output=True, check=False, timeout=60)
        if "unshare" in result.stderr:
            raise unittest.SkipTest(f"no namespace here: {result.stderr.splitlines()[0]}")
        self.assertEqual((result.stdout, result.returncode), ("0\n", 143))

    def test_ignored_signals_stay_ignored(self):
        result = subprocess.run(["sh", "-c", f"trap '' HUP INT; exec {VRAM} run -q --sim 1x24GiB -- "
                                 "sh -c 'kill -HUP $$; kill -INT $$; echo alive'"],
                                env=self.environment, text=True, capture_output=True, check=False)
        self.assertEqual((result.stdout, result.returncode), ("alive\n", 0))

    def test_ignored_child_signal_does_not_lose_the_status(self):
        result = subprocess.run(["python3", "-c", "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
                                 "os.execv(sys.argv[1], sys.argv[1:])", VRAM, "run", "-q", *SIM, "--", "sh", "-c", "exit 5"],
                                env=self.environment, check=False)
        self.assertEqual(result.returncode, 5)

    def test_program_outlives_a_killed_vram_and_its_job_with_it(self):
        process = self.start("run", "-m", "4GiB", *SIM, "--", "sleep", "60")
        job = self.wait_for(lambda: self.jobs(), "the job")[0]
        process.kill()
        process.wait()
        self.vram("run", *SIM, "--", "true")  # sweeps
        self.assertEqual([other["id"] for other in self.jobs()], [job["id"]])
        os.kill(job["pid"], signal.SIGKILL)
        self.wait_for(lambda: not self.jobs(), "the end of the job")

    def test_job_outlives_its_command_while_a_process_of_it_uses_the_card(self):
        ready, until = (os.path.join(self.folder, name) for name in ("ready", "until"))
        result = self.vram("run", "-m", "4GiB", *SIM, "--", "sh", "-c",
                           f"{GREEDY} --take 100 --ready {ready} --until {until} >/dev/null 2>&1 </dev/null & "
                           f"while ! [ -e {ready} ]; do sleep 0.05; done")
        self.assertIn("peak 618MiB of 4GiB", result.stderr)
        job, = self.jobs()
        self.assertEqual(job["devices"][0]["used"], 618 << 20)
        with open(until, "w", encoding="ascii"):
            pass
        self.wait_for(lambda: not self.jobs(), "the end of the job")

    def test_inner_run_joins_the_outer_job(self):
        result = self.vram("run", "-m", "4GiB", *SIM, "--", VRAM, "run", "--growth", "--", GREEDY,
                           environment={"VRAM_LIMIT": "8GiB"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("took 3578 MiB, then: out of memory", result.stdout)
        self.assertEqual(result.stderr.count("vram: job"), 1)

    def test_inner_run_tells_frameworks(self):
        result = self.vram("run", "-q", "-m", "4GiB", *SIM, "--", VRAM, "run", "--growth", "--", "printenv",
                           "TF_FORCE_GPU_ALLOW_GROWTH")
        self.assertEqual((result.stdout, result.returncode), ("true\n", 0))

    def test_inner_run_checks_the_program(self):
        result = self.vram("run", "-q", "-m", "4GiB", *SIM, "--", VRAM, "run", "--", self.folder)
        self.assertEqual(result.stderr, f"vram: cannot run '{self.folder}': it is a folder; name a program in it\n")

    def test_inner_run_restores_what_was_cleaned_away(self):
        result = self.vram("run", "-q", "-m", "4GiB", *SIM, "--", "env", "-u", "LD_PRELOAD", VRAM, "run", "--", "printenv",
                           "LD_PRELOAD")
        self.assertEqual(result.stdout, LIBRARIES + "\n")

    def test_inner_run_with_a_limit_is_refused(self):
        for option in (("-m", "2GiB"), ("--gpu", "0"), ("--elastic",), ("--sim", "1x24GiB")):
            result = self.vram("run", "-q", "-m", "4GiB", *SIM, "--", VRAM, "run", *option, "--", "echo", "started")
            self.assertRegex(result.stderr, rf"^vram: {option[0]}: this is already inside job (\w{{4}}), whose limit holds for "
                             rf"everything in it; leave {option[0]} out, or change the job with 'vram limit \1 SIZE'\n$")
            self.assertEqual((result.stdout, result.returncode), ("", 125))

    def test_job_that_is_gone_does_not_count_as_outer(self):
        result = self.vram("run", "-q", *SIM, "-m", "4GiB", "--", "true", environment={"VRAM_JOB": "/no/such.job"})
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_without_a_driver_the_program_runs_only_when_allowed(self):
        result = self.vram("run", "-m", "4GiB", "--on-failure", "allow", "--", "echo", "ran")
        self.assertEqual((result.stdout, result.returncode), ("ran\n", 0))
        self.assertIn("vram: warning: there is no NVIDIA driver", result.stderr)
        result = self.vram("run", "-m", "4GiB", "--", "echo", "ran", environment={"VRAM_ON_FAILURE": "allow"})
        self.assertEqual((result.stdout, result.returncode), ("ran\n", 0))
        self.config('on_failure = "allow"\n')
        self.assertEqual(self.vram("run", "-m", "4GiB", "--", "echo", "ran").stdout, "ran\n")
        result = self.vram("run", "--on-failure", "refuse", "-m", "4GiB", "--", "echo", "ran",
                           environment={"VRAM_ON_FAILURE": "allow"})
        self.assertEqual((result.stdout, result.returncode), ("", 125))

    def test_settings_have_origins(self):
        path = self.config('\nprofile = "train"\n')
        settings = self.json("config", "show")["settings"]
        self.assertEqual(settings["profile"], {"value": "train", "origin": f"{path}:2: profile"})
        self.assertEqual(settings["limit"], {"value": None, "origin": "default"})
        self.assertEqual(set(settings), {"limit", "ceiling", "reserve", "gpu", "preallocation", "profile", "alloc", "elastic",
                                         "park", "park_after", "wait", "on_failure", "quiet", "sim"})
        self.assertEqual(settings["quiet"]["value"], "false")
        self.config("quiet = true\nsim = \"1x24GiB\"\n")
        settings = self.json("config", "show")["settings"]
        self.assertEqual((settings["quiet"]["value"], settings["sim"]["value"]), ("true", "1x24GiB"))
        shown = self.vram("config", "show", "--origin", environment={"VRAM_LIMIT": "40%"}).stdout
        self.assertRegex(shown, r"limit +40% +VRAM_LIMIT\n")


if __name__ == "__main__":
    main()
