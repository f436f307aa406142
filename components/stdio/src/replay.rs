//! `replay`: feeds a recording from stdin to a machine, and prints each fact and the
//! machine's outputs, one per line. It makes no calls and never waits: the recording has
//! the times. The core handles the facts; this module only prints.

use crate::log::Level;
use http::HeaderMap;
use mcp_proxy_core::record::{Reader, Start};
use mcp_proxy_core::{Exit, Input, Note, Output, Proxy, Side, Sink, Time};
use mcp_proxy_words::{escaped, shown, words};
use std::io::{self, BufRead, BufWriter, Write};

/// How many characters of a body to show, unless the level is `All`.
const SHORT: usize = 160;
/// The headers to show, unless the level is `All`.
const TELLING: [&str; 6] =
    ["content-type", "last-event-id", "location", "mcp-protocol-version", "mcp-session-id", "retry-after"];

/// Why a replay ended early.
enum Stop {
    /// The reader cannot parse the recording.
    Unreadable(String),
    /// Nobody reads the output.
    Unread,
}

/// Replays the recording on stdin.
///
/// # Errors
/// If the recording is unreadable, with the reason; everything before that is printed.
pub(crate) fn run(level: Level) -> Result<(), String> {
    let out = BufWriter::new(io::stdout().lock());
    match play(io::stdin().lock(), Printer { out, level, zero: Time(0) }) {
        Ok(()) | Err(Stop::Unread) => Ok(()),
        Err(Stop::Unreadable(reason)) => Err(reason),
    }
}

fn play(input: impl BufRead, mut printer: Printer<impl Write>) -> Result<(), Stop> {
    let mut lines = input.lines().zip(1_u64..).map(|(line, count)| {
        // Add the line number, which the line iterator does not know.
        line.map_err(|error| Stop::Unreadable(format!("line {count}: {error}")))
    });
    let first = lines.next().transpose()?.unwrap_or_default();
    let (mut reader, start) = Reader::start(&first).map_err(|error| Stop::Unreadable(error.to_string()))?;
    printer.start(&start)?;
    let mut proxy = start.machine();
    for line in lines {
        let (at, fact) = reader.next(&line?).map_err(|error| Stop::Unreadable(error.to_string()))?;
        printer.told(at, &fact.input())?;
        proxy.handle(at, fact.input());
        while let Some(output) = proxy.poll() {
            printer.said(at, &output)?;
        }
    }
    printer.end(&proxy)
}

/// Prints facts and commands.
struct Printer<W: Write> {
    out: W,
    level: Level,
    zero: Time,
}

impl<W: Write> Printer<W> {
    fn start(&mut self, start: &Start) -> Result<(), Stop> {
        self.zero = start.now;
        let text = format!("a run of mcp-proxy {}, replayed by {}", shown(&start.version), env!("CARGO_PKG_VERSION"));
        self.line(start.now, "", &text)
    }

    fn told(&mut self, at: Time, input: &Input<'_>) -> Result<(), Stop> {
        let text = match input {
            Input::Tick => "tick".to_owned(),
            Input::Bytes(Side::Client, bytes) => format!("client: {}", self.body(bytes)),
            Input::Eof(Side::Client) => "client: end of input".to_owned(),
            Input::Request(exchange, parts, body) => {
                let (method, headers) = (&parts.method, self.headers(&parts.headers));
                format!("client {}: {method}{headers} {}", exchange.0, self.body(body))
            }
            Input::Gone(exchange) => format!("client {}: gone", exchange.0),
            Input::Head(call, parts) => format!("#{} {}{}", call.0, parts.status, self.headers(&parts.headers)),
            Input::Chunk(call, bytes) => format!("#{} body: {}", call.0, self.body(bytes)),
            Input::End(call) => format!("#{} end of the response", call.0),
            Input::Failed(call, error, "") => format!("#{} failed: {error}", call.0),
            Input::Failed(call, error, words) => format!("#{} failed: {error}: {}", call.0, shown(words)),
            Input::Flushed(Sink::Side(Side::Client), count) => format!("client: took {count} bytes"),
            Input::Flushed(Sink::Call(call), count) => format!("#{} sent {count} bytes", call.0),
            Input::Flushed(Sink::Exchange(exchange), count) => format!("client {}: took {count} bytes", exchange.0),
            Input::Waiting("") => "the host still waits".to_owned(),
            Input::Waiting(why) => format!("the host is {why}"),
            Input::Stop => "told to stop".to_owned(),
            Input::Shutdown => "client: gone".to_owned(),
        };
        self.line(at, "->", &text)
    }

    fn said(&mut self, at: Time, output: &Output) -> Result<(), Stop> {
        let text = match output {
            // The output already shows the call itself and its head.
            Output::Note(Note::Exchange(_)) if self.level != Level::All => return Ok(()),
            Output::Write(Side::Client, bytes) => format!("client: {}", self.body(bytes)),
            Output::Call(call, request) => {
                let (method, headers) = (request.method(), self.headers(request.headers()));
                let uri = shown(&request.uri().to_string());
                format!("#{} {method} {uri}{headers} {}", call.0, self.body(request.body()))
            }
            Output::Cancel(call) => format!("#{} cancel", call.0),
            Output::Respond(exchange, parts) => {
                format!("client {}: {}{}", exchange.0, parts.status, self.headers(&parts.headers))
            }
            Output::Send(exchange, bytes) => format!("client {}: {}", exchange.0, self.body(bytes)),
            Output::Finish(exchange) => format!("client {}: end of the response", exchange.0),
            Output::Abort(exchange) => format!("client {}: broken off", exchange.0),
            // It says nothing that the messages do not.
            Output::Snapshot(_) => return Ok(()),
            Output::Note(note) => {
                let (tag, text) = words(note);
                format!("[{tag}] {text}")
            }
            Output::Exit(Exit::Drained) => "exit: everything is answered".to_owned(),
            Output::Exit(Exit::Stopped) => "exit: the client is gone".to_owned(),
        };
        self.line(at, "  <-", text.trim_end())
    }

    /// Prints what the machine waits for when the recording is over.
    fn end(&mut self, proxy: &Proxy) -> Result<(), Stop> {
        if let Some(deadline) = proxy.deadline() {
            self.line(deadline.at, "", &format!("here the machine would act next: {:?}", deadline.why))?;
        }
        self.out.flush().map_err(|_| Stop::Unread)
    }

    fn line(&mut self, at: Time, arrow: &str, text: &str) -> Result<(), Stop> {
        let since = at.since(self.zero);
        let (seconds, millis) = (since.as_secs(), since.subsec_millis());
        writeln!(self.out, "{seconds:>5}.{millis:03} {arrow:<4} {text}").map_err(|_| Stop::Unread)
    }

    /// Bytes on one line, with control characters escaped.
    fn body(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let most = if self.level == Level::All { usize::MAX } else { SHORT };
        let shown: String = text.trim_end().chars().take(most).flat_map(escaped).collect();
        match text.trim_end().chars().nth(most) {
            Some(_) => format!("{shown}… ({} bytes)", bytes.len()),
            None => shown,
        }
    }

    fn headers(&self, headers: &HeaderMap) -> String {
        let told = headers.iter().filter(|(name, _)| self.level == Level::All || TELLING.contains(&name.as_str()));
        let told: Vec<_> =
            told.map(|(name, value)| format!("{name}: {}", shown(value.to_str().unwrap_or("…")))).collect();
        if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
    }
}
