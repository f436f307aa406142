//! The text of the core's notes for people, the same in every shell. Each shell decides
//! which notes to show, and where.

mod throttle;

pub use throttle::{Throttle, counted};

use mcp_proxy_core::wire::message::{Fault, Id};
use mcp_proxy_core::wire::text::steers;
use mcp_proxy_core::{Blame, Exchange, Note, Outcome, Transport};
use std::time::Duration;

/// The tag and the text of a note.
#[must_use]
pub fn words(note: &Note) -> (&'static str, String) {
    let own = |text: &str| text.to_owned();
    match note {
        Note::BadLine(fault) => ("STDIN", format!("ignored a line: {}", fault_words(*fault))),
        Note::BadMembers { from, count } => (batch_tag(*from), batch_words(*count)),
        Note::StrayAnswer => ("CLIENT", own("the client answered a request that is not open")),
        Note::InitializeCancelled => ("CLIENT", own("initialize cannot be cancelled; ignored")),
        Note::Exchange(exchange) => ("HTTP", exchange_words(exchange)),
        Note::CallRepeated { wait, cause: Some(cause) } => ("HTTP", format!("{cause}: next try in {}", ms(*wait))),
        Note::CallRepeated { wait, cause: None } => ("HTTP", format!("the server is busy; next try in {}", ms(*wait))),
        Note::Undelivered { status: Some(status) } => {
            ("HTTP", format!("the server refused a message that needs no answer: {status}"))
        }
        Note::Undelivered { status: None } => ("HTTP", own("could not deliver a message that needs no answer")),
        Note::SessionOpened { transport, version } => {
            let version = version.as_deref().map_or_else(|| "not named".to_owned(), shown);
            ("INIT", format!("{}, protocol {version}", transport_words(*transport)))
        }
        Note::ToolDropped { name, why } => ("SERVER", format!("hid the tool {}: {why}", shown(name))),
        Note::SseTried(Some(status)) => ("INIT", format!("POST was refused ({status}); trying HTTP+SSE")),
        Note::SseTried(None) => ("INIT", own("POST was refused; trying HTTP+SSE")),
        Note::StreamOpened => ("SSE", own("the event stream named its endpoint")),
        Note::SecondEndpoint => ("SSE", own("ignored a second endpoint")),
        Note::StreamLost => ("SSE", own("the event stream ended, and the session with it")),
        Note::SessionLost => ("SESSION", own("the server forgot the session; opening a new one")),
        Note::SessionRestored => ("SESSION", own("a new session is open")),
        Note::SessionNotRestored => ("SESSION", own("the server opened no new session")),
        Note::ListenRefused(Some(status)) => ("SSE", format!("no listening stream: {status}")),
        Note::ListenRefused(None) => ("SSE", own("no listening stream: not an event stream")),
        Note::ListenEnded(wait) => ("SSE", format!("the listening stream ended; again in {}", ms(*wait))),
        Note::StreamResumed(wait) => ("SSE", format!("a stream ended before its answer; resuming in {}", ms(*wait))),
        Note::BadMessage(fault) => ("SERVER", format!("the server sent no message: {}", fault_words(*fault))),
        Note::LateAnswer => ("SESSION", own("dropped an answer that nobody waits for")),
        Note::RepeatedAsk => ("SESSION", own("dropped a request that the server sent twice")),
        Note::AskDropped => {
            ("SERVER", own("dropped a request of the server: its id is too long, or too many wait for answers"))
        }
        Note::AskForbidden => ("SERVER", own("dropped a request of the server, which its revision does not allow")),
        Note::Unexpected(call) => ("BUG", format!("#{}: a fact about a call came out of turn", call.0)),
    }
}

/// Formats `POST /mcp tools/call 7: 200, 345 bytes in 12 ms (Streamable HTTP)`.
fn exchange_words(exchange: &Exchange) -> String {
    let Exchange { method, path, message, transport, status, outcome } = exchange;
    let id = |id: &Option<Id>| id.as_ref().map_or_else(String::new, |id| format!(" {}", shown(id.text())));
    let message = message.as_ref().map_or_else(String::new, |(method, of)| format!(" {}{}", shown(method), id(of)));
    let status = status.map_or_else(String::new, |status| format!("{}, ", status.as_u16()));
    let outcome = match outcome {
        Outcome::Listening => "listening".to_owned(),
        Outcome::Ended(bytes, took) => format!("{bytes} bytes in {}", ms(*took)),
        Outcome::Failed(error, took) => format!("{error}, after {}", ms(*took)),
        Outcome::Dropped(took) => format!("given up, after {}", ms(*took)),
    };
    format!("{method} {}{message}: {status}{outcome} ({})", shown(path), transport_words(*transport))
}

/// A peer's text, safe for a terminal and for one line: truncated, with control
/// characters escaped.
#[must_use]
pub fn shown(text: &str) -> String {
    const MOST: usize = 200;
    let mut out: String = text.chars().take(MOST).flat_map(escaped).collect();
    if text.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out
}

/// Escapes a character if it could control a terminal.
pub fn escaped(letter: char) -> impl Iterator<Item = char> {
    let (plain, escape) = if steers(letter) { (None, Some(letter.escape_default())) } else { (Some(letter), None) };
    plain.into_iter().chain(escape.into_iter().flatten())
}

fn batch_tag(from: Blame) -> &'static str {
    if from == Blame::Client { "CLIENT" } else { "SERVER" }
}

fn batch_words(count: Option<usize>) -> String {
    match count {
        Some(count) => format!("ignored {count} members of a batch: not JSON-RPC messages, or too many"),
        None => "a batch has too many members; the rest was not read".to_owned(),
    }
}

fn transport_words(transport: Transport) -> &'static str {
    match transport {
        Transport::Auto => "transport unknown",
        Transport::StreamableHttp => "Streamable HTTP",
        Transport::Sse => "HTTP+SSE",
    }
}

fn fault_words(fault: Fault) -> &'static str {
    match fault {
        Fault::Encoding => "not UTF-8",
        Fault::Syntax => "not valid JSON",
        Fault::Shape => "not a JSON-RPC message",
        Fault::EmptyBatch => "an empty batch",
        Fault::TooLong => "over the message limit",
    }
}

fn ms(wait: Duration) -> String {
    format!("{} ms", wait.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_wrote_cannot_steer_a_terminal_or_forge_a_line() {
        let version = Some("1\x1b[2J\n\x1e{}\u{202e}".to_owned());
        let (_, text) = words(&Note::SessionOpened { transport: Transport::Sse, version });
        assert_eq!(text, r"HTTP+SSE, protocol 1\u{1b}[2J\n\u{1e}{}\u{202e}");
        assert_eq!(shown(&"é".repeat(201)), format!("{}…", "é".repeat(200)));
    }
}
