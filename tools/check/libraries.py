#!/usr/bin/env python3
"""What is loaded into other people's programs exports its stated names, needs libc alone, and nothing else.

libraries.txt has a row for each shared library of the build: path, after a '?' where not every build has it; what it
exports, comma-separated: files of names that it must export every one of, and names or patterns that it may; and the
libraries it may need beside libc, if any: one that needs more is not held to old versions of libc either.

usage: libraries.py BUILD [ROOT]
"""

import fnmatch
import glob
import os
import re
import subprocess
import sys

import tree

NEEDED = {"libc.so.6", "ld-linux-x86-64.so.2"}

# Containers bring their own libc. From 2.34 on it holds dlsym and the thread functions itself; needing anything
# newer would shut out images that work with today's drivers.
NEWEST_GLIBC = (2, 34)


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def rows(root):
    lines = (tree.text(root, "tools/check/libraries.txt") or "").splitlines()
    return [line.split() for line in lines if line.strip() and not line.startswith("#")]


def names(root, spec):
    """(names that must be exported, patterns of names that may be)."""
    required, patterns = set(), []
    for part in spec.split(","):
        if "/" in part:
            required |= set((tree.text(root, part) or "").split())
        else:
            patterns.append(part)
    return required, patterns


def faults_of(path, required, patterns, also_needed):
    found = []
    # Kind A is the name of a version, not of a function.
    exported = {line.split()[0].split("@")[0] for line in output("nm", "-D", "-P", "--defined-only", path).splitlines()
                if line.split()[1] != "A"}
    found += [f"exports '{name}', which its row does not allow" for name in sorted(exported - required)
              if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    found += [f"does not export '{name}'" for name in sorted(required - exported)]
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", path))
    found += [f"needs '{name}', which its row does not allow" for name in needed if name not in NEEDED | also_needed]
    if also_needed:
        return found
    for line in output("nm", "-D", "-P", "--undefined-only", path).splitlines():
        name, kind = line.split()[:2]
        version = re.search(r"@GLIBC_([0-9.]+)", name)
        if kind == "U" and not version:
            found.append(f"takes '{name}' from outside libc")
        elif version and tuple(map(int, version.group(1).split("."))) > NEWEST_GLIBC:
            found.append(f"takes '{name}'; nothing newer than GLIBC_{'.'.join(map(str, NEWEST_GLIBC))} may be needed")
    return found


def faults(build, root):
    listed = rows(root)
    found = [] if listed else ["libraries.txt has no rows"]
    for row, spec, *also in listed:
        name = row.removeprefix("?")
        path = os.path.join(build, name)
        if name != row and not os.path.exists(path):
            continue
        if os.path.exists(path):
            found += [f"{name}: {fault}" for fault in faults_of(path, *names(root, spec), set(also))]
        else:
            found.append(f"{name}: was not built")
    known = {os.path.realpath(os.path.join(build, row[0].removeprefix("?"))) for row in listed}
    for path in glob.glob(os.path.join(build, "lib", "**", "*.so*"), recursive=True):
        if os.path.realpath(path) not in known:
            found.append(f"{os.path.relpath(path, build)}: has no row in tools/check/libraries.txt")
    return found


if __name__ == "__main__":
    sys.exit(tree.report("libraries", faults(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ".")))
