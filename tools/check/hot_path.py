#!/usr/bin/env python3
"""Injected objects call nothing of libc but what hot_path.txt allows, and run nothing when they are loaded.

The path of an allocation or a launch must not lock, allocate, make a system call, read the environment or log. Whatever
an object could do that with shows as an undefined symbol, so symbols are refused unless a row allows them:

  layer FOLDER [TARGET]             a folder of src whose objects are held to this; with TARGET only those of it
  anywhere SYMBOL[,SYMBOL]          harmless everywhere
  object OBJECT SYMBOL[,SYMBOL] WHY an object that works off the hot path (start, exit, reaping) and what it needs
  constructor OBJECT WHY            an object that may run code when it is loaded

An object is named by its source below src. A fault names the object and the symbol. What an
object's row allows without need is a fault, so that the list stays true.

usage: hot_path.py BUILD [ROOT]
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

import tree


class Rules:
    def __init__(self, root):
        self.layers, self.anywhere, self.objects, self.constructors = [], set(), {}, set()
        self.without_reason = []
        for line in (tree.text(root, "tools/check/hot_path.txt") or "").splitlines():
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "layer":
                self.layers.append((words[1], words[2] if len(words) > 2 else None))
            elif words[0] == "anywhere":
                self.anywhere |= set(words[1].split(","))
            elif words[0] == "object":
                self.objects.setdefault(words[1], set()).update(words[2].split(","))
                self.without_reason += [words[1]] if len(words) < 4 else []
            elif words[0] == "constructor":
                self.constructors.add(words[1])
                self.without_reason += [words[1]] if len(words) < 3 else []


def objects_of(build, layer, only):
    """Source below src -> its object file; the first where several targets compile it."""
    found = {}
    for path in sorted(glob.glob(os.path.join(build, "src", layer, "CMakeFiles", "*.dir", "**", "*.o"), recursive=True)):
        target, inside = re.match(r".*/CMakeFiles/([^/]+)\.dir/(.*)\.o$", path).groups()
        if target == only or (only is None and not target.endswith("_test")):
            found.setdefault(os.path.normpath(os.path.join(layer, inside.replace("__", ".."))), path)
    return found


def symbols(path):
    """(defined, undefined) symbols of an object's machine code. Optimised at link time, it also has an intermediate
    form, which nm would rather read, and in which calls of built-in functions do not show."""
    with tempfile.NamedTemporaryFile(suffix=".o") as plain:
        subprocess.run(["objcopy", "--remove-section=.gnu.lto_*", path, plain.name], check=True)
        return listed_symbols(plain.name)


def listed_symbols(path):
    listing = subprocess.run(["nm", "-P", path], capture_output=True, text=True, check=True).stdout
    kinds = [line.split()[:2] for line in listing.splitlines()]
    return {name for name, kind in kinds if kind != "U"}, {name for name, kind in kinds if kind == "U"}


def has_constructor(path):
    sections = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    return re.search(r"\s\.(?:init_array|ctors|preinit_array)\b", sections) is not None


def faults(build, root):
    rules = Rules(root)
    found = [] if rules.layers else ["hot_path.txt names no layer"]
    found += [f"hot_path.txt: row of {name} has no reason" for name in rules.without_reason]

    paths = {}
    for layer, target in rules.layers:
        in_layer = objects_of(build, layer, target)
        if not in_layer:
            return found + [f"src/{layer}: no object was built"]
        paths.update(in_layer)
    objects = {name: symbols(path) for name, path in paths.items()}
    constructors = {name for name, path in paths.items() if has_constructor(path)}

    own = set().union(*(defined for defined, _ in objects.values()))
    used_by_object = {name: set() for name in rules.objects}
    for name, (_, undefined) in sorted(objects.items()):
        outside = undefined - own - {"_GLOBAL_OFFSET_TABLE_"}
        outside -= rules.anywhere
        allowed = rules.objects.get(name, set())
        found += [f"{name}: uses '{symbol}', which tools/check/hot_path.txt does not allow it"
                  for symbol in sorted(outside - allowed)]
        if name in used_by_object:
            used_by_object[name] = outside & allowed
    found += [f"{name}: runs code when it is loaded" for name in sorted(constructors - rules.constructors)]
    found += [f"hot_path.txt: {name} has no constructor" for name in sorted(rules.constructors - constructors)]
    for name, allowed in sorted(rules.objects.items()):
        found += [f"hot_path.txt: {name} does not use '{symbol}'" for symbol in sorted(allowed - used_by_object[name])]
    return found


if __name__ == "__main__":
    sys.exit(tree.report("hot_path", faults(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ".")))
