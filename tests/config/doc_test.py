"""The programs that the library's page shows are the ones in examples/, to the letter.

usage: doc_test.py PAGE EXAMPLES
"""

import os
import re
import sys


def main():
    page, examples = sys.argv[1], sys.argv[2]
    text = open(page, encoding="utf-8").read()
    shown = re.findall(r"^`examples/([\w./]+)`:\n\n```\w+\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    wrong = [name for name, body in shown
             if open(os.path.join(examples, name), encoding="utf-8").read() != body]
    for name in wrong:
        print(f"{page}: the text of {name} is not that of examples/{name}; copy it")
    if not shown:
        print(f"{page}: shows no example")
    return 1 if wrong or not shown else 0


if __name__ == "__main__":
    sys.exit(main())
