"""A host for `mcp-engine.wasm`: a client on stdio, a server behind HTTP.

The engine is granted nothing; what it wants done is done here, by threads that
report to one queue. Copy it as the start of a host of your own:
`python host.py mcp-engine.wasm URL`.

The wasmtime package gives a variant as its bare payload where the type of the
payload tells the case: a source or sink is "client" or the number of a call.
It converts byte by byte, a few microseconds each: megabytes take seconds.
"""

import http.client
import os
import queue
import random
import socket
import ssl
import sys
import threading
import time
from urllib.parse import urlsplit

from wasmtime import Engine, Store
from wasmtime.component import Component, Linker, Record, Variant


class Machine:
    """One proxy in an instance of the engine."""

    def __init__(self, path, url, now):
        engine = Engine()
        self.store = Store(engine)
        # The linker is empty: the engine imports nothing.
        self.instance = Linker(engine).instantiate(self.store, Component.from_file(engine, path))
        config = self.function("defaults")(url)
        if isinstance(config, Variant):
            sys.exit(f"bad {config.tag}: {config.payload}")
        config.notes = True
        proxy = self.function("[static]proxy.create")(config, random.getrandbits(64), now)
        for name in ("handle", "poll", "deadline", "wants"):
            setattr(self, name, self.function(f"[method]proxy.{name}", proxy))

    def function(self, name, *first):
        interface = self.instance.get_export_index(self.store, "mcp:proxy/machine@0.1.0")
        index = self.instance.get_export_index(self.store, name, interface)
        function = self.instance.get_func(self.store, index)
        return lambda *rest: function(self.store, *first, *rest)


class Source(threading.Thread):
    """Puts facts on the queue. After a `None` it rests until it may go on."""

    def __init__(self, facts, news):
        super().__init__(daemon=True)
        self.facts, self.news = facts, news
        self.rests, self.permits = False, threading.Semaphore(0)

    def run(self):
        for fact in self.facts():
            self.news.put((self, fact))
            if fact is None:
                self.permits.acquire()

    def go_on(self):
        self.rests = False
        self.permits.release()


def client():
    """The facts of the client."""
    while True:
        yield None
        data = os.read(0, 1 << 16)
        yield Variant("bytes", ("client", data)) if data else Variant("eof", "client")


class Call:
    """One HTTP exchange. http.client follows no redirects: the machine does."""

    def __init__(self, request):
        self.request, self.url, self.cancelled = request, urlsplit(request.url), False
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        self.connection = kind(self.url.hostname, self.url.port, timeout=10)

    def facts(self):
        try:
            self.connection.connect()
            self.connection.sock.settimeout(None)
        except OSError as error:
            yield Variant("failed", (self.request.call, cause(error), str(error)))
            return
        try:
            if not self.cancelled:
                yield from self.exchange()
        except (http.client.HTTPException, ValueError):
            yield Variant("failed", (self.request.call, "protocol", ""))
        except OSError:
            yield Variant("failed", (self.request.call, "reset", ""))
        self.connection.close()

    def exchange(self):
        call, body = self.request.call, self.request.body
        target = self.url._replace(scheme="", netloc="", path=self.url.path or "/").geturl()
        self.connection.putrequest(self.request.method, target)
        for name, value in self.request.headers:
            self.connection.putheader(name, value)
        if body:
            self.connection.putheader("content-length", len(body))
        self.connection.endheaders(body or None)
        yield Variant("flushed", (Variant("call", call), len(body)))
        response = self.connection.getresponse()
        head = Record()
        head.call, head.status = call, response.status
        head.headers = [(name, value.encode("latin-1")) for name, value in response.getheaders()]
        yield Variant("head", head)
        yield None
        while data := response.read1(1 << 16):
            yield Variant("chunk", (call, data))
            yield None
        if response.length:
            raise ConnectionResetError("the response is cut off")
        yield Variant("end", call)

    def cancel(self):
        self.cancelled = True
        try:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        except (AttributeError, OSError):
            pass  # Not connected yet, or no longer.


def cause(error):
    kinds = ((socket.gaierror, "unresolved"), (TimeoutError, "connect-timeout"), (ssl.SSLError, "tls"))
    return next((name for kind, name in kinds if isinstance(error, kind)), "refused")


def write(lines, news):
    """Writes to the client and tells how much has left."""
    for line in iter(lines.get, None):
        try:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            news.put((None, Variant("flushed", (Variant("side", "client"), len(line)))))
        except OSError:
            news.put((None, Variant("shutdown")))


def main(path, url):
    start = time.monotonic()
    now = lambda: int((time.monotonic() - start) * 1000)
    machine = Machine(path, url, now())
    news, lines = queue.Queue(), queue.Queue()
    writer = threading.Thread(target=write, args=(lines, news), daemon=True)
    calls, sources = {}, {"client": Source(client, news)}
    writer.start()
    sources["client"].start()
    while True:
        # Start whatever the machine asks for; wait for none of it.
        for output in machine.poll():
            match output.tag, output.payload:
                case "write", (_, data):
                    lines.put(data)
                case "call", request:
                    calls[request.call] = Call(request)
                    sources[request.call] = Source(calls[request.call].facts, news)
                    sources[request.call].start()
                case "cancel", call if call in calls:
                    calls.pop(call).cancel()
                    sources.pop(call).go_on()
                case "note", note:
                    print(f"{note.tag}: {note.text}", file=sys.stderr)
                case "exit", _:
                    lines.put(None)
                    writer.join(5)
                    os._exit(0)  # A thread may still wait for stdin.
        # Read what is wanted, and nothing else: this is the backpressure.
        for name, source in sources.items():
            if source.rests and machine.wants(name):
                source.go_on()
        deadline = machine.deadline()
        wait = None if deadline is None else min(max(deadline.at - now(), 0) / 1000, 3600)
        try:
            source, fact = news.get(timeout=wait)
        except queue.Empty:
            source, fact = None, Variant("tick")
        if source and source not in sources.values():
            continue  # Nothing is said of a call after its cancel.
        if fact is None:
            source.rests = True
            continue
        machine.handle(now(), fact)
        if fact.tag in ("end", "failed"):
            call = fact.payload if fact.tag == "end" else fact.payload[0]
            del calls[call], sources[call]


if len(sys.argv) != 3:
    sys.exit("usage: host.py mcp-engine.wasm URL")
main(*sys.argv[1:])
