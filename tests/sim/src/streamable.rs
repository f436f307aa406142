//! The server as a Streamable HTTP server: sessions by header, answers as a body or on an
//! event stream, a listening stream, and resumption. The work behind the answers is in
//! `labour`.

use crate::habit::{GONE, Gone, Unknown};
use crate::ledger::number;
use crate::server::{Effect, Frame, PAGE, Server, header};
use crate::stream::{Asked, Form, Stream, Work, event};
use bytes::Bytes;
use http::{Method, Request};
use mcp_proxy_core::CallId;
use serde_json::{Value, json};

const EVENTS: (&str, &str) = ("content-type", "text/event-stream");

impl Server {
    pub(crate) fn streamable(&mut self, call: CallId, request: &Request<Bytes>, message: &Value) {
        let session = header(request, "mcp-session-id");
        if *request.method() == Method::DELETE {
            self.sessions.remove(&session);
            let status = self.dice.pick(&[200, 204, 405], 200);
            return self.reply(call, status, "");
        }
        if *request.method() == Method::GET {
            return self.listen(call, &session, &header(request, "last-event-id"));
        }
        if message.is_object() {
            self.message(call, &session, message);
        } else {
            self.ledger.complain(format!("not one message: {:?}", request.body()));
        }
        self.look_at_headers(request, &session);
    }

    fn look_at_headers(&mut self, request: &Request<Bytes>, session: &str) {
        let accept = header(request, "accept");
        if !accept.contains("application/json") || !accept.contains("text/event-stream") {
            self.ledger.complain(format!("accept: {accept}"));
        }
        let body = String::from_utf8_lossy(request.body());
        let bare = session.is_empty() && header(request, "mcp-protocol-version").is_empty();
        if body.contains("\"initialize\"") && !bare {
            self.ledger.complain(format!("initialize in a session: {:?}", request.headers()));
        }
    }

    /// Refuses the message if its session is unknown. Returns `true` if so.
    fn refuses(&mut self, call: CallId, session: &str, message: &Value) -> bool {
        if !self.habits.sessions {
            return false;
        }
        self.maybe_forget();
        if self.sessions.contains(session) {
            return false;
        }
        self.ledger.refuse(call);
        let body = self.refusal(message, GONE);
        match (session, self.habits.gone) {
            ("", _) => self.reply(call, 400, &body),
            (_, Gone::Status(status)) => self.reply(call, status, &body),
            (_, Gone::Answered) => self.reply(call, 200, &body),
        }
        true
    }

    fn message(&mut self, call: CallId, session: &str, message: &Value) {
        let method = message.get("method").and_then(Value::as_str);
        if method == Some("initialize") {
            return self.initialize(call, message);
        }
        if method == Some("server/discover") && self.habits.unknown != Unknown::Sessionless {
            return self.refuse_discover(call, message);
        }
        if self.refuses(call, session, message) {
            return;
        }
        match (method, message.get("id")) {
            (Some(_), Some(id)) => {
                self.ledger.done(call, message);
                let asked = Asked { id: id.clone(), n: number(message), asks: None };
                let stream = Stream::answering(asked, session, &self.habits, &mut self.dice);
                self.open(stream, call);
            }
            (_, _) => {
                self.told(message);
                let status = self.dice.pick(&[202, 202, 204, 200], 202);
                self.reply(call, status, if status == 200 { "{\"result\":{}}" } else { "" });
            }
        }
    }

    fn refuse_discover(&mut self, call: CallId, message: &Value) {
        let id = message.get("id").unwrap_or(&Value::Null);
        match self.habits.unknown {
            Unknown::Sessionless => {}
            Unknown::Page(status) => self.reply(call, status, PAGE),
            Unknown::Empty => self.reply(call, 200, &json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string()),
            Unknown::Error(status) => {
                let error = json!({"code": -32601, "message": "Method not found"});
                self.reply(call, status, &json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
            }
        }
    }

    fn initialize(&mut self, call: CallId, message: &Value) {
        self.ledger.done(call, message);
        let id = message.get("id").unwrap_or(&Value::Null);
        let (n, session) = (number(message), format!("s{}", self.new_number()));
        let number = self.ledger.make(id, n);
        let (version, able) = (self.habits.version, self.habits.capabilities());
        let result = json!({"n": n, "r": number, "protocolVersion": version, "capabilities": able});
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let events = self.dice.chance(self.habits.streams);
        let kind = if events { EVENTS.1 } else { "application/json" };
        let mut headers = vec![("content-type", kind.to_owned())];
        if self.habits.sessions {
            self.sessions.insert(session.clone());
            headers.push(("mcp-session-id", session));
        }
        let body = if events { event(None, &body, &mut self.dice) } else { body.into_bytes() };
        self.head(call, 200, headers);
        self.finish(call, body);
    }

    pub(crate) fn open_events(&mut self, call: CallId) {
        self.head(call, 200, vec![(EVENTS.0, EVENTS.1.to_owned())]);
    }

    pub(crate) fn open(&mut self, mut stream: Stream, call: CallId) {
        stream.reader = Some(call);
        let (key, form) = (self.new_number(), stream.form);
        self.streams.insert(key, stream);
        if form != Form::Body {
            self.open_events(call);
        }
        if form == Form::Resumable {
            self.say(key, String::new());
        }
        self.effects.push(Effect::Wake(key, 1));
    }

    /// A GET, which opens the listening stream or resumes a stream.
    fn listen(&mut self, call: CallId, session: &str, last: &str) {
        if self.refuses(call, session, &Value::Null) {
            return;
        }
        if let Some((key, position)) = last.split_once('/') {
            return self.resume(call, session, key.parse().unwrap_or(0), position.parse().unwrap_or(0));
        }
        if !self.habits.listens {
            return self.reply(call, 405, "");
        }
        let taken = |stream: &Stream| stream.listens() && stream.session == session && stream.reader.is_some();
        if self.habits.single && self.streams.values().any(taken) {
            return self.reply(call, 409, "");
        }
        let stream = Stream::listening(session, &self.habits, &mut self.dice);
        self.open(stream, call);
    }

    fn resume(&mut self, call: CallId, session: &str, key: u64, position: usize) {
        let known = self.streams.get_mut(&key).filter(|stream| stream.session == session);
        let Some(stream) = known else { return self.reply(call, 400, "") };
        if self.dice.chance(self.habits.empty) {
            self.open_events(call);
            return self.finish(call, Vec::new());
        }
        let again = usize::from(!self.dice.chance(20));
        stream.reader = Some(call);
        let closes = self.habits.closes.filter(|_| stream.listens());
        if let Some(pause) = closes {
            stream.work.extend([Work::Pause(pause), Work::Hangup]);
            self.effects.push(Effect::Wake(key, 1));
        }
        let missed: Vec<(usize, String)> = stream.said.iter().cloned().enumerate().skip(position + again).collect();
        let over = stream.over;
        self.open_events(call);
        for (position, data) in missed {
            self.ledger.tell(&data);
            let bytes = event(Some(&format!("{key}/{position}")), &data, &mut self.dice);
            self.effects.push(Effect::Send(call, Frame::Chunk(bytes)));
        }
        if over {
            self.effects.push(Effect::Send(call, Frame::End));
        } else if closes.is_some() {
            self.say(key, String::new());
        }
    }
}
