//! Driver: measures one target in one or more phases and prints one JSON line per phase.
//!
//!   mcpbench --peer NAME --upstream http://127.0.0.1:21000/mcp [options] -- COMMAND…     (stdio proxy)
//!   mcpbench --peer NAME --upstream …/sse --front http://127.0.0.1:21100/mcp [options] -- COMMAND…   (HTTP front)
//!   mcpbench --peer direct --front http://127.0.0.1:21000/mcp                             (no proxy at all)
//!
//! `{URL}` in COMMAND is replaced by the upstream, `{TMP}` by a new empty folder for each start. Options:
//!   --direct URL      reference endpoint (default: the upstream; a path ending in /sse means legacy)
//!   --phases a,b,c    startup latency_json latency_sse throughput_json throughput_sse throughput_warm
//!                     parallel tools_list big1 big16 down16 progress idle sessions probes
//!   --n 1000  --starts 5  --inflight 64  --budget 12 (s per block)  --notes 10000  --idle 6 (s)
//!   --bigs 3 (16 MB calls)  --sessions 1,10,50,100,200
//!   --tool echo       name of the echo tool (gateways may add a prefix)
//!   --stdio pipe|socket   what the child gets (Node clients use sockets)
//!   --rep K           repeat number, copied into the output     --logs DIR
use mcpbench::client::Target;
use mcpbench::http1::Url;
use mcpbench::link::Pipes;
use mcpbench::phases::{self, Ctx};
use std::time::Duration;

fn main() {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let (opts, cmd) = match all.iter().position(|a| a == "--") {
        Some(p) => (all[..p].to_vec(), all[p + 1..].to_vec()),
        None => (all, vec![]),
    };
    let get = |k: &str| opts.iter().position(|a| a == k).and_then(|p| opts.get(p + 1)).cloned();
    let num = |k: &str, d: u64| get(k).and_then(|v| v.parse().ok()).unwrap_or(d);
    let url = |s: &str| Url::parse(s).unwrap_or_else(|| panic!("not an http:// URL: {s}"));

    let pipes = if get("--stdio").as_deref() == Some("socket") { Pipes::Socket } else { Pipes::Pipe };
    let front = get("--front");
    let upstream = get("--upstream").or(front.clone()).expect("--upstream or --front");
    let direct = get("--direct").unwrap_or(upstream.clone());
    let ctl = url(&direct);
    let direct = match direct.ends_with("/sse") {
        true => Target::Legacy { url: url(&direct) },
        false => Target::Http { url: url(&direct), cmd: None, upstream: String::new() },
    };
    let (target, default_phases) = match (&front, cmd.is_empty()) {
        (Some(f), no_cmd) if f.ends_with("/sse") && no_cmd => (Target::Legacy { url: url(f) }, "latency_json"),
        (Some(f), no_cmd) => (
            Target::Http { url: url(f), cmd: (!no_cmd).then_some(cmd), upstream },
            "startup,latency_json,latency_sse,throughput_json,parallel,tools_list,big1,big16,down16,progress,idle,sessions,probes",
        ),
        (None, false) => (
            Target::Stdio { cmd, upstream, pipes },
            "startup,latency_json,latency_sse,throughput_json,throughput_sse,parallel,tools_list,big1,big16,down16,progress,idle,probes",
        ),
        (None, true) => panic!("a command after -- or --front is needed"),
    };
    let logdir = get("--logs").unwrap_or("logs".into());
    std::fs::create_dir_all(&logdir).expect("log directory");
    let ctx = Ctx {
        peer: get("--peer").unwrap_or("peer".into()),
        target,
        direct,
        ctl,
        logdir,
        tool: get("--tool").unwrap_or("echo".into()),
        n: num("--n", 1000),
        starts: num("--starts", 5),
        inflight: num("--inflight", 64),
        budget: Duration::from_secs(num("--budget", 12)),
        notes: num("--notes", 10_000),
        idle_secs: num("--idle", 6),
        bigs: num("--bigs", 3).max(1),
        sessions: get("--sessions").unwrap_or("1,10,50,100,200".into()).split(',').filter_map(|s| s.parse().ok()).collect(),
    };
    let rep = num("--rep", 0);
    let phases = get("--phases").unwrap_or(default_phases.into());
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&rt, async {
        for phase in phases.split(',') {
            let mut v = phases::run(&ctx, phase).await;
            v["rep"] = rep.into();
            println!("{v}");
        }
    });
}
