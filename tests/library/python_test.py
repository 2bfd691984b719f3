"""The examples and the cases for a real card are Python at all; what they do is shown on one (ctest -L gpu).

usage: python_test.py SOURCE
"""

import ast
import glob
import os
import sys


def main():
    source = sys.argv[1]
    files = glob.glob(os.path.join(source, "examples", "*.py")) + glob.glob(os.path.join(source, "tests", "gpu", "cases", "*.py"))
    for path in files:
        with open(path, encoding="utf-8") as file:
            ast.parse(file.read(), path)
    return 0 if files else 1


if __name__ == "__main__":
    sys.exit(main())
