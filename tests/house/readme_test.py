"""Every command in the README does what the README shows.

The ```console blocks are run as a reader would type them, one shell a block, in a folder with a train.py. Where a
reader has a GPU, the test has the simulated one: `vram run` without --sim gets one. Lines below a command are its
output: they must come in that order, `...` stands for any lines, process and job names may differ.

usage: readme_test.py README BUILD
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
SIMULATED = "--sim 1x24GiB"
MARK = "@@command"

# A script that stands for a training: takes memory through the driver until refused, and goes on.
TRAIN = "import subprocess\nsubprocess.run(['greedy'], check=True)\n"


def blocks(text):
    """Lists of (command, expected output lines)."""
    for body in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        commands = []
        for line in body.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            elif commands:
                commands[-1][1].append(line)
        yield commands


def runnable(command):
    """The command as the test runs it, or None for one that fetches the project or installs it."""
    if re.match(r"(git clone|cd vram)\b", command):
        return None
    target = re.match(r"(?:sudo )?make (.*)", command)
    if target:
        return f"make -C {SOURCE} -n {target.group(1)} >/dev/null"
    if "--sim" not in command:
        command = re.sub(r"\bvram run\b", f"vram run {SIMULATED}", command)
    return command


def normalised(line):
    line = re.sub(r"\bjob \w{4}\b", "job J", re.sub(r"\s+", " ", line).strip())
    return re.sub(r"\b\d{2,7}\b(?! ?[KMGTk]?i?B)", "N", line)


def missing(expected, output):
    """The first expected line that does not follow, or None."""
    lines = iter([normalised(line) for line in output.splitlines()])
    for line in expected:
        if line.strip() not in ("", "...") and normalised(line) not in lines:
            return line
    return None


def run_block(commands, environment, folder):
    script = "".join(f"echo '{MARK}'\n{runnable(command) or ':'}\necho \"{MARK} $?\"\n" for command, _ in commands)
    result = subprocess.run(["bash", "-c", script], capture_output=False, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, env=environment, cwd=folder, timeout=60, check=False)
    pieces = re.findall(rf"^{MARK}\n(.*?)^{MARK} (\d+)$", result.stdout, re.DOTALL | re.MULTILINE)
    if len(pieces) != len(commands):
        return [f"the block ended early:\n{result.stdout}"]
    faults = []
    for (command, expected), (output, status) in zip(commands, pieces):
        if status != "0":
            faults.append(f"$ {command}\nended with status {status}:\n{output}")
            continue
        line = missing(expected, output)
        if runnable(command) and not command.startswith(("make", "sudo make")) and line is not None:
            faults.append(f"$ {command}\nno line '{line}' (in this order) in:\n{output}")
    return faults


def main(readme, build):
    with open(readme, encoding="utf-8") as file:
        found = list(blocks(file.read()))
    if not found:
        return ["no console block found"]
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "bin"))
        os.symlink(shutil.which("python3"), os.path.join(folder, "bin", "python"))
        with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
            file.write(TRAIN)
        environment = dict(os.environ, PATH=f"{build}/bin:{folder}/bin:{os.environ['PATH']}", NO_COLOR="1",
                           XDG_RUNTIME_DIR=folder, XDG_CONFIG_HOME=folder)
        for commands in found:
            faults += run_block(commands, environment, folder)
    return faults


if __name__ == "__main__":
    FAULTS = main(sys.argv[1], os.path.realpath(sys.argv[2]))
    print("\n".join(FAULTS) if FAULTS else "every command of the README does what it shows")
    sys.exit(1 if FAULTS else 0)
