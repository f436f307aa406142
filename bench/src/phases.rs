//! The measurements. Every phase starts a fresh proxy, so that one crash or
//! memory peak does not colour the next phase; proxied and direct blocks are
//! interleaved inside a phase, so that both see the same machine noise.
use crate::client::{self, open, Client, Target, Tally};
use crate::http1::Url;
use crate::procs::{self, Usage};
use crate::stats::{percentile, r, summary};
use crate::{link, msg, payload};
use serde_json::{json, Value};
use std::time::{Duration, Instant};
use tokio::time::sleep;

pub struct Ctx {
    pub peer: String,
    pub target: Target,
    pub direct: Target,
    pub ctl: Url,
    pub logdir: String,
    pub tool: String,
    pub n: u64,
    pub starts: u64,
    pub inflight: u64,
    pub budget: Duration, // per measured block
    pub notes: u64,       // progress notifications before one result
    pub idle_secs: u64,
    pub bigs: u64, // 16 MB calls
    pub sessions: Vec<usize>,
}

const OPEN: Duration = Duration::from_secs(45);

impl Ctx {
    pub async fn open(&self, phase: &str) -> Result<Client, String> {
        let log = format!("{}/{}-{phase}.err", self.logdir, self.peer);
        let mut c = open(&self.target, &log, OPEN).await?;
        c.tool = self.tool.clone();
        Ok(c)
    }
    pub async fn open_direct(&self) -> Result<Client, String> {
        open(&self.direct, "/dev/null", OPEN).await
    }
}

/// CPU spent by the tree between two readings, in microseconds.
fn cpu(a: &Usage, b: &Usage) -> u64 {
    b.cpu_us.saturating_sub(a.cpu_us)
}

fn p(v: &Value, k: &str) -> f64 {
    v[k].as_f64().unwrap_or(f64::NAN)
}

pub async fn run(ctx: &Ctx, phase: &str) -> Value {
    let t0 = Instant::now();
    let done = match phase {
        "startup" => startup(ctx).await,
        "latency_json" => latency(ctx, phase, ",\"reply\":\"json\"").await,
        "latency_sse" => latency(ctx, phase, ",\"reply\":\"sse\"").await,
        "throughput_json" => throughput(ctx, phase, ",\"reply\":\"json\"", COLD).await,
        "throughput_sse" => throughput(ctx, phase, ",\"reply\":\"sse\"", COLD).await,
        "throughput_warm" => throughput(ctx, phase, ",\"reply\":\"json\"", WARM).await,
        "parallel" => parallel(ctx).await,
        "tools_list" => tools_list(ctx).await,
        "big1" => big(ctx, phase, 1 << 20, 10, true).await,
        "big16" => big(ctx, phase, 16 << 20, ctx.bigs, true).await,
        "down16" => big(ctx, phase, 16 << 20, ctx.bigs, false).await,
        "progress" => progress(ctx).await,
        "idle" => idle(ctx).await,
        "sessions" => sessions(ctx).await,
        "probes" => Ok(crate::probes::run(ctx).await),
        other => Err(format!("no such phase: {other}")),
    };
    let mut v = match done {
        Ok(v) => v,
        Err(e) => json!({"failed": e}),
    };
    v["phase"] = phase.into();
    v["peer"] = ctx.peer.clone().into();
    v["took_s"] = r(t0.elapsed().as_secs_f64()).into();
    v
}

/// Spawn → initialize response; next to it `true` (spawn → exit) and a direct handshake.
async fn startup(ctx: &Ctx) -> Result<Value, String> {
    let (mut up, mut up_us, mut truth, mut direct, mut exits) = (vec![], vec![], vec![], vec![], vec![]);
    let mut first_call = vec![];
    let mut stuck = 0;
    let mut upstream = Value::Null;
    let mut usage = Usage::default();
    let mut tally = Tally::default();
    for _ in 0..ctx.starts {
        let t0 = Instant::now();
        let mut p = link::spawn(&["/bin/true".into()], "/dev/null", link::Pipes::None).map_err(|e| e.to_string())?;
        let _ = p.child.wait().await;
        truth.push(t0.elapsed());
        drop(p);
        direct.push(ctx.open_direct().await?.startup);
        sleep(Duration::from_millis(50)).await;
        client::mock_reset(&ctx.ctl).await;
        let mut c = ctx.open("startup").await?;
        up.push(c.startup);
        if let Some(d) = c.echo("first", "", None, Duration::from_secs(20)).await {
            first_call.push(d);
        }
        usage = procs::usage(c.sid());
        up_us.push(usage.cpu_us);
        match c.close_and_wait(Duration::from_secs(5)).await {
            Some(d) => exits.push(d),
            None => stuck += 1,
        }
        tally.merge(&c.tally);
        drop(c);
        sleep(Duration::from_millis(100)).await;
        upstream = client::mock_stats(&ctx.ctl).await;
    }
    up_us.sort();
    Ok(json!({
        "startup_us": summary(&up), "true_us": summary(&truth), "direct_us": summary(&direct), "first_call_us": summary(&first_call),
        "startup_cpu_ms": up_us.get(up_us.len() / 2).map(|u| u / 1000), "usage": usage.json(),
        "exit_us": summary(&exits), "did_not_exit": stuck, "upstream": upstream, "tally": tally.json(),
    }))
}

/// Sequential small calls, proxied and direct in alternating blocks.
async fn latency(ctx: &Ctx, phase: &str, extra: &str) -> Result<Value, String> {
    let mut c = ctx.open(phase).await?;
    let mut d = ctx.open_direct().await?;
    let limit = Duration::from_secs(10);
    let first = c.echo(&payload::text(200, 0), extra, None, limit).await;
    let text = payload::text(200, 1);
    let warm_until = Instant::now() + ctx.budget / 4;
    for _ in 0..100 {
        if Instant::now() > warm_until || c.closed {
            break;
        }
        c.echo(&text, extra, None, limit).await;
        d.echo(&text, extra, None, limit).await;
    }
    let (mut prox, mut dir) = (vec![], vec![]);
    let mut spent = 0;
    let end = Instant::now() + ctx.budget;
    let block = 20.min(ctx.n).max(1);
    'all: for b in 0..ctx.n / block {
        if Instant::now() > end || c.closed || c.tally.lost > 3 {
            break 'all;
        }
        let u0 = procs::usage(c.sid());
        for i in 0..block {
            let text = payload::text(200, b * block + i + 10);
            prox.extend(c.echo(&text, extra, None, limit).await);
        }
        spent += cpu(&u0, &procs::usage(c.sid()));
        for i in 0..block {
            let text = payload::text(200, b * block + i + 10);
            dir.extend(d.echo(&text, extra, None, limit).await);
        }
    }
    let (ps, ds) = (summary(&prox), summary(&dir));
    let usage = procs::usage(c.sid());
    Ok(json!({
        "proxy_us": ps, "direct_us": ds, "first_call_us": first.map(|f| r(f.as_secs_f64() * 1e6)),
        "added_p50_us": r(p(&ps, "p50") - p(&ds, "p50")), "added_p90_us": r(p(&ps, "p90") - p(&ds, "p90")), "added_p99_us": r(p(&ps, "p99") - p(&ds, "p99")),
        "ratio_p50": r(p(&ps, "p50") / p(&ds, "p50")), "cpu_us_per_call": spent / (prox.len().max(1) as u64),
        "usage": usage.json(), "tally": c.tally.json(), "direct_tally": d.tally.json(),
    }))
}

/// So many calls, or so long, before throughput is measured: enough to have all connections open, or
/// enough for a compiler that works while the program runs to have compiled what is run often.
const COLD: (u64, Duration) = (200, Duration::from_secs(2));
const WARM: (u64, Duration) = (6000, Duration::from_secs(10));

/// Calls per second with a constant number in flight.
async fn throughput(ctx: &Ctx, phase: &str, extra: &str, warm_up: (u64, Duration)) -> Result<Value, String> {
    let mut c = ctx.open(phase).await?;
    let mut d = ctx.open_direct().await?;
    let (count, limit) = warm_up;
    c.window(count, ctx.inflight, 200, extra, limit).await;
    d.window(COLD.0, ctx.inflight, 200, extra, COLD.1).await;
    let (mut rates, mut dir, mut lats) = (vec![], vec![], vec![]);
    let (mut spent, mut calls) = (0, 0);
    for _ in 0..3 {
        if c.closed || c.tally.lost > 0 {
            break; // hung or gone: no rate to measure
        }
        let u0 = procs::usage(c.sid());
        let (lat, took) = c.window(ctx.n * 2, ctx.inflight, 200, extra, ctx.budget / 4).await;
        spent += cpu(&u0, &procs::usage(c.sid()));
        calls += lat.len() as u64;
        rates.push(lat.len() as f64 / took.as_secs_f64());
        lats.extend(lat);
        let (lat, took) = d.window(ctx.n * 2, ctx.inflight, 200, extra, ctx.budget / 4).await;
        dir.push(lat.len() as f64 / took.as_secs_f64());
    }
    rates.sort_by(|a, b| a.total_cmp(b));
    dir.sort_by(|a, b| a.total_cmp(b));
    Ok(json!({
        "per_s": r(percentile(&rates, 50.0)), "per_s_max": r(percentile(&rates, 100.0)), "direct_per_s": r(percentile(&dir, 50.0)),
        "ratio": r(percentile(&rates, 50.0) / percentile(&dir, 50.0) * 100.0) / 100.0, "lat_us": summary(&lats),
        "cpu_us_per_call": spent / calls.max(1), "usage": procs::usage(c.sid()).json(), "tally": c.tally.json(), "direct_tally": d.tally.json(),
    }))
}

/// 64 calls that take 100 ms each upstream: a proxy that serialises needs 6.4 s.
async fn parallel(ctx: &Ctx) -> Result<Value, String> {
    let mut c = ctx.open("parallel").await?;
    c.window(64, 64, 200, "", Duration::from_secs(5)).await;
    let (lat, took) = c.window(64, 64, 200, ",\"delay_ms\":100", Duration::from_secs(20)).await;
    Ok(json!({"wall_ms": r(took.as_secs_f64() * 1e3), "ideal_ms": 100, "lat_us": summary(&lat), "tally": c.tally.json()}))
}

/// A 69-tool, ~200 KB list, 30 times.
async fn tools_list(ctx: &Ctx) -> Result<Value, String> {
    let mut c = ctx.open("tools_list").await?;
    let mut d = ctx.open_direct().await?;
    let limit = Duration::from_secs(10);
    let (mut prox, mut dir) = (vec![], vec![]);
    let (mut bytes, mut bytes_direct, mut tools) = (0, 0, 0);
    let mut problems: Vec<String> = vec![];
    let end = Instant::now() + ctx.budget;
    let mut same = true;
    for i in 0..30u64 {
        if Instant::now() > end || c.closed {
            break;
        }
        let id = (10_000 + i).to_string();
        let (lat, want) = d.request(&id, "tools/list", "{}", limit).await?;
        dir.push(lat);
        bytes_direct = want.len();
        match c.request(&id, "tools/list", "{}", limit).await {
            Ok((lat, got)) => {
                prox.push(lat);
                bytes = got.len();
                if i == 0 {
                    let (a, b): (Value, Value) = (serde_json::from_slice(&want).unwrap_or_default(), serde_json::from_slice(&got).unwrap_or_default());
                    tools = b["result"]["tools"].as_array().map_or(0, |t| t.len());
                    same = a["result"] == b["result"];
                }
            }
            Err(e) => problems.push(e),
        }
    }
    problems.truncate(4);
    if tools == 0 {
        return Err(format!("no tool list came through; {problems:?}"));
    }
    let (ps, ds) = (summary(&prox), summary(&dir));
    Ok(json!({"proxy_us": ps, "direct_us": ds, "added_p50_us": r(p(&ps, "p50") - p(&ds, "p50")), "added_p99_us": r(p(&ps, "p99") - p(&ds, "p99")),
              "bytes": bytes, "bytes_direct": bytes_direct, "tools": tools, "same": same, "problems": problems, "usage": procs::usage(c.sid()).json()}))
}

/// Big echo (both directions) or big download, MB/s of payload.
async fn big(ctx: &Ctx, phase: &str, size: usize, times: u64, up: bool) -> Result<Value, String> {
    let mut c = ctx.open(phase).await?;
    let mut d = ctx.open_direct().await?;
    c.echo("warm", "", None, Duration::from_secs(10)).await;
    let limit = (ctx.budget * 5).max(Duration::from_secs(30));
    let (mut prox, mut dir) = (vec![], vec![]);
    let u0 = procs::usage(c.sid());
    let made = payload::text(size, size as u64);
    let ask = format!(",\"size\":{size}");
    let end = Instant::now() + Duration::from_secs(90);
    for i in 0..times {
        if c.closed || c.tally.lost > 0 || Instant::now() > end {
            break; // gone or hung: no rate to measure
        }
        let (text, extra) = if up { (payload::text(size, i), "") } else { ("x".to_string(), ask.as_str()) };
        let expect = if up { None } else { Some(made.as_str()) };
        let before = c.tally.ok;
        if let Some(t) = c.echo(&text, extra, expect, limit).await {
            if c.tally.ok > before {
                prox.push(t);
            }
        }
        if let Some(t) = d.echo(&text, extra, expect, limit).await {
            dir.push(t);
        }
    }
    let u1 = procs::usage(c.sid());
    let rate = |v: &[Duration]| {
        let mut s: Vec<f64> = v.iter().map(|t| size as f64 / 1e6 / t.as_secs_f64()).collect();
        s.sort_by(|a, b| a.total_cmp(b));
        r(percentile(&s, 50.0))
    };
    // Is the proxy still useful afterwards?
    let after = match c.closed {
        true => "process gone".to_string(),
        false => {
            let before = c.tally.clone();
            c.echo("after", "", None, Duration::from_secs(10)).await;
            let ok = c.tally.ok > before.ok;
            c.tally = before;
            if ok { "ok".into() } else { "broken".to_string() }
        }
    };
    Ok(json!({"size": size, "mb_per_s": rate(&prox), "direct_mb_per_s": rate(&dir), "proxy_us": summary(&prox), "direct_us": summary(&dir),
              "cpu_ms_per_call": cpu(&u0, &u1) / 1000 / times.max(1), "usage": u1.json(), "after": after, "tally": c.tally.json(), "direct_tally": d.tally.json()}))
}

/// One call that is preceded by `n` progress notifications.
async fn progress_once(c: &mut Client, id: u64, n: u64, limit: Duration) -> Result<Value, String> {
    c.notes.clear();
    let tool = c.tool.clone();
    let params = format!("{{\"name\":\"{tool}\",\"arguments\":{{\"text\":\"done\",\"reply\":\"sse\",\"progress\":{n}}},\"_meta\":{{\"progressToken\":\"tok-{id}\"}}}}");
    let (took, raw) = c.request(&id.to_string(), "tools/call", &params, limit).await?;
    let before_result = c.notes.len() as u64;
    let answered = msg::parse(&raw).is_some_and(|m| m.result.is_some());
    if before_result < n {
        c.linger(Duration::from_millis(700)).await;
    }
    let (mut in_order, mut token_ok, mut last) = (true, true, 0);
    for (_, note) in &c.notes {
        let v: Value = serde_json::from_slice(note).unwrap_or_default();
        let k = v["params"]["progress"].as_f64().unwrap_or(-1.0) as i64;
        in_order &= k > last;
        last = k;
        token_ok &= v["params"]["progressToken"] == format!("tok-{id}");
    }
    // the clock stops when the last of (result, notifications) arrived
    Ok(json!({"took_us": r(took.as_secs_f64() * 1e6), "per_s": r(n as f64 / took.as_secs_f64()), "received": c.notes.len(), "late": c.notes.len() as u64 - before_result,
              "in_order": in_order, "token_ok": token_ok, "answered": answered}))
}

async fn progress(ctx: &Ctx) -> Result<Value, String> {
    let n = ctx.notes.max(1);
    let mut c = ctx.open("progress").await?;
    let mut d = ctx.open_direct().await?;
    c.echo("warm", "", None, Duration::from_secs(10)).await;
    let (mut prox, mut dir) = (vec![], vec![]);
    let u0 = procs::usage(c.sid());
    for i in 0..3 {
        if c.closed {
            break;
        }
        match progress_once(&mut c, 20_000 + i, n, ctx.budget.max(Duration::from_secs(30))).await {
            Ok(v) => prox.push(v),
            Err(e) => prox.push(json!({"failed": e, "received": c.notes.len()})),
        }
        dir.push(progress_once(&mut d, 20_000 + i, n, ctx.budget).await?);
    }
    let u1 = procs::usage(c.sid());
    let best = |v: &[Value]| {
        let mut s: Vec<f64> = v.iter().filter_map(|x| x["per_s"].as_f64()).collect();
        s.sort_by(|a, b| a.total_cmp(b));
        percentile(&s, 50.0)
    };
    let received: Vec<u64> = prox.iter().filter_map(|x| x["received"].as_u64()).collect();
    let complete = received.len() == 3 && received.iter().all(|r| *r == n) && prox.iter().all(|x| x["in_order"] == true && x["late"] == 0 && x["token_ok"] == true);
    let shape = json!({"complete": complete, "received": received, "late": prox.iter().map(|x| x["late"].clone()).collect::<Vec<_>>(),
                       "in_order": prox.iter().all(|x| x["in_order"] == true), "failed": prox.iter().filter_map(|x| x.get("failed")).collect::<Vec<_>>()});
    Ok(json!({"n": n, "per_s": best(&prox), "direct_per_s": best(&dir), "shape": shape, "cpu_us_per_note": (cpu(&u0, &u1) as f64 / (3 * n) as f64 * 100.0).round() / 100.0, "usage": u1.json(), "tally": c.tally.json()}))
}

/// Memory and CPU of a proxy that has nothing to do.
async fn idle(ctx: &Ctx) -> Result<Value, String> {
    let mut c = ctx.open("idle").await?;
    c.echo("one", "", None, Duration::from_secs(10)).await;
    sleep(Duration::from_secs(2)).await;
    let u0 = procs::usage(c.sid());
    let secs = ctx.idle_secs.max(1);
    sleep(Duration::from_secs(secs)).await;
    let u1 = procs::usage(c.sid());
    Ok(json!({"usage": u1.json(), "idle_cpu_us_per_s": cpu(&u0, &u1) / secs}))
}

fn mem_available_mb() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.lines().find_map(|l| l.strip_prefix("MemAvailable:")).and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Many concurrent sessions on one HTTP front.
async fn sessions(ctx: &Ctx) -> Result<Value, String> {
    let Target::Http { url, .. } = &ctx.target else { return Err("only for HTTP targets".into()) };
    let first = ctx.open("sessions").await?;
    let sid = first.sid();
    let mut rows = vec![];
    for &count in &ctx.sessions {
        if mem_available_mb() < 3000 {
            rows.push(json!({"sessions": count, "failed": "stopped: less than 3 GB of memory left"}));
            break;
        }
        client::mock_reset(&ctx.ctl).await;
        let live0 = client::mock_stats(&ctx.ctl).await["streams_live"].as_i64().unwrap_or(0);
        let base = procs::usage(sid);
        let t0 = Instant::now();
        let mut tasks = vec![];
        for _ in 0..count {
            let (url, tool) = (url.clone(), ctx.tool.clone());
            tasks.push(tokio::task::spawn_local(async move {
                let t = Instant::now();
                let mut c = open_with_retry(&url, Duration::from_secs(40)).await?;
                c.tool = tool;
                Ok::<_, String>((t.elapsed(), c))
            }));
        }
        let (mut clients, mut opened, mut errors) = (vec![], vec![], vec![]);
        for t in tasks {
            match t.await {
                Ok(Ok((d, c))) => {
                    opened.push(d);
                    clients.push(c);
                }
                Ok(Err(e)) => errors.push(e),
                Err(e) => errors.push(e.to_string()),
            }
        }
        let open_s = t0.elapsed().as_secs_f64();
        let with = procs::usage(sid);
        let t1 = Instant::now();
        let mut tasks = vec![];
        let per = 20;
        for (k, mut c) in clients.into_iter().enumerate() {
            tasks.push(tokio::task::spawn_local(async move {
                let mut lat = vec![];
                let end = Instant::now() + Duration::from_secs(30);
                for i in 0..per {
                    if Instant::now() > end || c.closed || c.tally.lost > 2 {
                        break;
                    }
                    // unique text per session and call: an answer of another session is "corrupt"
                    let text = payload::text(200, (k * 1000 + i) as u64);
                    lat.extend(c.echo(&text, "", None, Duration::from_secs(15)).await);
                }
                (c, lat)
            }));
        }
        let (mut lat, mut tally, mut done) = (vec![], Tally::default(), vec![]);
        for t in tasks {
            if let Ok((c, l)) = t.await {
                lat.extend(l);
                tally.merge(&c.tally);
                done.push(c);
            }
        }
        let call_s = t1.elapsed().as_secs_f64();
        let after = procs::usage(sid);
        let mut deletes = std::collections::BTreeMap::new();
        for c in &mut done {
            *deletes.entry(format!("{:?}", c.link.finish().await)).or_insert(0) += 1;
        }
        drop(done);
        sleep(Duration::from_secs(3)).await;
        let freed = procs::usage(sid);
        let st = client::mock_stats(&ctx.ctl).await;
        rows.push(json!({
            "sessions": count, "opened": opened.len(), "open_us": summary(&opened), "open_s": r(open_s), "open_errors": errors.len(),
            "open_error": errors.first().map(|e| e.chars().take(200).collect::<String>()),
            "calls": lat.len(), "calls_per_s": r(lat.len() as f64 / call_s), "lat_us": summary(&lat), "tally": tally.json(),
            "base": base.json(), "with": with.json(), "after_calls": after.json(), "after_delete": freed.json(),
            "kb_per_session": (with.rss_kb as i64 - base.rss_kb as i64) / count as i64,
            "deletes": deletes, "upstream_streams_left": st["streams_live"].as_i64().unwrap_or(0) - live0,
            "upstream_connections": st["connections"],
        }));
        if opened.len() * 2 < count {
            break;
        }
    }
    drop(first);
    Ok(json!({"rows": rows}))
}

/// Connections may be refused for a moment when many sessions start at once.
async fn open_with_retry(url: &Url, limit: Duration) -> Result<Client, String> {
    let end = Instant::now() + limit;
    loop {
        match client::open_session(url, end.saturating_duration_since(Instant::now())).await {
            Ok(c) => return Ok(c),
            Err(e) if Instant::now() > end => return Err(e),
            Err(e) if e.contains("refused") || e.contains("reset") => sleep(Duration::from_millis(50)).await,
            Err(e) => return Err(e),
        }
    }
}
