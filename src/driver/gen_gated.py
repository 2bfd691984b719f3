#!/usr/bin/env python3
"""Writes the handlers of the calls that only pass the gate: one for every GATED row of hooks.def, with the
parameters that cuda.h gives its prototype.
"""
import argparse
import re

from gen_stubs import hooked_names

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
# A name that stands for another, the end of that, or a function.
WORTH_A_LOOK = re.compile(
    r"^[ \t]*#define[ \t]+(?P<alias>cu\w+)[ \t]+(?:__CUDA_API_(?P<stream>PTDS|PTSZ)\()?(?P<target>cu\w+)\)?[ \t]*$"
    r"|^[ \t]*#undef[ \t]+(?P<ended>cu\w+)"
    r"|\bCUresult\s+CUDAAPI\s+(?P<function>cu\w+)\s*\((?P<parameters>[^;]*?)\)\s*;", re.MULTILINE)


def prototypes(header):
    """Name -> parameters, of all versions that the header declares to who defines __CUDA_API_VERSION_INTERNAL:
    most are declared under a name that a macro replaces."""
    found, aliases = {}, {}
    for match in WORTH_A_LOOK.finditer(COMMENT.sub("", header)):
        if match["alias"]:
            suffix = "_" + match["stream"].lower() if match["stream"] else ""
            aliases[match["alias"]] = match["target"] + suffix
        elif match["ended"]:
            aliases.pop(match["ended"], None)
        else:
            name = match["function"]
            found[aliases.get(name, name)] = [" ".join(p.split()) for p in match["parameters"].split(",")]
    return found


def handler(symbol, parameters):
    if parameters == ["void"]:
        parameters = []
    names = [re.search(r"(\w+)\s*(?:\[\])?$", parameter)[1] for parameter in parameters]
    return "VRAM_EXPORT CUresult %s(%s) {\n  VRAM_GATED(%s);\n}\n" % (
        symbol, ", ".join(parameters), ", ".join([symbol] + names))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--header", required=True)
    parser.add_argument("--hooks", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    declared = prototypes(open(args.header, encoding="utf-8").read())
    rows = hooked_names(args.hooks, "GATED")
    missing = [symbol for symbol in rows if symbol not in declared]
    if missing:
        parser.error("%s does not declare %s" % (args.header, ", ".join(missing)))
    with open(args.out, "w", encoding="utf-8") as out:
        out.write('// Written by gen_gated.py.\n#include "interpose/gated.h"\n\nusing vram::driver::real;\n')
        for symbol in rows:
            out.write("\n" + handler(symbol, declared[symbol]))


if __name__ == "__main__":
    main()
