//! A client of Streamable HTTP: every message is an exchange of its own, and an
//! answer comes on the response to it. A stream whose connection is lost goes on
//! in the response to a later GET. The client reads everything that is sent to
//! it; what it has *taken*, it tells the machine when the script says so. Modern
//! clients have no session, and each response stands for itself.

use super::super::message::{Line, MODERN, Method, answer_to, error_to, text, watches};
use super::super::record::{Command, Fact};
use super::books::is_refusal;
use super::{Act, Books, Client};
use ::http::{HeaderValue, Request, request, response};
use bytes::Bytes;
use mcp_proxy_core::{ExchangeId, HttpTransport, Sink};
use serde_json::Value;
use std::collections::BTreeMap;

pub const SESSION: &str = "0123456789abcdef";
const EVENTS: &str = "text/event-stream";

/// Small limits, so that runs reach them.
pub fn transport() -> HttpTransport {
    HttpTransport {
        most_open: 8,
        queue_bytes: 800,
        replay_events: 4,
        replay_bytes: 1000,
        ..HttpTransport::new(HeaderValue::from_static(SESSION))
    }
}

#[derive(Debug, Default)]
pub struct HttpClient {
    books: Books,
    exchanges: BTreeMap<u64, Exchange>,
    said: usize,
    last: u64,
    /// It has been told the name of its session.
    named: bool,
    /// The machine is over, and takes no more exchanges.
    exited: bool,
    /// Every request says what it needs, in the form of 2026-07-28.
    modern: bool,
}

#[derive(Debug)]
struct Exchange {
    /// What was posted.
    posted: String,
    /// The exchange whose stream this one asks for.
    resumes: Option<u64>,
    response: Response,
    /// The last event that the client has seen of its stream.
    last_event: Option<String>,
    /// Bytes that the client has not taken.
    unread: usize,
}

/// How far the response has come.
#[derive(Debug, PartialEq, Eq)]
enum Response {
    Awaited,
    /// A status and a body.
    Whole(u16, Vec<u8>),
    Events,
    /// It is complete, with this status.
    Over(u16),
    /// Its connection is lost.
    Lost,
}

impl Exchange {
    fn live(&self) -> bool {
        matches!(self.response, Response::Awaited | Response::Whole(..) | Response::Events)
    }

    fn forgettable(&self) -> bool {
        !self.live() && self.unread == 0 && self.last_event.is_none()
    }

    fn may_resume(&self) -> bool {
        self.last_event.is_some() && matches!(self.response, Response::Events | Response::Lost)
    }
}

impl Client for HttpClient {
    fn act(&mut self, act: &Act) -> Option<Fact> {
        match act {
            // What lasts has no end to wait for.
            Act::Say(Line::Watch(_)) if !self.modern => None,
            Act::Say(line) => {
                self.said += 1;
                let line = self.in_its_form(line);
                Some(self.say(&text(&line, self.said)))
            }
            Act::Retry(which, id, twist) => {
                let text = self.books.repeat(*which, *id, *twist)?;
                Some(self.say(&text))
            }
            Act::Close if self.modern => Some(Fact::Stop),
            Act::Listen => Some(self.request("GET", None, "")),
            Act::Lose(which) => {
                let id = self.nth(*which, |exchange| exchange.live() || exchange.unread > 0)?;
                Some(Fact::Gone(ExchangeId(id)))
            }
            Act::Resume(which) => {
                let id = self.nth(*which, Exchange::may_resume)?;
                self.resume(id)
            }
            Act::Read(which) => {
                let id = self.nth(*which, |exchange| exchange.unread > 0)?;
                self.take(id)
            }
            Act::Answer(able) => {
                let id = self.books.question()?;
                Some(self.say(&if *able { answer_to(&id) } else { error_to(&id) }))
            }
            Act::Close => self.named.then(|| self.request("DELETE", None, "")),
        }
    }

    fn say(&mut self, text: &str) -> Fact {
        self.request("POST", None, text)
    }

    fn attend(&mut self) -> Option<Fact> {
        if self.exited {
            return None;
        }
        let lost = |exchange: &Exchange| exchange.response == Response::Lost && exchange.may_resume();
        if let Some(id) = self.nth(0, lost) {
            return self.resume(id);
        }
        if let Some(id) = self.books.question() {
            return Some(self.say(&answer_to(&id)));
        }
        self.nth(0, |exchange| exchange.unread > 0).and_then(|id| self.take(id))
    }

    fn told(&mut self, fact: &Fact) {
        match fact {
            Fact::Request(id, parts, body) if !self.exited => {
                let last = parts.headers.get("last-event-id").map(|last| last.to_str().unwrap());
                self.asked(id.0, last, &String::from_utf8_lossy(body));
            }
            Fact::Gone(id) => self.lost(id.0),
            Fact::Flushed(Sink::Exchange(id), count) => {
                let exchange = self.exchanges.get_mut(&id.0);
                exchange.into_iter().for_each(|exchange| exchange.unread = exchange.unread.saturating_sub(*count));
            }
            _ => {}
        }
    }

    fn heard(&mut self, command: &Command) {
        match command {
            Command::Respond(id, parts) => self.responded(id.0, parts),
            Command::Send(id, bytes) => self.sent(id.0, bytes),
            Command::Finish(id) => self.finished(id.0),
            Command::Abort(id) if self.is_live(id.0) || self.is_unread(id.0) => self.lost(id.0),
            Command::Abort(_) | Command::Write(_) => self.books.complain(format!("to an HTTP client: {command:?}")),
            Command::Exit => self.exited = true,
            Command::Call(..) | Command::Cancel(_) | Command::Snapshot | Command::Note(_) => {}
        }
    }

    fn settled(&mut self, fact: &Fact) {
        let Fact::Request(id, ..) = fact else { return };
        if let Some(exchange) = self.exchanges.get(&id.0)
            && exchange.response == Response::Over(202)
            // The ids of a modern client mean nothing in another exchange.
            && !self.modern
        {
            self.books.read(&exchange.posted);
        }
        self.exchanges.retain(|_, exchange| !exchange.forgettable());
    }

    fn books(&self) -> &Books {
        &self.books
    }
}

/// What the client does.
impl HttpClient {
    pub fn modern() -> Self {
        Self { modern: true, ..Self::default() }
    }

    /// The same request in the era of the client; now and then one of the other.
    fn in_its_form(&self, line: &Line) -> Line {
        match line {
            Line::Initialize(id) if self.modern => Line::Modern(*id, Method::Discover),
            Line::Request(id, method) if self.modern => Line::Modern(*id, *method),
            Line::Modern(id, _) if !self.modern && self.said == 1 => Line::Initialize(*id),
            Line::Modern(id, method) if !self.modern && !self.said.is_multiple_of(4) => Line::Request(*id, *method),
            other => other.clone(),
        }
    }

    /// What a modern client repeats of the body in headers.
    fn headers_for(&self, request: request::Builder, body: &str) -> request::Builder {
        if !self.modern {
            return request;
        }
        let message = serde_json::from_str::<Value>(body).unwrap_or_default();
        let request = request.header("mcp-protocol-version", MODERN);
        match message["method"].as_str() {
            Some(method) => request.header("mcp-method", method),
            None => request,
        }
    }

    fn nth(&self, which: usize, fits: impl Fn(&Exchange) -> bool) -> Option<u64> {
        let fitting: Vec<u64> =
            self.exchanges.iter().filter(|(_, exchange)| fits(exchange)).map(|(id, _)| *id).collect();
        fitting.get(which.checked_rem(fitting.len())?).copied()
    }

    fn request(&mut self, method: &str, last_event: Option<&str>, body: &str) -> Fact {
        self.last += 1;
        let accept = if method == "GET" { EVENTS } else { "application/json, text/event-stream" };
        let request = Request::builder().method(method).uri("/mcp").header("accept", accept);
        let mut request = request.header("content-type", "application/json");
        if self.named {
            request = request.header("mcp-session-id", SESSION);
        }
        request = self.headers_for(request, body);
        if let Some(last) = last_event {
            request = request.header("last-event-id", last);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        Fact::Request(ExchangeId(self.last), Box::new(parts), Bytes::copy_from_slice(body.as_bytes()))
    }

    fn resume(&mut self, id: u64) -> Option<Fact> {
        let last = self.exchanges.get(&id)?.last_event.clone();
        Some(self.request("GET", last.as_deref(), ""))
    }

    fn take(&self, id: u64) -> Option<Fact> {
        let unread = self.exchanges.get(&id)?.unread;
        Some(Fact::Flushed(Sink::Exchange(ExchangeId(id)), unread))
    }
}

/// What happens to its exchanges.
impl HttpClient {
    fn asked(&mut self, id: u64, last_event: Option<&str>, posted: &str) {
        let of_stream = |exchange: &Exchange| last_event.is_some() && exchange.last_event.as_deref() == last_event;
        let resumes = self.exchanges.iter().rev().find(|(_, exchange)| of_stream(exchange)).map(|(id, _)| *id);
        let posted = posted.to_owned();
        if !posted.is_empty() {
            if !watches(posted.as_bytes()) {
                self.books.opened(id);
            }
            self.books.requested(id, &posted);
        }
        let response = Response::Awaited;
        self.exchanges.insert(id, Exchange { posted, resumes, response, last_event: None, unread: 0 });
    }

    fn responded(&mut self, id: u64, parts: &response::Parts) {
        let status = parts.status.as_u16();
        let Some(exchange) = self.exchanges.get_mut(&id).filter(|known| known.response == Response::Awaited) else {
            return self.books.complain(format!("a response of {status} that {id} does not wait for"));
        };
        self.named |= parts.headers.contains_key("mcp-session-id");
        let streams = parts.headers.get("content-type").is_some_and(|kind| kind == EVENTS);
        exchange.response = if streams { Response::Events } else { Response::Whole(status, Vec::new()) };
        if let Some(old) = exchange.resumes {
            self.resumed(old, id, status);
        }
    }

    /// The machine has decided about the rest of a stream.
    fn resumed(&mut self, old: u64, new: u64, status: u16) {
        match status {
            200 => {
                self.books.resume(old, new);
                let last = self.exchanges.get_mut(&old).and_then(|old| old.last_event.take());
                self.exchanges.entry(new).and_modify(|new| new.last_event = last);
            }
            204 => {
                self.books.nothing_left(old);
                self.exchanges.entry(old).and_modify(|old| old.last_event = None);
            }
            _ => {
                self.books.forgive(old);
                self.exchanges.entry(old).and_modify(|old| old.last_event = None);
            }
        }
    }

    fn sent(&mut self, id: u64, bytes: &Bytes) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return self.books.complain(format!("to nobody, {id}: {text}"));
        };
        exchange.unread += bytes.len();
        match &mut exchange.response {
            Response::Whole(_, body) => body.extend_from_slice(bytes),
            Response::Events => self.events(id, &text),
            Response::Awaited | Response::Over(_) | Response::Lost => {
                self.books.complain(format!("no response of {id} to send this on: {text}"));
            }
        }
    }

    /// The machine sends whole events.
    fn events(&mut self, id: u64, text: &str) {
        let Some(events) = text.strip_suffix("\n\n") else {
            return self.books.complain(format!("not whole events on {id}: {text:?}"));
        };
        for event in events.split("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            if let (Some(last), Some(exchange)) = (field("id: "), self.exchanges.get_mut(&id)) {
                exchange.last_event = Some(last.to_owned());
            }
            if let Some(message) = field("data: ").filter(|data| !data.is_empty()) {
                self.books.got(id, message);
            }
        }
    }

    fn finished(&mut self, id: u64) {
        let response = self.exchanges.get_mut(&id).map(|known| std::mem::replace(&mut known.response, Response::Lost));
        let status = match response {
            Some(Response::Whole(status @ (202 | 204), body)) if body.is_empty() => status,
            Some(Response::Whole(200, body)) => {
                self.books.got(id, &String::from_utf8_lossy(&body));
                200
            }
            Some(Response::Whole(status @ 400.., body)) if is_refusal(&String::from_utf8_lossy(&body)) => {
                if self.modern && names_request(&body) {
                    self.books.got(id, &String::from_utf8_lossy(&body));
                }
                self.books.forgive(id);
                status
            }
            Some(Response::Events) => 200,
            other => return self.books.complain(format!("{id} cannot end like this: {other:?}")),
        };
        self.books.ended(id);
        self.exchanges.entry(id).and_modify(|exchange| {
            exchange.response = Response::Over(status);
            exchange.last_event = None;
        });
    }

    fn lost(&mut self, id: u64) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        exchange.unread = 0;
        if !exchange.live() {
            return;
        }
        exchange.response = Response::Lost;
        // Nobody can come back to a stream of which it has seen nothing.
        if exchange.last_event.is_some() { self.books.park(id) } else { self.books.forgive(id) }
    }

    fn is_live(&self, id: u64) -> bool {
        self.exchanges.get(&id).is_some_and(Exchange::live)
    }

    fn is_unread(&self, id: u64) -> bool {
        self.exchanges.get(&id).is_some_and(|exchange| exchange.unread > 0)
    }
}

/// An error that answers a request, whatever the status.
fn names_request(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|body| body.get("id").is_some())
}
