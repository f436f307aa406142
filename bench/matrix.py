#!/usr/bin/env python3
"""Runs the driver over all peers, interleaved, and writes tables with ratios.

  ./matrix.py run [--kind stdio-http,front-sse] [--mode quick|full] [--peers a,b] [--phases x,y] [--out results.jsonl] [-- driver options]
  ./matrix.py report results.jsonl [--vs base-reqwest,mcp-remote] [--out RESULTS.md]

Each repeat goes once through every (phase, peer) pair, and every other repeat
backwards, so slow drifts of the machine hit all peers alike. Probes come first,
several peers at a time, each with a mock of its own: they are verdicts and
mostly wait. Peers marked "slow" in peers.json get fewer calls and repeats; what
took very long is not repeated. A peer whose files are missing is left out, and
the report says so. --minutes stops before the repeat that would not fit.
MCPBENCH_NICE=-10 (root, start under setsid) gives the whole bench a scheduling
group of its own on a busy machine. One JSON line per run is appended to --out.
Standard library only. Only the mocks that this script starts are ended, by pid.
"""
import argparse, concurrent.futures, contextlib, json, os, platform, shutil, signal, socket, subprocess, sys, time

import report

HERE = os.path.dirname(os.path.abspath(__file__))
PATH_OF = {"stdio-http": "mcp", "stdio-sse": "sse", "front-sse": "sse", "front-http": "mcp"}
STDIO = "startup,latency_json,latency_sse,throughput_json,throughput_sse,parallel,tools_list,big1,big16,down16,progress,idle,probes"
STDIO_SSE = "startup,latency_json,throughput_json,parallel,tools_list,big1,big16,down16,progress,idle,probes"
FRONT = "startup,latency_json,throughput_json,throughput_warm,parallel,tools_list,big1,big16,down16,progress,idle,sessions,probes"
ALL_PHASES = {"stdio-http": STDIO, "stdio-sse": STDIO_SSE, "front-sse": FRONT, "front-http": FRONT}
ONCE = ("sessions", "throughput_warm", "parallel", "idle")  # verdicts and steady numbers
HUNG = 25  # seconds; who takes longer for one phase is not asked to repeat it

# skip: phases left out, slow_skip: also, for slow peers; options: for the driver; slow: replaces them for
# slow peers; limit: seconds for one driver run; fronts: what is different for HTTP fronts.
MODES = {
    "quick": {
        "skip": ("tools_list", "big16", "sessions"), "slow_skip": (),
        "peers": "base-raw,base-reqwest,mcp-proxy,mcp-proxy-wasmtime,mcp-proxy-cwasm,mcp-proxy-nocache,mcp-remote,py-mcp-proxy",
        "reps": 5, "slow_reps": 1, "minutes": 4.8, "limit": 180,
        "options": "--n 500 --starts 3 --budget 4 --idle 2 --notes 5000",
        "slow": "--n 100 --starts 2 --budget 2 --idle 2 --notes 2000 --bigs 1",
        "fronts": {
            "skip": ("tools_list", "big1", "big16", "down16", "progress"), "slow_skip": ("probes",),
            "peers": "base-front,base-worker,mcp-proxy-worker,ts-mcp-proxy+mcp-remote,supergateway+mcp-remote,py-mcp-proxy x2",
            "reps": 3, "slow_reps": 2, "minutes": 7,
            "options": "--n 500 --starts 3 --budget 4 --idle 2 --sessions 1,50,200",
            "slow": "--n 300 --starts 1 --budget 4 --idle 1 --sessions 1,50",
        },
    },
    "full": {"skip": (), "slow_skip": (), "peers": None, "reps": 5, "slow_reps": 3, "minutes": 0, "limit": 600, "options": "", "slow": ""},
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Bench:
    """What one `run` over one kind of proxies needs to know: places and the peers present."""

    def __init__(self, args, kind):
        self.args, self.kind = args, kind
        self.mode = MODES[args.mode] | (MODES[args.mode].get("fronts", {}) if kind.startswith("front") else {})
        self.places = {"{H}": args.bin, "{D}": args.dist, "{P}": args.peers_dir, "{B}": HERE, "{C}": args.work,
                       "{W}": os.environ.get("WASMTIME") or shutil.which("wasmtime") or "wasmtime"}
        conf = json.load(open(os.path.join(HERE, "peers.json")))
        self.env = dict(os.environ, **{k: self.fill(v) for k, v in conf["env"].items()})
        wanted = args.peers or self.mode["peers"]
        wanted = set(wanted.split(",")) if wanted else None
        self.peers, self.missing = [], {}
        for peer in conf["peers"]:
            if peer["kind"] == kind and (wanted is None or peer["name"] in wanted):
                self.admit(peer)

    def fill(self, word, port=0):
        for key, value in self.places.items():
            word = word.replace(key, value)
        return word.replace("{PORT}", str(port))

    def admit(self, peer):
        """Prepares a peer and keeps it if all the files of its command are there."""
        problem = self.prepare(peer) or self.absent(peer["cmd"])
        if problem is None:
            self.peers.append(peer)
        else:
            self.missing[peer["name"]] = problem
            print(f"left out: {peer['name']} ({problem})", flush=True)

    def prepare(self, peer):
        """Runs what a peer needs once before; says what is wrong."""
        words = peer.get("prepare", [])
        problem = self.absent(words)
        if problem is None and words:
            done = subprocess.run([self.fill(w) for w in words], env=self.env, capture_output=True, text=True)
            if done.returncode != 0:
                print(f"{peer['name']}: {done.stderr.strip()[-300:]}", flush=True)
                problem = "cannot be prepared"
        return problem

    def absent(self, words):
        """Names the first file or program among these words that does not exist."""
        for i, word in enumerate(words):
            path = self.fill(word)
            is_output = i > 0 and words[i - 1] == "-o"
            is_file = word[:3] in ("{H}", "{D}", "{P}", "{B}", "{C}") and " " not in word and not is_output
            if (i == 0 and shutil.which(path) is None) or (is_file and not os.path.exists(path)):
                return f"no {os.path.basename(path)}"
        return None

    def version(self, command):
        try:
            done = subprocess.run([self.fill(w) for w in command], env=self.env, capture_output=True, text=True, timeout=30)
            return (done.stdout or done.stderr).strip().splitlines()[0][:80]
        except (OSError, IndexError, subprocess.TimeoutExpired):
            return None

    def about(self):
        """Versions, and nothing that names this machine."""
        versions = {p["name"]: self.version(p["version"]) for p in self.peers if "version" in p}
        versions["Python"] = platform.python_version()
        if any("node" == p["cmd"][0] for p in self.peers):
            versions["Node"] = self.version(["node", "--version"])
        return {"about": {"mode": self.args.mode, "kind": self.kind, "system": f"{platform.system()} {platform.machine()}",
                          "cores": os.cpu_count(), "priority": os.environ.get("MCPBENCH_NICE"), "date": time.strftime("%Y-%m-%d", time.gmtime()),
                          "versions": {k: v for k, v in versions.items() if v}, "missing": self.missing}}

    def command(self, peer, phase, rep, extra, mock_port):
        kind, port = self.kind, free_port()
        mock = f"http://127.0.0.1:{mock_port}"
        url = f"{mock}/{peer.get('upstream', PATH_OF[kind])}"
        cmd = [f"{self.args.bin}/mcpbench", "--peer", peer["name"], "--upstream", url, "--phases", phase, "--rep", str(rep),
               "--logs", os.path.join(self.args.work, "logs")]
        if kind.startswith("front"):
            cmd += ["--front", f"http://127.0.0.1:{port}{peer.get('path', '/mcp')}", "--direct", f"{mock}/mcp"]
        elif "upstream" in peer:
            cmd += ["--direct", f"{mock}/mcp"]
        if "tool" in peer:
            cmd += ["--tool", peer["tool"]]
        cmd += self.mode["slow" if peer.get("slow") else "options"].split() + peer.get("options", []) + extra
        return cmd + ["--"] + [self.fill(w, port) for w in peer["cmd"]]

    def measure(self, peer, phase, rep, extra, mock_port):
        load, begun = os.getloadavg()[0], time.monotonic()
        command = self.command(peer, phase, rep, extra, mock_port)
        try:
            p = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=self.mode["limit"])
            text = p.stdout.strip()
            row = json.loads(text) if text else {"failed": "driver: " + p.stderr[-300:]}
        except subprocess.TimeoutExpired:
            row = {"failed": f"driver: {self.mode['limit']} s exceeded"}
        except json.JSONDecodeError as e:
            row = {"failed": f"driver output: {e}"}
        row.update(phase=phase, peer=peer["name"], kind=self.kind, rep=rep, load=round(load, 1), slow=bool(peer.get("slow")))
        print(json.dumps(row, ensure_ascii=False), file=self.out, flush=True)
        took = time.monotonic() - begun
        print(f"[{begun - self.start:4.0f} s] repeat {rep + 1} {phase:15} {peer['name']:19} {took:4.1f} s  {report.brief(row)}", flush=True)
        return took

    def phases(self):
        possible = ALL_PHASES[self.kind].split(",")
        if self.args.phases:
            return [p for p in self.args.phases.split(",") if p in possible]
        return [p for p in possible if p not in self.mode["skip"]]

    def takes(self, peer, phase):
        """Whether this peer has a part in this phase."""
        left_out = () if self.args.phases or not peer.get("slow") else self.mode["slow_skip"]
        return phase in peer.get("phases", [phase]) and phase not in left_out

    def plan(self, rep):
        """The (phase, peer) pairs of one repeat."""
        for phase in self.phases():
            if phase == "probes" or (rep > 0 and phase in ONCE):
                continue
            for peer in self.peers if rep % 2 == 0 else self.peers[::-1]:
                reps = min(self.reps, self.mode["slow_reps"] if peer.get("slow") else self.reps)
                if rep < reps and self.takes(peer, phase) and (phase, peer["name"]) not in self.hung:
                    yield phase, peer

    def probe(self, extra):
        peers = [p for p in self.peers if "probes" in self.phases() and self.takes(p, "probes")]

        def one(peer):
            with mock(self.args.bin) as port:
                self.measure(peer, "probes", 0, extra, port)

        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(one, sorted(peers, key=lambda p: not p.get("slow"))))  # the longest first

    def repeat(self, extra):
        minutes = self.mode["minutes"] if self.args.minutes is None else self.args.minutes
        fast = 0.0  # what a repeat takes without the parts that only the first one has
        with mock(self.args.bin) as port:
            for rep in range(self.reps):
                if minutes and rep > 0 and time.monotonic() - self.start + fast > minutes * 60:
                    print(f"{minutes:g} minutes are nearly over: {rep} of {self.reps} repeats", flush=True)
                    break
                fast = 0.0
                for phase, peer in self.plan(rep):
                    took = self.measure(peer, phase, rep, extra, port)
                    fast += 0 if phase in ONCE or peer.get("slow") or took > HUNG else took
                    if took > HUNG:
                        self.hung.add((phase, peer["name"]))

    def run(self, extra):
        self.start = time.monotonic()
        self.reps = self.args.reps or self.mode["reps"]
        self.hung = set()
        with open(self.args.out, "a") as self.out:
            print(json.dumps(self.about(), ensure_ascii=False), file=self.out, flush=True)
            self.probe(extra)
            self.repeat(extra)
            print(json.dumps({"about": {"kind": self.kind, "seconds": round(time.monotonic() - self.start)}}), file=self.out, flush=True)


@contextlib.contextmanager
def mock(folder):
    """A mock of our own on a free port; ended with the block."""
    port = free_port()
    child = subprocess.Popen([f"{folder}/mock", "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.05)
        yield port
    finally:
        child.terminate()
        child.wait()


def run(args, extra):
    if "MCPBENCH_NICE" in os.environ:  # needs its own session (setsid) and root
        open("/proc/self/autogroup", "w").write(os.environ["MCPBENCH_NICE"])
    os.makedirs(args.work, exist_ok=True)
    for kind in args.kind.split(","):
        bench = Bench(args, kind)
        if bench.peers:
            bench.run(extra)


def kinds(text):
    for kind in text.split(","):
        if kind not in PATH_OF:
            raise argparse.ArgumentTypeError(f"no such kind: {kind}")
    return text


def parser():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="what", required=True)
    r = sub.add_parser("run")
    r.add_argument("--kind", default="stdio-http", type=kinds, help="one or more of " + ", ".join(sorted(PATH_OF)))
    r.add_argument("--mode", default="full", choices=sorted(MODES))
    r.add_argument("--peers", help="names from peers.json")
    r.add_argument("--phases")
    r.add_argument("--reps", type=int, help="instead of the mode's")
    r.add_argument("--minutes", type=float, help="instead of the mode's; 0 = no limit")
    r.add_argument("--out", default="results.jsonl")
    r.add_argument("--bin", default=os.path.join(HERE, "target/release"), help="{H}: mcpbench, mock and the baselines")
    r.add_argument("--dist", default=os.path.join(HERE, "../dist"), help="{D}: mcp-proxy, mcp-proxy.wasm and worker/")
    r.add_argument("--peers-dir", default=os.environ.get("PEERS_DIR", "peers"), help="{P}: installed peers")
    r.add_argument("--work", default=os.path.join(HERE, "target/work"), help="{C}: logs, precompiled files and what workerd serves")
    t = sub.add_parser("report")
    t.add_argument("files", nargs="+")
    t.add_argument("--vs", default="base-reqwest,mcp-remote")
    t.add_argument("--out", help="default: standard output")
    return ap


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the mock is ended too
    argv, extra = sys.argv[1:], []
    if "--" in argv:
        i = argv.index("--")
        argv, extra = argv[:i], argv[i + 1:]
    args = parser().parse_args(argv)
    if args.what == "run":
        return run(args, extra)
    text = report.markdown(args.files, args.vs.split(","))
    if args.out:
        with open(args.out, "w") as f:
            f.write(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
