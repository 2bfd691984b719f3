"""The files of the repository, as every check sees them.

usage: tree.py SUFFIX...   lists those with one of the suffixes, one a line
"""

import os
import subprocess
import sys

CODE = (".h", ".cc", ".c", ".def", ".inc")


def files(root):
    """Paths relative to root: what git tracks or would track; without git every file outside build/."""
    listing = subprocess.run(
        # Whoever owns the files: in a container that is often somebody else.
        ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-co", "--exclude-standard", "-z", "."],
        capture_output=True, check=False)
    if listing.returncode == 0:
        names = listing.stdout.decode().split("\0")
    else:
        names = [os.path.relpath(os.path.join(folder, name), root)
                 for folder, _, found in os.walk(root) for name in found]
        names = [name for name in names if not name.startswith(("build" + os.sep, ".git" + os.sep))]
    return sorted(name for name in names if name and os.path.isfile(os.path.join(root, name)))


def text(root, name):
    """The file's text, or None for a missing or a binary one."""
    path = os.path.join(root, name)
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        data = file.read()
    return None if b"\0" in data else data.decode("utf-8", "replace")


def report(check, faults):
    """Prints each fault on one line; the exit status of the check."""
    for fault in faults:
        print(f"{check}: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    print("\n".join(name for name in files(".") if name.endswith(tuple(sys.argv[1:]))))
