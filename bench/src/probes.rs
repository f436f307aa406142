//! Correctness checks. Each probe gives "ok" or says precisely what happened.
use crate::client::{self, open, Client, Target};
use crate::link::Pipes;
use crate::phases::Ctx;
use crate::{msg, payload};
use serde_json::{json, Map, Value};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(8);
const FIDELITY: &str = include_str!("fidelity.json");

pub async fn run(ctx: &Ctx) -> Value {
    let mut out = Map::new();
    macro_rules! probe {
        ($name:expr, $f:expr) => {{
            // Every group gets its own proxy: a broken probe must not spoil the next one.
            let r = match ctx.open(&format!("probe-{}", $name)).await {
                Ok(mut c) => $f(&mut c).await,
                Err(e) => format!("no start: {e}"),
            };
            out.insert($name.into(), r.into());
        }};
    }
    client::mock_reset(&ctx.ctl).await;
    probe!("init", |c| init(c, ctx));
    probe!("ids", ids);
    probe!("result_fidelity", result_fidelity);
    probe!("params_fidelity", params_fidelity);
    probe!("custom_method", custom_method);
    probe!("error_data", error_data);
    probe!("progress_tokens", progress_tokens);
    probe!("log_notes", |c| notes(c, ",\"kind\":\"log\"", "log"));
    probe!("notes_via_get", |c| notes(c, ",\"kind\":\"log\",\"via\":\"get\",\"reply\":\"json\"", "get"));
    probe!("incremental", incremental);
    probe!("ask_sampling", |c| ask(c, "sampling/createMessage"));
    probe!("ask_roots", |c| ask(c, "roots/list"));
    probe!("ask_elicitation", |c| ask(c, "elicitation/create"));
    probe!("ask_ping", |c| ask(c, "ping"));
    probe!("cancel", |c| cancel(c, ctx));
    if matches!(ctx.target, Target::Stdio { .. }) {
        probe!("bad_line", bad_line);
        probe!("eof_flush", eof_flush);
        out.insert("socket_stdio".into(), socket_stdio(ctx).await.into());
    }
    for fault in ["http500", "http404", "drop", "cut", "abort", "garbage"] {
        probe!(format!("fault_{fault}"), |c| fault_probe(c, fault));
    }
    out.insert("upstream_down".into(), upstream_down(ctx).await.into());
    let bad = out.values().filter(|v| *v != "ok").count();
    json!({"probes": out, "not_ok": bad})
}

fn clip(s: &str) -> String {
    s.chars().take(220).collect()
}

/// Differences between two JSON values, as paths. Number spelling (1.0 vs 1) is marked "~".
fn diff(path: &str, want: &Value, got: &Value, out: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(a), Value::Object(b)) => {
            for (k, v) in a {
                match b.get(k) {
                    None => out.push(format!("{path}/{k} missing")),
                    Some(w) => diff(&format!("{path}/{k}"), v, w, out),
                }
            }
            for k in b.keys().filter(|k| !a.contains_key(*k)) {
                out.push(format!("{path}/{k} added"));
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (v, w)) in a.iter().zip(b).enumerate() {
                diff(&format!("{path}/{i}"), v, w, out);
            }
        }
        (Value::Number(a), Value::Number(b)) if a != b => {
            let (a, b) = (a.to_string(), b.to_string());
            let both_int = !a.contains(['.', 'e', 'E']) && !b.contains(['.', 'e', 'E']);
            let same = !both_int && a.parse::<f64>().ok() == b.parse::<f64>().ok();
            out.push(format!("{path} {a} {} {b}", if same { "~" } else { "→" }));
        }
        (a, b) if a != b => out.push(format!("{path} {} → {}", clip(&a.to_string()), clip(&b.to_string()))),
        _ => {}
    }
}

fn verdict(d: Vec<String>) -> String {
    if d.is_empty() {
        "ok".into()
    } else {
        d.join("; ")
    }
}

async fn init(c: &mut Client, ctx: &Ctx) -> String {
    let mut d = vec![];
    let want = json!({"tools": {"listChanged": true}, "resources": {}, "prompts": {}, "logging": {}, "completions": {}});
    diff("capabilities", &want, &c.init["result"]["capabilities"], &mut d);
    for (path, want) in [("/result/serverInfo/name", "mcpbench-mock"), ("/result/instructions", "benchmark mock")] {
        let got = c.init.pointer(path).and_then(|v| v.as_str()).unwrap_or("missing");
        if got != want {
            d.push(format!("{path} is {got:?}"));
        }
    }
    let st = client::mock_stats(&ctx.ctl).await;
    let seen = &st["clients"];
    let last = seen.as_array().and_then(|a| a.last()).cloned().unwrap_or_default();
    let name = last["clientInfo"]["name"].as_str().unwrap_or("missing");
    if name != "mcpbench-driver" {
        d.push(format!("server saw clientInfo.name {name:?}"));
    }
    let caps = json!({"roots": {"listChanged": true}, "sampling": {}, "elicitation": {}});
    diff("client capabilities", &caps, &last["capabilities"], &mut d);
    let inits = seen.as_array().map_or(0, |a| a.len());
    if inits > 1 {
        d.push(format!("{inits} initialize requests upstream"));
    }
    verdict(d)
}

async fn ids(c: &mut Client) -> String {
    let mut d = vec![];
    for id in ["\"text-id\"", "0", "-5", "9007199254740993", "\"00000000-0000-4000-8000-000000000000\"", "\"7\"", "7"] {
        let r = c.request(id, "ping", "{}", Duration::from_secs(3)).await;
        if let Err(e) = r {
            d.push(format!("id {id}: {}", clip(&e)));
        }
    }
    for s in c.tally.samples.iter().filter(|s| s.contains("not pending")) {
        d.push(s.clone());
    }
    verdict(d)
}

async fn result_fidelity(c: &mut Client) -> String {
    let r = c.request("1", "tools/call", "{\"name\":\"fidelity\",\"arguments\":{}}", LIMIT).await;
    match r {
        Err(e) => clip(&e),
        Ok((_, raw)) => {
            let got: Value = serde_json::from_slice(&raw).unwrap_or_default();
            let want: Value = serde_json::from_str(FIDELITY).unwrap_or_default();
            let mut d = vec![];
            if let Some(e) = got.get("error") {
                return format!("error: {}", clip(&e.to_string()));
            }
            diff("", &want, &got["result"], &mut d);
            verdict(d)
        }
    }
}

async fn params_fidelity(c: &mut Client) -> String {
    let params = r#"{"name":"params","arguments":{"big":9007199254740993,"float":1.0,"long":0.1234567890123456789,"uni":"é漢😀 ","nul":null,"empty":{},"list":[[],{}]},"_meta":{"progressToken":"t-1","example.com/k":{"v":1}},"xUnknown":true}"#;
    match c.request("1", "tools/call", params, LIMIT).await {
        Err(e) => clip(&e),
        Ok((_, raw)) => {
            let Some(m) = msg::parse(&raw) else { return "not JSON".into() };
            if let Some(e) = m.error {
                return format!("error: {}", clip(e.get()));
            }
            let text = match m.result.map(msg::result_text) {
                Some(Ok(t)) => t,
                Some(Err(e)) => return clip(&e),
                None => return "no result".into(),
            };
            let (want, got): (Value, Value) = (serde_json::from_str(params).unwrap_or_default(), serde_json::from_str(&text).unwrap_or_default());
            let mut d = vec![];
            diff("", &want, &got, &mut d);
            verdict(d)
        }
    }
}

async fn custom_method(c: &mut Client) -> String {
    match c.request("1", "bench/custom", "{\"a\":1}", LIMIT).await {
        Err(e) => clip(&e),
        Ok((_, raw)) => {
            let v: Value = serde_json::from_slice(&raw).unwrap_or_default();
            if v["result"] == json!({"custom": true, "params": {"a": 1}}) {
                "ok".into()
            } else {
                clip(&v.to_string())
            }
        }
    }
}

async fn error_data(c: &mut Client) -> String {
    match c.request("1", "no/such", "{}", LIMIT).await {
        Err(e) => clip(&e),
        Ok((_, raw)) => {
            let v: Value = serde_json::from_slice(&raw).unwrap_or_default();
            let want = json!({"code": -32601, "message": "no method no/such", "data": {"method": "no/such", "n": 1}});
            let mut d = vec![];
            diff("error", &want, &v["error"], &mut d);
            verdict(d)
        }
    }
}

async fn progress_tokens(c: &mut Client) -> String {
    let mut d = vec![];
    for (id, token) in [("11", "\"string-token\""), ("12", "42")] {
        c.notes.clear();
        let params = format!("{{\"name\":\"{}\",\"arguments\":{{\"text\":\"x\",\"progress\":3}},\"_meta\":{{\"progressToken\":{token}}}}}", c.tool);
        if let Err(e) = c.request(id, "tools/call", &params, LIMIT).await {
            d.push(clip(&e));
            continue;
        }
        c.linger(Duration::from_millis(200)).await;
        let want: Value = serde_json::from_str(token).unwrap_or_default();
        let good = c.notes.iter().filter(|(_, n)| serde_json::from_slice::<Value>(n).is_ok_and(|v| v["params"]["progressToken"] == want)).count();
        if good != 3 {
            d.push(format!("token {token}: {good} of 3 (got {} notifications)", c.notes.len()));
        }
    }
    verdict(d)
}

async fn notes(c: &mut Client, extra: &str, _what: &str) -> String {
    // give a proxy time to open its GET stream
    c.linger(Duration::from_millis(400)).await;
    c.notes.clear();
    let extra = format!(",\"progress\":20{extra}");
    c.echo("x", &extra, None, LIMIT).await;
    c.linger(Duration::from_millis(500)).await;
    let got = c.notes.len();
    if got == 20 && c.tally.clean() {
        "ok".into()
    } else {
        format!("{got} of 20 notifications; {}", c.tally.json())
    }
}

/// 20 notifications 50 ms apart must arrive as they are sent, not in one go at the end.
async fn incremental(c: &mut Client) -> String {
    c.notes.clear();
    let params = format!("{{\"name\":\"{}\",\"arguments\":{{\"text\":\"x\",\"progress\":20,\"gap_us\":50000}},\"_meta\":{{\"progressToken\":5}}}}", c.tool);
    let t0 = Instant::now();
    if let Err(e) = c.request("1", "tools/call", &params, LIMIT).await {
        return clip(&e);
    }
    let Some((first, _)) = c.notes.first() else { return "no notification".into() };
    let span = c.notes.last().map_or(Duration::ZERO, |(l, _)| *l - *first);
    if c.notes.len() == 20 && span > Duration::from_millis(800) {
        "ok".into()
    } else {
        format!("{} of 20; first after {:?}, span {:?} (expected ~950 ms)", c.notes.len(), *first - t0, span)
    }
}

async fn ask(c: &mut Client, method: &str) -> String {
    c.linger(Duration::from_millis(300)).await;
    let params = format!("{{\"name\":\"{}\",\"arguments\":{{\"text\":\"x\",\"ask\":\"{method}\"}}}}", c.tool);
    match c.request("1", "tools/call", &params, LIMIT).await {
        Err(e) => clip(&e),
        Ok((_, raw)) => match msg::parse(&raw).and_then(|m| m.result.map(msg::result_text)) {
            Some(Ok(t)) if t.contains("polo") || (method == "ping" && t.contains("\"result\"")) => "ok".into(),
            Some(Ok(t)) => format!("server got: {}", clip(&t)),
            Some(Err(e)) => clip(&e),
            None => clip(&String::from_utf8_lossy(&raw)),
        },
    }
}

async fn cancel(c: &mut Client, ctx: &Ctx) -> String {
    client::mock_reset(&ctx.ctl).await;
    let body = c.call_body(77, "x", ",\"delay_ms\":3000");
    let _ = c.link.send(body).await;
    c.linger(Duration::from_millis(500)).await;
    let note = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":77,\"reason\":\"bench\"}}";
    let _ = c.link.send(note.into()).await;
    c.linger(Duration::from_millis(500)).await;
    let st = client::mock_stats(&ctx.ctl).await;
    match (st["cancel_matched"].as_u64(), st["cancel_seen"].as_u64()) {
        (Some(1), _) => "ok".into(),
        (_, Some(_)) => "cancelled arrived with another id".into(),
        _ => "cancelled did not reach the server".into(),
    }
}

/// A broken line on stdin must not end the proxy.
async fn bad_line(c: &mut Client) -> String {
    let _ = c.link.send("{oops this is not JSON".into()).await;
    c.linger(Duration::from_millis(300)).await;
    let (noise, extra) = (c.tally.noise, c.tally.extra);
    c.tally.extra = 0; // an error answer with a null id is allowed
    c.echo("after", "", None, LIMIT).await;
    if c.tally.ok == 1 {
        if noise > 0 { format!("works, but {noise} lines of noise on stdout; {extra}") } else { "ok".into() }
    } else {
        format!("dead after a bad line: {}", c.tally.json())
    }
}

/// Node-based clients give their children socket pairs instead of pipes.
async fn socket_stdio(ctx: &Ctx) -> String {
    let mut target = ctx.target.clone();
    if let Target::Stdio { pipes, .. } = &mut target {
        *pipes = Pipes::Socket;
    }
    let log = format!("{}/{}-probe-socket.err", ctx.logdir, ctx.peer);
    match open(&target, &log, Duration::from_secs(15)).await {
        Err(e) => clip(&e),
        Ok(mut c) => {
            c.tool = ctx.tool.clone();
            c.echo(&payload::text(200_000, 3), "", None, LIMIT).await;
            if c.tally.clean() { "ok".into() } else { c.tally.json().to_string() }
        }
    }
}

/// The answer to a call in flight must still come out when stdin closes.
async fn eof_flush(c: &mut Client) -> String {
    c.echo("warm", "", None, LIMIT).await;
    let body = c.call_body(99, "late", ",\"delay_ms\":400");
    let _ = c.link.send(body).await;
    c.link.close_stdin();
    match c.answer("99", Instant::now() + Duration::from_secs(5)).await {
        Ok(_) => match c.close_and_wait(Duration::from_secs(5)).await {
            Some(_) => "ok".into(),
            None => "answered, but does not exit within 5 s of stdin EOF".into(),
        },
        Err(e) => format!("answer lost at stdin EOF: {e}"),
    }
}

/// A failing call must be answered with an error, and the next call must work.
async fn fault_probe(c: &mut Client, fault: &str) -> String {
    c.echo("warm", "", None, LIMIT).await;
    let params = format!("{{\"name\":\"{}\",\"arguments\":{{\"text\":\"x\",\"fault\":\"{fault}\"}}}}", c.tool);
    let t0 = Instant::now();
    let first = match c.request("501", "tools/call", &params, LIMIT).await {
        Ok((_, raw)) => {
            let m = msg::parse(&raw);
            match m.as_ref().map(|m| (m.error.is_some(), m.result.map(msg::result_text))) {
                Some((true, _)) | Some((_, Some(Err(_)))) => "error answer".to_string(),
                _ => format!("odd answer {}", clip(&String::from_utf8_lossy(&raw))),
            }
        }
        Err(e) if e == "no answer in time" => "HANG: no answer in 8 s".to_string(),
        Err(e) => format!("no answer ({})", clip(&e)),
    };
    let took = t0.elapsed();
    c.tally = Default::default();
    c.echo(&payload::text(200, 5), "", None, Duration::from_secs(5)).await;
    let then = if c.tally.ok == 1 {
        "works".to_string()
    } else if c.closed {
        "process gone".into()
    } else {
        format!("broken: {}", c.tally.samples.first().cloned().unwrap_or_default())
    };
    if first == "error answer" && then == "works" {
        return "ok".into();
    }
    format!("{first} after {:.1} s; next call {then}", took.as_secs_f64())
}

/// Nothing listens upstream: answer initialize with an error or exit, soon.
async fn upstream_down(ctx: &Ctx) -> String {
    let mut target = ctx.target.clone();
    let (Target::Stdio { upstream, .. } | Target::Http { upstream, .. }) = &mut target else { return "ok".into() };
    let Some(path) = upstream.rsplit('/').next() else { return "ok".into() };
    *upstream = format!("http://127.0.0.1:21998/{path}");
    if matches!(target, Target::Http { cmd: None, .. }) {
        return "ok".into();
    }
    let t0 = Instant::now();
    let log = format!("{}/{}-probe-down.err", ctx.logdir, ctx.peer);
    let r = open(&target, &log, Duration::from_secs(12)).await;
    let took = t0.elapsed().as_secs_f64();
    match r {
        Ok(mut c) => {
            // pretending to be up is fine if calls are then answered with an error
            let r = c.request("1", "tools/call", "{\"name\":\"echo\",\"arguments\":{}}", Duration::from_secs(5)).await;
            match r {
                Ok((_, raw)) => format!("initialize answered in {took:.1} s without upstream; call: {}", clip(&String::from_utf8_lossy(&raw))),
                Err(e) => format!("initialize answered in {took:.1} s without upstream; call: {}", clip(&e)),
            }
        }
        Err(e) if e.contains("no answer in time") => format!("HANG: initialize unanswered and process alive after {took:.0} s"),
        Err(e) if ["initialize refused", "stdout closed", "Broken pipe"].iter().any(|end| e.contains(end)) => "ok".into(),
        Err(e) => format!("{} ({took:.1} s)", clip(&e)),
    }
}
