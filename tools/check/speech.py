#!/usr/bin/env python3
"""The repository speaks of the product alone: no path of a developer's machine, no host, no postponed work.

usage: speech.py [ROOT]
"""

import re
import sys

import tree

# Each expression is written so that it does not match its own line.
BANNED = [
    (re.compile(r"/wor[k]/|/roo[t]/|/tmp/b-[a-z]"), "path of a developer's machine"),
    (re.compile(r"https?:/{2}(?!www\.apache\.org/licenses|localhost|127\.0\.0\.1|\[::1\])[\w.-]+"), "host"),
    (re.compile(r"\b(?:[\w-]+\.)+(?:pypi\.org|pythonhosted\.org|debian\.org|ubuntu\.com|docker\.io|quay\.io|ghcr\.io)\b|"
                r"\bpypi\.or[g]\b|\bquay\.i[o]\b|\bghcr\.i[o]\b"), "host of a registry"),
    (re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b"), "postponed work; do it, or leave it out"),
    (re.compile(r"\b[\w.+-]+@(?!example\.)[\w-]+\.(?:com|org|net|io|ai)\b"), "mail address"),
    (re.compile(r"\bissues? sho[w]\b|\bissue #?\d+|\.prob[e]\b"), "the project's own bookkeeping"),
]


def faults(root):
    found = []
    for name in tree.files(root):
        content = tree.text(root, name)
        if content is None:
            continue
        for number, line in enumerate(content.splitlines(), 1):
            for expression, what in BANNED:
                hit = expression.search(line)
                if hit:
                    found.append(f"{name}:{number}: '{hit.group()}': {what}")
    return found


if __name__ == "__main__":
    sys.exit(tree.report("speech", faults(sys.argv[1] if len(sys.argv) > 1 else ".")))
