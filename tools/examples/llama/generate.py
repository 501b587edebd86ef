#!/usr/bin/env python3
"""generate.py FOLDER TEXT [OPTION...] - text in, text out: the tokenizer of the folder round ./llama, with the options of llama.

Needs `pip install tokenizers`.  The text is taken as it is: a chat model wants its template in it."""

import os
import subprocess
import sys


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        from tokenizers import Tokenizer
    except ImportError:
        sys.exit("generate.py: the module tokenizers is missing: pip install tokenizers")
    folder, text = sys.argv[1:3]
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(path):
        sys.exit(f"generate.py: there is no {path}")
    tokenizer = Tokenizer.from_file(path)
    program = os.environ.get("LLAMA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "llama"))
    ids = ",".join(map(str, tokenizer.encode(text).ids))
    run = subprocess.run([program, folder, "--prompt", ids, *sys.argv[3:]], stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(run.returncode)
    print(tokenizer.decode([int(word) for word in run.stdout.split()]))


if __name__ == "__main__":
    main()
