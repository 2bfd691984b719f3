#!/usr/bin/env python3
"""Includes point down: each folder of src/ includes only what its row in src/README.md allows.

usage: layers.py [ROOT]
"""

import os
import re
import sys

import tree

ROW = re.compile(r"^\| `([a-z_]+)` \|[^|]*\|([^|]*)\|$", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def table(readme):
    """Folder -> what its row allows, in the table's order."""
    return {folder: re.findall(r"`([^`]+)`", allowed) for folder, allowed in ROW.findall(readme)}


def closure(rows, folder):
    """Everything that the folder may include: rows name folders or single files (`driver/hooks.def`)."""
    reached, todo = {folder}, list(rows[folder])
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += rows.get(name, [])
    return reached


def faults(root):
    source = os.path.join(root, "src")
    rows = table(tree.text(root, "src/README.md") or "")
    if not rows:
        return ["src/README.md has no table of layers"]
    found = []

    above = set(rows)
    for folder in rows:
        above.discard(folder)
        for name in rows[folder]:
            if name.split("/")[0] in above or name.split("/")[0] not in rows:
                found.append(f"src/README.md: '{folder}' may include '{name}', which is not below it")
        if not os.path.isdir(os.path.join(source, folder)):
            found.append(f"src/README.md: row '{folder}' has no folder; take the row out")

    for name in tree.files(root):
        parts = name.split("/")
        if parts[0] != "src" or len(parts) < 3 or not name.endswith(tree.CODE):
            continue
        if parts[1] not in rows:
            found.append(f"{name}: folder 'src/{parts[1]}' has no row in src/README.md")
            continue
        allowed = closure(rows, parts[1])
        for include in INCLUDE.findall(tree.text(root, name)):
            if include.startswith("vram/"):
                continue
            if "/" not in include or include.startswith("."):
                found.append(f'{name}: include "{include}" by its path from src/')
            elif include.split("/")[0] not in allowed and include not in allowed:
                found.append(f'{name}: layer \'{parts[1]}\' may not include "{include}"')
    return found


if __name__ == "__main__":
    sys.exit(tree.report("layers", faults(sys.argv[1] if len(sys.argv) > 1 else ".")))
