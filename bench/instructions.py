#!/usr/bin/env python3
"""Counts the CPU instructions of one call in the core, for each pair of eras, and compares each
with the relay between two legacy peers.

    bench/instructions.py                # the table
    bench/instructions.py --functions    # and where the instructions go: shares of whole subtrees

It builds an example of the core and runs it under callgrind (valgrind must be installed). Only the
machine counts: no shell, no kernel, no peers. The counts of two runs of one build are equal.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = TARGET / "release/examples/translated_calls"

PAIRS = {
    "legacy-legacy": "legacy client, legacy server: the relay",
    "legacy-modern": "legacy client, modern server",
    "modern-legacy": "modern client, legacy server",
    "modern-modern": "modern client, modern server",
}
RELAY = "legacy-legacy"
# The difference of two runs has no start-up in it.
FEW, MANY = 100, 600
# What a translated call may cost.
LIMIT = 1.5


def build():
    # callgrind finds the function to count by its name.
    env = {**os.environ, "CARGO_PROFILE_RELEASE_STRIP": "none"}
    words = ["cargo", "build", "--locked", "--release", "--package", "mcp-proxy-core", "--example", PROGRAM.name]
    subprocess.run(words, cwd=ROOT, env=env, check=True)


def count(pair, calls, out):
    tool = ["valgrind", "--tool=callgrind", "--toggle-collect=*measured*", f"--callgrind-out-file={out}"]
    run = subprocess.run([*tool, PROGRAM, pair, str(calls)], capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or not found or found[1] == "0":
        sys.exit(f"callgrind counted nothing:\n{run.stderr}")
    return int(found[1])


def subtrees(out, most=25):
    """The core's functions and serde_json's, each with the share of all that it calls."""
    words = ["callgrind_annotate", "--inclusive=yes", "--auto=no", "--threshold=99", out]
    listing = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"\(\s*([\d.]+%)\)\s+\S*?:(<?(?:mcp_proxy_core|serde_json)\b.*?)(?: \[.*)?\n", listing)
    return lines[:most]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--functions", action="store_true", help="show where the instructions go")
    wanted = parser.parse_args()
    build()
    per_call, shares = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "callgrind.out")
        for pair in PAIRS:
            few = count(pair, FEW, out)
            per_call[pair] = (count(pair, MANY, out) - few) // (MANY - FEW)
            shares[pair] = subtrees(out) if wanted.functions else []
    print(f"| a call of a tool, 200 bytes each way | instructions | × the relay (aim: ≤ {LIMIT}) |\n|---|---:|---:|")
    for pair, words in PAIRS.items():
        print(f"| {words} | {per_call[pair]:,} | {per_call[pair] / per_call[RELAY]:.2f} |")
    for pair, lines in shares.items():
        for share, name in lines:
            print(f"{pair}: {share:>7} {name.replace('mcp_proxy_core::', '')}")


if __name__ == "__main__":
    main()
