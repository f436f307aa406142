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
    ("exit after stdin EOF, ms", "startup", "exit_us.p50", 1000, 1),
    ("added p50, JSON, µs", "latency_json", "added_p50_us", 1, 0),
    ("added p50, SSE, µs", "latency_sse", "added_p50_us", 1, 0),
    ("p50 of direct + proxy, JSON, µs", "latency_json", "proxy_us.p50", 1, 0),
    ("p99, JSON, µs", "latency_json", "proxy_us.p99", 1, 0),
    ("CPU per call, µs", "latency_json", "cpu_us_per_call", 1, 0),
    ("calls/s, 64 in flight, JSON", "throughput_json", "per_s", 1, 0),
    ("calls/s, 64 in flight, SSE", "throughput_sse", "per_s", 1, 0),
    ("CPU per call at 64, µs", "throughput_json", "cpu_us_per_call", 1, 0),
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


# ------------------------------------------------------------------------- rows

def at(row, path):
    for key in path.split("."):
        if not isinstance(row, dict) or key not in row:
            return None
        row = row[key]
    return row


def load(files):
    """Rows and what is said about the run. A later row of the same (kind, peer, phase, rep) replaces an earlier one."""
    rows, about = {}, {}
    for name in files:
        with open(name) as f:
            for line in f:
                row = json.loads(line)
                if "about" in row:
                    about.update(row["about"])
                else:
                    rows[(row["kind"], row["peer"], row["phase"], row["rep"])] = row
    return list(rows.values()), about


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
    return [text.replace("|", "\\|").replace("\n", " ")[:300] for text in found]


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
    for kind in sorted({r["kind"] for r in all_rows}):
        rows = [r for r in all_rows if r["kind"] == kind]
        in_order = sorted(rows, key=lambda r: r["phase"] == "probes")  # those end in any order
        names = list(dict.fromkeys(r["peer"] for r in in_order))
        whole = [n for n in names if len({r["phase"] for r in rows if r["peer"] == n}) > 1] or names
        parts.append(f"## {kind}")
        if kind == "stdio-http" and any(n in OURS for n in names):
            parts.append(targets(rows))
        parts.append("### Medians\n\n" + table(whole, rows, None))
        for ref in references:
            if ref in whole:
                parts.append(f"### Ratios to {ref}\n\n" + table(whole, rows, ref))
        parts.append(start_up_only([n for n in names if n not in whole], rows))
        parts.append(correctness(whole, rows))
        parts.append(session_lines(rows))
    return "\n\n".join(p for p in parts if p) + "\n"


def statement(about, rows):
    reps = {slow: 1 + max((r["rep"] for r in rows if r.get("slow", False) is slow), default=-1) for slow in (False, True)}
    loads = [r["load"] for r in rows]
    priority = f", scheduling group at nice {about['priority']}" if about.get("priority") else ""
    lines = [
        "# Benchmark results",
        "Written by `cargo xtask bench`; do not edit.",
        f"Mode {about.get('mode')}, {about.get('date')}, {about.get('system')}, {about.get('cores')} cores, load {min(loads)}–{max(loads)}{priority}; "
        f"{about.get('seconds', '?')} s of measuring. Interleaved repeats: {reps[False]}, slow peers (mcp-remote, Python) {reps[True]} with fewer calls. "
        "Client, mock server and proxy share the machine: read ratios, not absolute numbers. What each row means: [README](README.md).",
        "Versions: " + ", ".join(f"{k} ({v})" for k, v in about.get("versions", {}).items()) + ".",
    ]
    if about.get("missing"):
        lines.append("Left out, because not there: " + ", ".join(f"{k} ({v})" for k, v in about["missing"].items()) + ".")
    return "\n\n".join(lines)


def targets(rows):
    lines = ["### Targets", "", "Ratio of the medians; in brackets the least and greatest ratio of a single repeat.", "",
             "| target | measured | verdict |", "|---|---:|---|"]
    for peer, title, sign, factor, ref in TARGETS:
        column = BY_TITLE[title]
        mine, other = median(rows, peer, column), median(rows, ref, column) if ref else 1.0
        bound = f"{factor:g} × {ref}" if ref else f"{factor:g}"
        if mine is None or not other:
            lines.append(f"| {peer}: {title} {sign} {bound} | – | not measured |")
            continue
        ratio = mine / other
        good = ratio <= factor if sign == "≤" else ratio >= factor
        shown = f"{ratio:.2f} ×{spread(rows, peer, ref, column)}" if ref else number(mine, 1)
        lines.append(f"| {peer}: {title} {sign} {bound} | {shown} | {'pass' if good else '**fail**'} |")
    for peer in OURS:
        own = [r for r in rows if r["peer"] == peer]
        unclean = sum(1 for r in own if faults(r))
        lines.append(verdict(f"{peer}: no lost, doubled or altered answer in any phase", own, unclean, f"{len(own) - unclean}/{len(own)} runs clean"))
        probes = [r for r in own if "probes" in r]
        bad, count = sum(r["not_ok"] for r in probes), sum(len(r["probes"]) for r in probes)
        lines.append(verdict(f"{peer}: all probes pass", probes, bad, f"{count - bad}/{count} ok"))
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


def session_lines(rows):
    """Fronts with many sessions: one line for each size."""
    keys = ("sessions", "opened", "open_s", "open_error", "calls_per_s", "kb_per_session", "deletes", "upstream_streams_left", "failed")
    lines = []
    for r in rows:
        for row in r.get("rows", []):
            kept = {k: row[k] for k in keys if row.get(k) is not None}
            memory = f"{at(row, 'with.rss_mb')} MB with, {at(row, 'after_delete.rss_mb')} MB after DELETE"
            lines.append(f"- {r['peer']}: {json.dumps(kept)} p50={at(row, 'lat_us.p50')} µs, {memory}")
    return "### Sessions\n\n" + "\n".join(lines) if lines else ""
