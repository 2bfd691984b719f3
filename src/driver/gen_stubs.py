#!/usr/bin/env python3
"""Writes the jump stubs of a stand-in library: one for every function of the real library that the
interposer does not handle itself.

The names are those a driver of today exports (exports-*.txt) together with those of the installed
header, so that a stand-in built against a newer toolkit covers that toolkit's functions too.
"""
import argparse
import re


def header_names(path, prefix):
    text = open(path, encoding="utf-8").read()
    names = set(re.findall(r"\b(%s[A-Z]\w*)\s*\(" % prefix, text))
    declared = set(re.findall(r"(?:CUDAAPI|DECLDIR)\s+(%s[A-Z]\w*)\s*\(" % prefix, text))
    declared |= set(re.findall(r"^#define\s+%s\w+\s+(%s[A-Z]\w*)\s*$" % (prefix, prefix), text, re.M))
    for macro, name in re.findall(r"__CUDA_API_(PTDS|PTSZ)\((%s\w+)\)" % prefix, text):
        declared |= {name, name + "_" + macro.lower()}
    return {n for n in declared if n in names or "_pt" in n or n in text}


def hooked_names(path, macro):
    return re.findall(r"^(?:%s)\((\w+)" % macro, open(path, encoding="utf-8").read(), re.M)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exports", required=True)
    parser.add_argument("--header", required=True)
    parser.add_argument("--hooks", required=True)
    parser.add_argument("--macro", required=True, help="of the rows with handlers; an expression")
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    names = set(open(args.exports, encoding="utf-8").read().split())
    names |= header_names(args.header, args.prefix)
    names -= set(hooked_names(args.hooks, args.macro))

    with open(args.out, "w", encoding="utf-8") as out:
        out.write("// Written by gen_stubs.py. See stub_bind.S for what a stub does.\n")
        out.write('#include "driver/stub_macros.S"\n')
        for index, name in enumerate(sorted(names)):
            out.write("STUB %s, %d\n" % (name, index))
        out.write("STUBS_END %d\n" % len(names))


if __name__ == "__main__":
    main()
