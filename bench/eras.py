#!/usr/bin/env python3
"""Measures the CPU time that the whole native proxy takes for a call, for each pair of eras, and
compares each with the relay between two legacy peers.

    bench/eras.py                       # the table; the proxy is dist/mcp-proxy, or of MCP_PROXY_DIST
    bench/eras.py --calls 20000 --rounds 5

Each pair has a server and a proxy of its own. The pairs take turns, so that other load on the
machine meets them alike; compare only the ratios of one run. `bench/instructions.py` counts what
the core alone does.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROXY = Path(os.environ.get("MCP_PROXY_DIST", ROOT / "dist")) / "mcp-proxy"
PAIRS = [(client, server) for client in ("legacy", "modern") for server in ("legacy", "modern")]
TEXT = "0123456789" * 20
TICK = os.sysconf("SC_CLK_TCK")

PREFIX = "io.modelcontextprotocol/"
CAPABILITIES = {"elicitation": {}, "sampling": {}, "roots": {}}
INFO = {"name": "bench", "version": "1"}
ENVELOPE = {
    PREFIX + "protocolVersion": "2026-07-28",
    PREFIX + "clientInfo": INFO,
    PREFIX + "clientCapabilities": CAPABILITIES,
}
SERVER_INFO = {"name": "server", "version": "1"}


def answer(request, modern):
    """The result or error of a server for a request."""
    method = request["method"]
    if method == "server/discover" and modern:
        served = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
        return {"result": {"resultType": "complete", **served, "_meta": {PREFIX + "serverInfo": SERVER_INFO}}}
    if method == "initialize" and not modern:
        opened = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": SERVER_INFO}
        return {"result": opened}
    if method == "tools/call":
        result = {"content": [{"type": "text", "text": request["params"]["arguments"]["text"]}]}
        if modern:
            result |= {"resultType": "complete", "_meta": {PREFIX + "serverInfo": SERVER_INFO}}
        return {"result": result}
    return {"error": {"code": -32601, "message": "Method not found"}}


def server(modern):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = 1 << 16

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if "id" not in request:
                return self.reply(202, b"")
            body = {"jsonrpc": "2.0", "id": request["id"], **answer(request, modern)}
            self.reply(200, json.dumps(body).encode())

        def do_GET(self):
            self.reply(405, b"")

        def do_DELETE(self):
            self.reply(200, b"")

        def reply(self, status, body):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, *_):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{listener.server_address[1]}/mcp"


class Proxy:
    def __init__(self, client, era):
        self.modern = client == "modern"
        self.id = 0
        command = [str(PROXY), server(era == "modern")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not self.modern:
            self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": INFO})
            self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.id += 1
        if self.modern:
            params = {**params, "_meta": ENVELOPE}
        self.write({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params})
        message = json.loads(self.process.stdout.readline())
        if message["id"] != self.id or "result" not in message:
            sys.exit(f"not the answer: {message}")

    def call(self, count):
        """The CPU time of so many calls, in microseconds for each."""
        before = self.cpu()
        for _ in range(count):
            self.ask("tools/call", {"name": "echo", "arguments": {"text": TEXT}})
        return (self.cpu() - before) / count * 1e6

    def cpu(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def close(self):
        self.process.stdin.close()
        if self.process.wait(timeout=30):
            sys.exit(f"the proxy ended with {self.process.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=4000, help="calls of a pair in a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    proxies = {pair: Proxy(*pair) for pair in PAIRS}
    taken = {pair: [] for pair in PAIRS}
    for proxy in proxies.values():
        proxy.call(500)
    for _ in range(options.rounds):
        for pair, proxy in proxies.items():
            taken[pair].append(proxy.call(options.calls))
    for proxy in proxies.values():
        proxy.close()
    relay = statistics.median(taken[PAIRS[0]])
    print("| client | server | CPU µs a call | × the relay |\n|---|---|---:|---:|")
    for (client, era), times in taken.items():
        median = statistics.median(times)
        print(f"| {client} | {era} | {median:.0f} | {median / relay:.2f} |")


main()
