#!/usr/bin/env python3
"""Writes cudaGetErrorName() from the enumeration in driver_types.h."""
import argparse
import re


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--header", required=True)
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    with open(arguments.header, encoding="utf-8") as header:
        text = re.sub(r"/\*.*?\*/", "", header.read(), flags=re.S)
    body = re.search(r"enum\s+__device_builtin__\s+cudaError\s*\{(.*?)\}", text, flags=re.S).group(1)
    names = re.findall(r"^\s*(cuda\w+)\s*=", body, flags=re.M)
    with open(arguments.output, "w", encoding="utf-8") as out:
        out.write("#include <cuda_runtime_api.h>\n\n")
        out.write('extern "C" const char* cudaGetErrorName(cudaError_t error) {\n  switch (error) {\n')
        for name in names:
            out.write(f'    case {name}:\n      return "{name}";\n')
        out.write('    default:\n      return "unrecognized error code";\n  }\n}\n')


if __name__ == "__main__":
    main()
