"""Turns the JSON lines of matrix.py into Markdown: targets, medians, ratios, correctness.

Pure: rows in, text out. The targets are the ones that the project holds itself
to; everything else treats all peers alike.
"""
import json
import statistics

# title, phase, path in the row, divisor, decimals
COLUMNS = [
    ("start-up, ms", "startup", "startup_us.p50", 1000, 1),
    ("start-up CPU, ms", "startup", "startup_cpu_ms", 1, 0),
    ("exit after stdin EOF (fronts: SIGTERM), ms", "startup", "exit_us.p50", 1000, 1),
    ("added p50, JSON, µs", "latency_json", "added_p50_us", 1, 0),
    ("added p50, SSE, µs", "latency_sse", "added_p50_us", 1, 0),
    ("p50 of direct + proxy, JSON, µs", "latency_json", "proxy_us.p50", 1, 0),
    ("p99, JSON, µs", "latency_json", "proxy_us.p99", 1, 0),
    ("CPU per call, µs", "latency_json", "cpu_us_per_call", 1, 0),
    ("calls/s, 64 in flight, JSON", "throughput_json", "per_s", 1, 0),
    ("calls/s, 64 in flight, SSE", "throughput_sse", "per_s", 1, 0),
    ("CPU per call at 64, µs", "throughput_json", "cpu_us_per_call", 1, 0),
    ("calls/s, 64 in flight, warm", "throughput_warm", "per_s", 1, 0),
    ("CPU per call at 64, warm, µs", "throughput_warm", "cpu_us_per_call", 1, 0),
    ("64 × 100 ms calls, ms", "parallel", "wall_ms", 1, 0),
    ("tools/list 197 KB p50, ms", "tools_list", "proxy_us.p50", 1000, 2),
    ("1 MB echo, MB/s", "big1", "mb_per_s", 1, 0),
    ("16 MB echo, MB/s", "big16", "mb_per_s", 1, 0),
    ("16 MB answer, MB/s", "down16", "mb_per_s", 1, 0),
    ("peak memory there, MB", "down16", "usage.peak_mb", 1, 1),
    ("progress notifications/s", "progress", "per_s", 1, 0),
    ("idle memory (RSS), MB", "idle", "usage.rss_mb", 1, 1),
    ("idle memory (PSS), MB", "idle", "usage.pss_mb", 1, 1),
    ("peak memory at 64 in flight, MB", "throughput_json", "usage.peak_mb", 1, 1),
    ("idle CPU, µs/s", "idle", "idle_cpu_us_per_s", 1, 0),
]
BY_TITLE = {c[0]: c for c in COLUMNS}

# peer, column, "≤" or "≥", factor, reference peer (None: the factor is the bound itself)
TARGETS = [
    ("mcp-proxy", "added p50, JSON, µs", "≤", 1.0, "base-reqwest"),
    ("mcp-proxy", "added p50, SSE, µs", "≤", 1.0, "base-reqwest"),
    ("mcp-proxy", "calls/s, 64 in flight, JSON", "≥", 2.0, "base-reqwest"),
    ("mcp-proxy", "calls/s, 64 in flight, SSE", "≥", 2.0, "base-reqwest"),
    ("mcp-proxy", "start-up, ms", "≤", 1.0, "base-reqwest"),
    ("mcp-proxy", "idle memory (RSS), MB", "≤", 12.0, None),
    ("mcp-proxy-wasmtime", "added p50, JSON, µs", "≤", 3.0, "base-reqwest"),
    ("mcp-proxy-wasmtime", "added p50, SSE, µs", "≤", 3.0, "base-reqwest"),
]
OURS = ("mcp-proxy", "mcp-proxy-wasmtime")

# What users run today to reach an HTTP+SSE server by Streamable HTTP: two processes, joined by stdio.
CHAINS = ("ts-mcp-proxy+mcp-remote", "supergateway+mcp-remote", "py-mcp-proxy x2")
WORKER = "mcp-proxy-worker"
SEVERAL, MANY = 50, 200  # sessions
FRONT_TARGETS = [("calls/s, 64 in flight, JSON", 2.0), ("calls/s, 64 in flight, warm", 1.0)]

TITLES = {
    "stdio-http": "stdio over a Streamable HTTP server",
    "stdio-sse": "stdio over an HTTP+SSE server",
    "front-sse": "HTTP fronts over an HTTP+SSE server",
    "front-http": "HTTP fronts over a Streamable HTTP server",
}
TARGET_HEAD = "### Targets\n\n%s\n\n| target | measured | verdict |\n|---|---:|---|"


# ------------------------------------------------------------------------- rows

def at(row, path):
    for key in path.split("."):
        if not isinstance(row, dict) or key not in row:
            return None
        row = row[key]
    return row


def load(files):
    """Rows and what is said about the run. A later row of the same (kind, peer, phase, rep) replaces an earlier one."""
    rows, said = {}, {}
    for name in files:
        with open(name) as f:
            for line in f:
                row = json.loads(line)
                if "about" in row:
                    said.setdefault(row["about"].get("kind"), {}).update(row["about"])
                else:
                    rows[(row["kind"], row["peer"], row["phase"], row["rep"])] = row
    return list(rows.values()), merged(said.values())


def merged(parts):
    """What is said about all kinds together."""
    about = {}
    for part in parts:
        both = {key: about.get(key, {}) | part.get(key, {}) for key in ("versions", "missing")}
        about = about | part | both | {"seconds": about.get("seconds", 0) + part.get("seconds", 0)}
    return about


def by_repeat(rows, peer, column):
    _, phase, path, divisor, _ = column
    got = {r["rep"]: at(r, path) for r in rows if r["peer"] == peer and r["phase"] == phase and "failed" not in r}
    return {rep: g / divisor for rep, g in got.items() if isinstance(g, (int, float)) and g == g}


def median(rows, peer, column):
    got = by_repeat(rows, peer, column).values()
    return statistics.median(got) if got else None


def spread(rows, peer, reference, column):
    """Least and greatest ratio within one repeat: how far the median can be trusted."""
    mine, other = by_repeat(rows, peer, column), by_repeat(rows, reference, column)
    ratios = [mine[rep] / other[rep] for rep in mine if other.get(rep)]
    return f" ({min(ratios):.2f}–{max(ratios):.2f})" if len(ratios) > 1 else ""


def number(value, decimals):
    if value is None:
        return "–"
    return f"{value:,.{0 if abs(value) >= 100 else decimals}f}"


def faults(row):
    """What was not as it must be in one row."""
    found = []
    if "failed" in row:
        found.append("failed: " + row["failed"])
    tally, shape = row.get("tally"), row.get("shape")
    if tally and not tally.get("clean"):
        found.append("answers: " + json.dumps(tally, ensure_ascii=False))
    if shape and not shape["complete"]:
        found.append("notifications: " + json.dumps(shape))
    if row.get("after") not in (None, "ok"):
        found.append("afterwards: " + row["after"])
    if row.get("same") is False:
        found.append("the tool list was altered")
    found += [f"{part['sessions']} sessions: {fault}" for part in row.get("rows", []) for fault in session_faults(part)]
    return [text.replace("|", "\\|").replace("\n", " ")[:300] for text in found]


def session_faults(part):
    """The same for one number of sessions. How many processes fit into memory is not a fault."""
    if "failed" in part:
        return []
    found = []
    if part["opened"] < part["sessions"]:
        found.append(f"{part['opened']} opened ({part.get('open_error')})")
    if not part["tally"].get("clean"):
        found.append("answers: " + json.dumps(part["tally"], ensure_ascii=False))
    return found


def brief(row):
    """One line for the progress display."""
    if "failed" in row:
        return "FAILED " + row["failed"][:140]
    keys = ["startup_us.p50", "added_p50_us", "per_s", "mb_per_s", "wall_ms", "usage.rss_mb", "not_ok"]
    text = " ".join(f"{k}={at(row, k)}" for k in keys if at(row, k) is not None)
    return text + "".join("  UNCLEAN " + f[:160] for f in faults(row))


# --------------------------------------------------------------------- sections

def markdown(files, references):
    all_rows, about = load(files)
    parts = [statement(about, all_rows)]
    for kind in sorted({r["kind"] for r in all_rows}, key=list(TITLES).index):
        rows = [r for r in all_rows if r["kind"] == kind]
        in_order = sorted(rows, key=lambda r: r["phase"] == "probes")  # those end in any order
        names = list(dict.fromkeys(r["peer"] for r in in_order))
        whole = [n for n in names if len({r["phase"] for r in rows if r["peer"] == n}) > 1] or names
        parts.append(f"## {TITLES[kind]}")
        if kind == "stdio-http" and any(n in OURS for n in names):
            parts.append(targets(rows))
        if kind == "front-sse" and WORKER in names:
            parts.append(front_targets(rows))
        parts.append("### Medians\n\n" + table(whole, rows, None))
        for ref in references:
            if ref in whole:
                parts.append(f"### Ratios to {ref}\n\n" + table(whole, rows, ref))
        parts.append(start_up_only([n for n in names if n not in whole], rows))
        parts.append(correctness(whole, rows))
        parts.append(sessions(rows))
    return "\n\n".join(p for p in parts if p) + "\n"


def statement(about, rows):
    reps = {slow: 1 + max((r["rep"] for r in rows if r.get("slow", False) is slow), default=-1) for slow in (False, True)}
    loads = [r["load"] for r in rows]
    priority = f", scheduling group at nice {about['priority']}" if about.get("priority") else ""
    lines = [
        "# Benchmark results",
        "Written by `cargo xtask bench`; do not edit.",
        f"Mode {about.get('mode')}, {about.get('date')}, {about.get('system')}, {about.get('cores')} cores, load {min(loads)}–{max(loads)}{priority}; "
        f"{about.get('seconds', '?')} s of measuring. Interleaved repeats: up to {reps[False]}, of slow peers (mcp-remote, Python) {reps[True]} with fewer calls. "
        "Client, mock server and proxy share the machine: read ratios, not absolute numbers. What each row means: [README](README.md).",
        "Versions: " + ", ".join(f"{k} ({v})" for k, v in about.get("versions", {}).items()) + ".",
    ]
    if about.get("missing"):
        lines.append("Left out: " + ", ".join(f"{k} ({v})" for k, v in about["missing"].items()) + ".")
    return "\n\n".join(lines)


def targets(rows):
    lines = [TARGET_HEAD % "Ratio of the medians; in brackets the least and greatest ratio of a single repeat."]
    lines += [target(rows, *t) for t in TARGETS]
    for peer in OURS:
        probes = [r for r in rows if r["peer"] == peer and "probes" in r]
        bad, count = sum(r["not_ok"] for r in probes), sum(len(r["probes"]) for r in probes)
        lines += [answers(rows, peer), verdict(f"{peer}: all probes pass", probes, bad, f"{count - bad}/{count} ok")]
    return "\n".join(lines)


def target(rows, peer, title, sign, factor, ref):
    """One line: what a peer is to reach, alone or beside the reference."""
    column = BY_TITLE[title]
    mine, other = median(rows, peer, column), median(rows, ref, column) if ref else 1.0
    bound = f"{factor:g} × {ref}" if ref else f"{factor:g}"
    if mine is None or not other:
        return f"| {peer}: {title} {sign} {bound} | – | not measured |"
    ratio = mine / other
    good = ratio <= factor if sign == "≤" else ratio >= factor
    shown = f"{ratio:.2f} ×{spread(rows, peer, ref, column)}" if ref else number(mine, 1)
    return f"| {peer}: {title} {sign} {bound} | {shown} | {'pass' if good else '**fail**'} |"


def answers(rows, peer):
    own = [r for r in rows if r["peer"] == peer]
    unclean = sum(1 for r in own if faults(r))
    return verdict(f"{peer}: no lost, doubled or altered answer in any phase", own, unclean, f"{len(own) - unclean}/{len(own)} runs clean")


def session_parts(rows, peer, count):
    """What was measured of a peer with so many sessions."""
    parts = [part for r in rows if r["peer"] == peer for part in r.get("rows", [])]
    return [part for part in parts if part["sessions"] == count and "failed" not in part]


def sessions_target(rows):
    """The Worker beside the best of the chains, with several sessions at once."""
    rate = lambda peer: max((part["calls_per_s"] for part in session_parts(rows, peer, SEVERAL)), default=0)
    best = max(CHAINS, key=rate)
    text = f"{WORKER}: calls/s in {SEVERAL} sessions ≥ 2 × {best}"
    if not rate(best) or not rate(WORKER):
        return f"| {text} | – | not measured |"
    ratio = rate(WORKER) / rate(best)
    return f"| {text} | {ratio:.2f} × | {'pass' if ratio >= 2 else '**fail**'} |"


def front_targets(rows):
    """The Worker beside the best of the chains; base-front and base-worker are yardsticks, not what users run."""
    best = lambda title: max(CHAINS, key=lambda chain: median(rows, chain, BY_TITLE[title]) or 0)
    intro = (f"The bounds of the first three are the best of the two-process chains {', '.join(CHAINS)}. "
             "Ratio of the medians; in brackets the least and greatest ratio of a single repeat.")
    lines = [TARGET_HEAD % intro]
    lines += [target(rows, WORKER, title, "≥", factor, best(title)) for title, factor in FRONT_TARGETS]
    lines.append(sessions_target(rows))
    lines.append(answers(rows, WORKER))
    many = session_parts(rows, WORKER, MANY)
    left = sum(max(0, part["upstream_streams_left"]) for part in many)
    shown = f"{sum(p['opened'] for p in many)} opened, {sum(p['calls'] for p in many)} calls, {left} streams left"
    bad = left + sum(len(session_faults(part)) for part in many)
    lines.append(verdict(f"{WORKER}: {MANY} sessions at once, every answer right, nothing left at the server after DELETE", many, bad, shown))
    return "\n".join(lines)


def verdict(target, seen, bad, shown):
    word = "not measured" if not seen else "**fail**" if bad else "pass"
    return f"| {target} | {shown if seen else '–'} | {word} |"


def table(names, rows, reference):
    """Medians, or their ratios to the reference peer."""
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for column in COLUMNS:
        values = [median(rows, n, column) for n in names]
        if all(v is None for v in values):
            continue
        if reference is None:
            cells = [number(v, column[4]) for v in values]
        else:
            ref = median(rows, reference, column)
            if not ref:
                continue
            cells = ["–" if v is None else f"{v / ref:.3g}" for v in values]
        lines.append(f"| {column[0]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def start_up_only(names, rows):
    column = COLUMNS[0]
    cells = [f"{n} {number(median(rows, n, column), 1)} ms" for n in names]
    return "Start-up only: " + ", ".join(cells) + "." if cells else ""


def correctness(names, rows):
    lines = ["### Correctness", "", "| | runs | clean | probes ok |", "|---|---:|---:|---:|"]
    details = []
    for name in names:
        own = [r for r in rows if r["peer"] == name]
        bad = [(r, f) for r in own for f in faults(r)]
        probes = next((r for r in own if "probes" in r), None)
        passed = f"{len(probes['probes']) - probes['not_ok']}/{len(probes['probes'])}" if probes else "–"
        lines.append(f"| {name} | {len(own)} | {len(own) - len({id(r) for r, _ in bad})} | {passed} |")
        details += [f"- {name}, {r['phase']}, repeat {r['rep'] + 1}: {f}" for r, f in bad]
        if probes:
            details += [f"- {name}, probe {k}: {clean(v)}" for k, v in probes["probes"].items() if v != "ok"]
    lines += ["", "A run is clean if every id was answered exactly once with the text that was sent, every notification came in order before its result, and the proxy still worked afterwards."]
    return "\n".join(lines + ([""] + details if details else []))


def clean(text):
    return text.replace("\n", " ").replace("|", "\\|")[:240]


def sessions(rows):
    """Fronts with many sessions at once: one line for each peer and number."""
    lines = []
    for r in rows:
        for part in r.get("rows", []):
            if "failed" in part:
                lines.append(f"| {r['peer']} | {part['sessions']} | {clean(part['failed'])} |" + " |" * 7)
                continue
            cells = [f"{part['opened']} in {part['open_s']:.1f} s", number(part["calls_per_s"], 0), number((at(part, "lat_us.p50") or 0) / 1000, 1),
                     number(part["kb_per_session"], 0), number(part["base"]["rss_mb"], 0), number(part["with"]["rss_mb"], 0),
                     number(part["after_delete"]["rss_mb"], 0), str(part["upstream_streams_left"])]
            lines.append(f"| {r['peer']} | {part['sessions']} | " + " | ".join(cells) + " |")
    if not lines:
        return ""
    head = ["### Sessions", "", "20 calls in each of many sessions at once. Memory is that of all processes: before, with the sessions open, and 3 s after "
            "DELETE of each; what a runtime keeps for later is in it. The last column counts streams that the server still had then.", "",
            "| | sessions | opened | calls/s | p50, ms | KB per session | before, MB | with, MB | after DELETE, MB | streams left |", "|---|" + "---:|" * 9]
    return "\n".join(head + lines)
