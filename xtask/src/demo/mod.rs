//! `cargo xtask demo`: the main use on one page. An embedded server on loopback, a
//! scripted stdio client, a quickly built `mcp-proxy` between them, and a transcript of
//! all messages. Exits with 0 only if every answer arrived.

mod client;
mod server;
mod tools;

use crate::{build, step};
use anyhow::Result;
pub(crate) use server::Server;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The speaker of a line in the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Client,
    Proxy,
    Server,
    Log,
}

/// Records lines with their time.
#[derive(Clone)]
pub(crate) struct Transcript {
    start: Instant,
    lines: Sender<(Duration, Who, String)>,
}

impl Transcript {
    /// A transcript, and the thread that prints it until all writers are gone.
    pub(crate) fn start() -> (Self, JoinHandle<()>) {
        let (lines, printed) = channel();
        let printer = std::thread::spawn(move || printed.iter().for_each(print));
        (Self { start: Instant::now(), lines }, printer)
    }

    pub(crate) fn add(&self, who: Who, text: impl Into<String>) {
        // The printer outlives all writers.
        self.lines.send((self.start.elapsed(), who, text.into())).ok();
    }
}

pub(crate) fn run() -> Result<()> {
    step::say("build what the demo runs, quickly; the first time takes about four minutes on two cores");
    let program = build::quick()?;
    step::say("demo: stdio client ⇄ mcp-proxy ⇄ Streamable HTTP server");
    let (transcript, printer) = Transcript::start();
    let server = Server::start(transcript.clone())?;
    let played = client::play(&program, &server, &transcript);
    server.stop();
    drop((server, transcript));
    printer.join().ok();
    let summary = played?;
    step::say(&summary);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the transcript is the point")]
fn print((at, who, text): (Duration, Who, String)) {
    let arrow = match who {
        Who::Client => "\x1b[36mclient ▶ proxy          \x1b[0m",
        Who::Proxy => "\x1b[32mclient ◀ proxy          \x1b[0m",
        Who::Server => "\x1b[33m         proxy ⇄ server \x1b[0m",
        Who::Log => "\x1b[90m         proxy's log    \x1b[0m",
    };
    println!("{:>8.1} ms  {arrow} {}", at.as_secs_f64() * 1e3, clip(&text));
}

fn clip(text: &str) -> String {
    let short: String = text.chars().take(150).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
