//! `refusals`: where the response to a first message leads, held against a second
//! telling of the table in plain JSON: to the event stream of HTTP+SSE, or to an
//! answer. The first byte says what was asked, the second the status; the rest is
//! the body. Whatever it is, the client gets one answer.

use http::{Method, Response};
use mcp_proxy_core::{CallId, Config, Era, Input, Output, Proxy, Side, Sink, Time};
use serde::de::IgnoredAny;
use serde_json::Value;

const ASKED: [&str; 2] = [
    r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#,
];

const STATUSES: [u16; 24] = [
    200, 202, 204, 299, 300, 301, 307, 400, 401, 402, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 501, 502,
    503,
];

/// Longer ones are not read to their end.
const LONGEST: usize = 2000;
/// After so many ticks there is an answer.
const MOST_TICKS: usize = 100;

pub(crate) fn refusals(data: &[u8]) {
    let [asked, status, body @ ..] = data else { return };
    let handshake = asked % 2 == 0;
    let status = STATUSES[usize::from(*status) % STATUSES.len()];
    let Some(body) = plain(body).filter(|body| body.len() <= LONGEST) else { return };
    let led = Visit::default().play(ASKED[usize::from(asked % 2)], status, &body);
    assert_eq!(led, leads_to_stream(handshake, status, &body), "{status} {}", String::from_utf8_lossy(&body));
}

/// JSON without tricks, such as a name that stands twice, or no JSON at all.
fn plain(body: &[u8]) -> Option<Vec<u8>> {
    match (serde_json::from_slice::<Value>(body), serde_json::from_slice::<IgnoredAny>(body)) {
        (Ok(value), _) => Some(value.to_string().into_bytes()),
        (Err(_), Err(_)) if !body.starts_with(b"\xEF\xBB\xBF") => Some(body.to_vec()),
        (Err(_), _) => None,
    }
}

fn leads_to_stream(handshake: bool, status: u16, body: &[u8]) -> bool {
    let answer = serde_json::from_slice(body).ok().filter(is_answer);
    match status {
        404 | 405 => true,
        400 => answer.is_none_or(|answer| handshake && speaks_for_nobody(&answer)),
        406 | 415 | 501 => answer.is_none(),
        200..=299 => handshake && body.iter().all(u8::is_ascii_whitespace),
        _ => false,
    }
}

fn is_answer(value: &Value) -> bool {
    let Some(members) = value.as_object() else { return false };
    let null = |name| members.get(name).is_none_or(Value::is_null);
    match members.get("error").filter(|error| !error.is_null()) {
        _ if !null("method") => false,
        Some(error) => error["code"].is_i64() && error["message"].is_string(),
        None => members.contains_key("result"),
    }
}

/// An error for any bad request, that names none.
fn speaks_for_nobody(answer: &Value) -> bool {
    let (code, message) = (&answer["error"]["code"], answer["error"]["message"].as_str().unwrap_or_default());
    let general = code.as_i64().is_some_and(|code| [-32600, -32001, -32000].contains(&code));
    let identified = answer["id"].is_string() || answer["id"].is_number();
    general && !identified && !message.to_lowercase().contains("protocol version")
}

/// One request, and what is made of it.
#[derive(Default)]
struct Visit {
    calls: Vec<(CallId, Method)>,
    /// A GET was made.
    led: bool,
    answers: usize,
}

impl Visit {
    /// Every POST gets this response, and every GET is refused.
    fn play(mut self, asked: &str, status: u16, body: &[u8]) -> bool {
        let mut config = Config::new("http://server.test/mcp").unwrap();
        config.era = Era::Legacy;
        let mut proxy = Proxy::new(&config, 1, Time(0));
        self.tell(&mut proxy, 0, Input::Bytes(Side::Client, format!("{asked}\n").as_bytes()));
        let mut now = 0;
        for _ in 0..MOST_TICKS {
            while let Some((call, method)) = self.calls.pop() {
                self.respond(&mut proxy, now, call, if method == Method::POST { (status, body) } else { (500, b"") });
            }
            let Some(deadline) = proxy.deadline().filter(|_| self.answers == 0) else { break };
            now = deadline.at.0.max(now);
            self.tell(&mut proxy, now, Input::Tick);
        }
        assert_eq!(self.answers, 1, "{status}");
        self.led
    }

    fn respond(&mut self, proxy: &mut Proxy, now: u64, call: CallId, (status, body): (u16, &[u8])) {
        let response = Response::builder().status(status).header("content-type", "application/json");
        self.tell(proxy, now, Input::Head(call, response.body(()).unwrap().into_parts().0));
        if !body.is_empty() {
            self.tell(proxy, now, Input::Chunk(call, body));
        }
        self.tell(proxy, now, Input::End(call));
    }

    fn tell(&mut self, proxy: &mut Proxy, now: u64, input: Input<'_>) {
        proxy.handle(Time(now), input);
        while let Some(output) = proxy.poll() {
            #[expect(clippy::wildcard_enum_match_arm, reason = "notes, and what only clients of HTTP are told")]
            match output {
                Output::Write(side, line) => {
                    self.answers += usize::from(serde_json::from_slice::<Value>(&line).unwrap()["id"] == 7);
                    proxy.handle(Time(now), Input::Flushed(Sink::Side(side), line.len()));
                }
                Output::Call(call, request) => {
                    // What listens in a session that is open asks nothing.
                    self.led |= request.method() == Method::GET && self.answers == 0;
                    self.calls.push((call, request.method().clone()));
                }
                Output::Cancel(call) => self.calls.retain(|(known, _)| *known != call),
                _ => {}
            }
        }
    }
}
