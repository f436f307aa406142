//! A host for `mcp-engine.wasm`: a client on stdio, a server behind HTTP. The
//! engine is granted nothing; what it wants done is done here. Copy it as the
//! start of a host of your own: `embed-rust mcp-engine.wasm URL`.

#![expect(clippy::print_stderr, reason = "notes go to stderr")]

mod bindings {
    wasmtime::component::bindgen!({ path: "../../wit", world: "engine" });
}
mod http;

use bindings::exports::mcp::proxy::machine::{Config, Input, Output, Side, Sink, Source};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Result, Store};

/// The most that one read of stdin takes.
const READ: usize = 64 << 10;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::too_many_lines, reason = "the whole loop is read at once")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, url] = arguments.as_slice() else { wasmtime::bail!("usage: embed-rust mcp-engine.wasm URL") };
    let wasmtime = Engine::default();
    let component = Component::from_file(&wasmtime, path)?;
    let mut store = Store::new(&wasmtime, ());
    // The linker is empty: the engine imports nothing.
    let engine = bindings::Engine::instantiate(&mut store, &component, &Linker::new(&wasmtime))?;
    let machine = engine.mcp_proxy_machine();
    let config = Config { notes: true, ..machine.call_defaults(&mut store, url)?? };
    let start = Instant::now();
    let now = || u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let seed = UNIX_EPOCH.elapsed()?.subsec_nanos().into();
    let this = machine.proxy().call_create(&mut store, &config, seed, now())??;
    let machine = machine.proxy();

    let client = http::client()?;
    // Tasks, each for the next news of one call; how to stop them; and the
    // responses that nobody reads until the machine wants them.
    let (mut news, mut awaited, mut resting) = (JoinSet::new(), BTreeMap::new(), BTreeMap::new());
    let (lines, queue) = unbounded_channel();
    let (report, mut written) = unbounded_channel();
    let writer = tokio::spawn(write(queue, report));
    let (mut stdin, mut buffer) = (tokio::io::stdin(), Vec::with_capacity(READ));

    'host: loop {
        // Start whatever the machine asks for; wait for none of it.
        for output in machine.call_poll(&mut store, this)? {
            match output {
                Output::Write((Side::Client, bytes)) => lines.send(bytes)?,
                Output::Call(request) => {
                    awaited.insert(request.call, news.spawn(http::start(client.clone(), request)));
                }
                Output::Cancel(id) => {
                    resting.remove(&id);
                    awaited.remove(&id).inspect(tokio::task::AbortHandle::abort);
                }
                Output::Note(note) => eprintln!("{}: {}", note.tag, note.text),
                Output::Exit(_) => break 'host,
                // The session ends with this process.
                Output::Snapshot(_) => {}
                // A client on stdio has no exchanges.
                Output::Respond(_) | Output::Send(_) | Output::Finish(_) | Output::Abort(_) => {}
            }
        }
        // Read what is wanted, and nothing else: this is the backpressure.
        for (id, body) in std::mem::take(&mut resting) {
            if machine.call_wants(&mut store, this, Source::Call(id))? {
                awaited.insert(id, news.spawn(http::read(id, body)));
            } else {
                resting.insert(id, body);
            }
        }
        let listen = machine.call_wants(&mut store, this, Source::Side(Side::Client))?;
        let deadline = machine.call_deadline(&mut store, this)?;
        let left = Duration::from_millis(deadline.as_ref().map_or(0, |deadline| deadline.at.saturating_sub(now())));
        // The one place that waits.
        let facts = tokio::select! {
            read = stdin.read_buf(&mut buffer), if listen => match read {
                Ok(0) | Err(_) => vec![Input::Eof(Side::Client)],
                Ok(_) => vec![Input::Bytes((Side::Client, std::mem::replace(&mut buffer, Vec::with_capacity(READ))))],
            },
            Some(result) = written.recv() => match result {
                Ok(count) => vec![Input::Flushed((Sink::Side(Side::Client), count))],
                Err(_) => vec![Input::Shutdown],
            },
            Some(joined) = news.join_next() => match joined {
                Ok((id, facts, body)) if awaited.remove(&id).is_some() => {
                    resting.extend(body.map(|body| (id, body)));
                    facts
                }
                Ok(_) | Err(_) => continue, // Nothing is said of a call after its cancel.
            },
            () = tokio::time::sleep(left), if deadline.is_some() => vec![Input::Tick],
        };
        for fact in facts {
            machine.call_handle(&mut store, this, now(), &fact)?;
        }
    }
    drop(lines); // The writer ends with the last of them.
    tokio::time::timeout(Duration::from_secs(5), writer).await.ok();
    std::process::exit(0) // A thread may still wait for stdin.
}

/// Writes to the client and tells how much has left.
async fn write(mut lines: UnboundedReceiver<Vec<u8>>, report: UnboundedSender<io::Result<u64>>) {
    let mut stdout = tokio::io::stdout();
    while let Some(bytes) = lines.recv().await {
        let result = async {
            stdout.write_all(&bytes).await?;
            stdout.flush().await
        };
        report.send(result.await.map(|()| bytes.len() as u64)).ok();
    }
}
