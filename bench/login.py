#!/usr/bin/env python3
"""Compares the native proxy with a stored login to the same proxy with a header that the user gives.

    bench/login.py                     # the table; the proxy is dist/mcp-proxy, or of MCP_PROXY_DIST
    bench/login.py --rounds 10 --bin FOLDER

Both send the same token with every request; with the login, the proxy finds it in its store. The two
take turns, so that other load on the machine meets them alike; compare only the ratios of one run.
The harness comes from `cargo xtask bench`.
"""
import argparse, hashlib, json, os, statistics, subprocess, sys, tempfile, time
from pathlib import Path

from matrix import mock

ROOT = Path(__file__).resolve().parent.parent
PROXY = Path(os.environ.get("MCP_PROXY_DIST", ROOT / "dist")) / "mcp-proxy"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
TOKEN = "token-of-the-bench-" + "x" * 64
# What the login may cost.
LIMIT = 1.1
# label, phase, options of the driver, where the number is, how many of its units are one of the label's
ROWS = [
    ("start-up, ms", "startup", "--starts 10", ("startup_us", "p50"), 1000),
    ("CPU at start-up, ms", "startup", "--starts 10", ("startup_cpu_ms",), 1),
    ("p50 of a call, µs", "latency_json", "--n 2000", ("proxy_us", "p50"), 1),
    ("CPU of a call, µs", "latency_json", "--n 2000", ("cpu_us_per_call",), 1),
]


def store(folder, url):
    """A login as `mcp-proxy login` leaves it, good for an hour."""
    now = int(time.time())
    origin = url.rsplit("/", 1)[0]
    login = {
        "server": {"issuer": origin, "token_endpoint": f"{origin}/token"},
        "resource": url,
        "client": {"id": "bench", "method": "none"},
        "asked": None,
        "granted": None,
        "obtained": now,
        "expires": now + 3600,
        "access": TOKEN,
        "refresh": "refresh",
    }
    auth = Path(folder) / "auth"
    auth.mkdir()
    name = hashlib.sha256(url.encode()).hexdigest()[:32]
    (auth / f"{name}.json").write_text(json.dumps({"url": url, "logins": [login]}))


def measure(binaries, url, phase, options, command, env):
    logs = ["--logs", env["MCP_PROXY_CONFIG_DIR"]]
    driver = [f"{binaries}/mcpbench", "--peer", "login", "--upstream", url, "--phases", phase, *logs, *options.split()]
    done = subprocess.run([*driver, "--", *command], env=env, capture_output=True, text=True)
    row = json.loads(done.stdout or "{}")
    if "failed" in row or not row:
        sys.exit(f"{phase}: {row.get('failed') or done.stderr[-300:]}")
    return row


def find(row, path):
    for word in path:
        row = row[word]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bin", default=str(CACHE / "mcp-proxy/bench-target/release"), help="the folder of the harness")
    options = parser.parse_args()
    taken = {}
    with mock(options.bin) as port, tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as full:
        url = f"http://127.0.0.1:{port}/mcp"
        store(full, url)
        ways = [
            ("a header", [str(PROXY), "--header", f"Authorization: Bearer {TOKEN}", url], empty),
            ("a stored login", [str(PROXY), "--token-store", "file", url], full),
        ]
        for turn in range(options.rounds):
            for name, command, folder in ways if turn % 2 == 0 else ways[::-1]:
                env = {**os.environ, "MCP_PROXY_CONFIG_DIR": folder}
                for phase, words in dict((phase, words) for _, phase, words, *_ in ROWS).items():
                    row = measure(options.bin, url, phase, words, command, env)
                    taken.setdefault((name, phase), []).append(row)
    print(f"| | a header | a stored login | × (aim: ≤ {LIMIT}) |\n|---|---:|---:|---:|")
    for label, phase, _, path, unit in ROWS:
        header, login = (
            statistics.median(find(row, path) for row in taken[name, phase]) / unit for name in ("a header", "a stored login")
        )
        print(f"| {label} | {header:.2f} | {login:.2f} | {login / header:.2f} |")


main()
