//! The Worker on a real workerd, in front of the mock's HTTP+SSE: calls in one
//! session, and sessions that are opened, used once and closed with DELETE.
//! workerd runs with its inspector, which tells what of its memory is live.
use super::gauge::Gauge;
use super::inspector::Inspector;
use super::page::Report;
use super::server::Server;
use super::{Task, STALL};
use crate::client::{self, Client, Tally, Target};
use crate::http1::Url;
use std::cell::Cell;
use std::net::TcpListener;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::sleep;

const IN_FLIGHT: usize = 16;
const START: Duration = Duration::from_secs(30);
const TEXT: usize = 200;
/// After so many sessions the soak rests and collects garbage, so that closed
/// Durable Objects do not pile up. Otherwise memory would show how fast sessions
/// come and how late V8 collects, and WebAssembly memory would keep that size.
const BATCH: u64 = 500;
/// workerd drops a Durable Object after ten seconds without a request.
const REST: Duration = Duration::from_secs(11);

pub async fn calls(task: &Task<'_>) -> Result<Report, String> {
    let server = Server::start().await?;
    let (mut client, _, inspector) = start(task, &server).await?;
    let in_flight = task.setup.inflight.unwrap_or(IN_FLIGHT);
    let mut gauge = Gauge::start(task, client.sid(), &server);
    for number in 0..10 {
        client.window(task.tenth(number), in_flight as u64, TEXT, "", task.setup.limit / 10).await;
        gauge.read_live(client.tally.ok, inspector.live().await?);
        if !client.tally.clean() {
            break;
        }
    }
    let what = format!("`tools/call` of {TEXT} bytes in one session, {in_flight} in flight.");
    Ok(Report::new(task, &what).gauge(task, &gauge).judge(books(&client.tally, task.units)))
}

pub async fn sessions(task: &Task<'_>) -> Result<Report, String> {
    let server = Server::start().await?;
    let (client, url, inspector) = start(task, &server).await?;
    let in_flight = task.setup.inflight.unwrap_or(IN_FLIGHT);
    let mut gauge = Gauge::start(task, client.sid(), &server);
    let (mut done, mut tally) = (0, Tally::default());
    for number in 0..10 {
        let end = done + task.tenth(number);
        while done < end && tally.clean() {
            let batch = BATCH.min(end - done);
            tally.merge(&open_and_close(&url, batch, in_flight).await);
            done += batch;
            sleep(REST).await;
            inspector.live().await?; // collects garbage
        }
        gauge.read_live(done, inspector.live().await?);
        if !tally.clean() {
            break;
        }
    }
    let left = server.falls_to("sessions_live", 1, STALL).await;
    let what = format!("opened, used for one call and closed with DELETE, {in_flight} at once; one other stays open.");
    let report = Report::new(task, &what).gauge(task, &gauge).judge(books(&tally, task.units));
    Ok(report.judge(left.map(|()| "the server has no session left but the one that is open".into())))
}

/// Starts workerd with its inspector, and opens a session.
async fn start(task: &Task<'_>, server: &Server) -> Result<(Client, Url, Inspector), String> {
    let [http, inspector] = free_addresses().map_err(|e| e.to_string())?;
    let folder = &task.setup.worker;
    let url = Url { host: http.clone(), path: "/mcp".into() };
    let inspector = Inspector { host: inspector, page: Url { host: http.clone(), path: "/health".into() } };
    let command = [
        "env".into(),
        "UPSTREAM_URL={URL}".into(),
        folder.join("workerd").display().to_string(),
        "serve".into(),
        folder.join("config.capnp").display().to_string(),
        format!("--socket-addr=http={http}"),
        "--directory-path=storage={TMP}".into(),
        format!("--inspector-addr={}", inspector.host),
    ];
    let target = Target::Http { url: url.clone(), cmd: Some(command.to_vec()), upstream: server.url("/sse") };
    let client = client::open(&target, &task.setup.log(task.name), START).await?;
    Ok((client, url, inspector))
}

fn free_addresses() -> std::io::Result<[String; 2]> {
    let taken = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    Ok([taken[0].local_addr()?.to_string(), taken[1].local_addr()?.to_string()])
}

/// So many sessions, so many of them at once.
async fn open_and_close(url: &Url, sessions: u64, in_flight: usize) -> Tally {
    let unopened = Rc::new(Cell::new(sessions));
    let visitors: Vec<_> = (0..in_flight).map(|_| spawn_local(visitor(url.clone(), unopened.clone()))).collect();
    let mut tally = Tally::default();
    for visitor in visitors {
        match visitor.await {
            Ok(own) => tally.merge(&own),
            Err(error) => fail(&mut tally, error.to_string()),
        }
    }
    tally
}

/// Visits as long as there is something left to visit, and nothing is wrong.
async fn visitor(url: Url, unopened: Rc<Cell<u64>>) -> Tally {
    let mut tally = Tally::default();
    while unopened.get() > 0 && tally.clean() {
        unopened.set(unopened.get() - 1);
        match visit(&url, unopened.get()).await {
            Ok(own) => tally.merge(&own),
            Err(why) => fail(&mut tally, why),
        }
    }
    tally
}

async fn visit(url: &Url, number: u64) -> Result<Tally, String> {
    let mut client = client::open_session(url, STALL).await?;
    client.echo(&crate::payload::text(TEXT, number), "", None, STALL).await;
    match client.link.finish().await {
        Some(200..=204) => Ok(client.tally.clone()),
        status => Err(format!("DELETE: {status:?}")),
    }
}

fn fail(tally: &mut Tally, why: String) {
    tally.fails += 1;
    tally.note(why);
}

fn books(tally: &Tally, wanted: u64) -> Result<String, String> {
    match tally.clean() && tally.ok == wanted {
        true => Ok(format!("{} calls answered, each once and right", tally.ok)),
        false => Err(tally.json().to_string()),
    }
}
