#!/usr/bin/env python3
"""Injected objects call nothing of libc but what hot_path.txt allows, and run nothing when they are loaded.

The path of an allocation or a launch must not lock, allocate, make a system call, read the environment or log. Whatever
an object could do that with shows as an undefined symbol, so symbols are refused unless a row allows them:

  archive ARCHIVE                   an archive of the build whose objects are held to this
  anywhere SYMBOL[,SYMBOL]          harmless everywhere
  object OBJECT SYMBOL[,SYMBOL] WHY an object that works off the hot path (start, exit, reaping) and what it needs
  constructor OBJECT WHY            an object that may run code when it is loaded

A fault names the object and the symbol. An unused row is a fault, so that the list stays true.

usage: hot_path.py BUILD [ROOT]
"""

import os
import re
import subprocess
import sys

import tree


class Rules:
    def __init__(self, root):
        self.archives, self.anywhere, self.objects, self.constructors = [], set(), {}, set()
        self.without_reason = []
        for line in (tree.text(root, "tools/check/hot_path.txt") or "").splitlines():
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "archive":
                self.archives.append(words[1])
            elif words[0] == "anywhere":
                self.anywhere |= set(words[1].split(","))
            elif words[0] == "object":
                self.objects.setdefault(words[1], set()).update(words[2].split(","))
                self.without_reason += [words[1]] if len(words) < 4 else []
            elif words[0] == "constructor":
                self.constructors.add(words[1])
                self.without_reason += [words[1]] if len(words) < 3 else []


def symbols(archive):
    """Object name -> (defined, undefined) symbols."""
    listing = subprocess.run(["nm", "-P", archive], capture_output=True, text=True, check=True).stdout
    found, current = {}, None
    for line in listing.splitlines():
        header = re.match(r".*\[(.+)\]:$", line)
        if header:
            current = found.setdefault(header.group(1), (set(), set()))
        elif current is not None and line.strip():
            name, kind = line.split()[:2]
            current[1 if kind == "U" else 0].add(name)
    return found


def with_constructors(archive):
    """Names of the objects that have code run at load time."""
    listing = subprocess.run(["readelf", "-SW", archive], capture_output=True, text=True, check=True).stdout
    found, current = set(), None
    for line in listing.splitlines():
        header = re.match(r"File: .*\((.+)\)$", line)
        if header:
            current = header.group(1)
        elif re.search(r"\.(?:init_array|ctors|preinit_array)\b", line) and ".rela" not in line:
            found.add(current)
    return found


def faults(build, root):
    rules = Rules(root)
    found = [] if rules.archives else ["hot_path.txt names no archive"]
    found += [f"hot_path.txt: row of {name} has no reason" for name in rules.without_reason]

    objects, constructors = {}, set()
    for archive in rules.archives:
        path = os.path.join(build, archive)
        if not os.path.exists(path):
            return found + [f"{archive}: was not built"]
        library = re.sub(r"^lib|\.a$", "", os.path.basename(archive))
        objects.update({f"{library}/{name}": value for name, value in symbols(path).items()})
        constructors |= {f"{library}/{name}" for name in with_constructors(path)}

    own = set().union(*(defined for defined, _ in objects.values()))
    used_anywhere, used_by_object = set(), {name: set() for name in rules.objects}
    for name, (_, undefined) in sorted(objects.items()):
        outside = undefined - own - {"_GLOBAL_OFFSET_TABLE_"}
        used_anywhere |= outside & rules.anywhere
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
    found += [f"hot_path.txt: nothing uses '{symbol}'" for symbol in sorted(rules.anywhere - used_anywhere)]
    return found


if __name__ == "__main__":
    sys.exit(tree.report("hot_path", faults(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ".")))
