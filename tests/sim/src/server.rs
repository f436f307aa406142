//! The simulated Streamable HTTP server: sessions, answers by body or by event
//! stream, questions to the client, resumption, and its own bad moods. It also
//! watches what it is sent, and counts how often it carried out what.

use crate::dice::Dice;
use crate::stream::{Form, Stream, event};
use crate::weather::Weather;
use bytes::Bytes;
use http::{Method, Request};
use mcp_proxy_core::CallId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) dice: Dice,
    pub(crate) weather: Weather,
    sessions: BTreeSet<String>,
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) issued: u64,
    /// How often each marked tool call was carried out.
    pub(crate) done: BTreeMap<u64, u32>,
    /// The marks of all requests that were carried out.
    pub(crate) seen: BTreeSet<u64>,
    /// Every message it ever said that is no answer.
    pub(crate) said: BTreeSet<String>,
    /// What it was sent and should not have been.
    pub(crate) complaints: Vec<String>,
    pub(crate) effects: Vec<Effect>,
    /// Bad moods left.
    pub(crate) faults: u64,
    pub(crate) moods: u64,
}

/// What follows from a request or from work.
#[derive(Debug)]
pub(crate) enum Effect {
    Send(CallId, Frame),
    /// Go on with this stream after so long.
    Wake(u64, u64),
}

/// A piece of a response.
#[derive(Debug, Clone)]
pub(crate) enum Frame {
    Head(u16, Vec<(&'static str, String)>),
    Chunk(Vec<u8>),
    End,
    Cut,
}

/// Responses of a bad mood; the body may be an error or a page.
const MOODS: [(u16, Option<(&str, &str)>); 12] = [
    (400, None),
    (401, None),
    (403, None),
    (405, None),
    (429, Some(("retry-after", "1"))),
    (429, None),
    (500, None),
    (502, None),
    (503, Some(("retry-after", "2"))),
    (503, None),
    (307, Some(("location", "/mcp/"))),
    (302, Some(("location", "https://elsewhere.test/"))),
];
const PAGE: &str = "<html>no</html>";
const REFUSAL: &str = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"},"id":null}"#;

impl Server {
    pub(crate) fn new(seed: u64, weather: Weather, faults: u64) -> Self {
        Self {
            dice: Dice::new(seed, 3),
            weather,
            sessions: BTreeSet::new(),
            streams: BTreeMap::new(),
            issued: 0,
            done: BTreeMap::new(),
            seen: BTreeSet::new(),
            said: BTreeSet::new(),
            complaints: Vec::new(),
            effects: Vec::new(),
            faults,
            moods: 0,
        }
    }

    /// A request arrived.
    pub(crate) fn receive(&mut self, call: CallId, request: &Request<Bytes>) {
        if self.faults > 0 && self.dice.chance(self.weather.harm / 3) {
            self.faults -= 1;
            self.moods += 1;
            return self.bad_mood(call, request);
        }
        let session = header(request, "mcp-session-id");
        if *request.method() == Method::DELETE {
            self.sessions.remove(&session);
            let status = self.dice.pick(&[200, 204, 405], 200);
            return self.reply(call, status, "");
        }
        if *request.method() == Method::GET {
            return self.listen(call, &session, &header(request, "last-event-id"));
        }
        match serde_json::from_slice::<Value>(request.body()) {
            Ok(message) if message.is_object() => self.message(call, &session, &message),
            Ok(_) | Err(_) => self.complain(format!("not one message: {:?}", request.body())),
        }
        self.look_at_headers(request, &session);
    }

    /// Nobody reads that exchange any more.
    pub(crate) fn gone(&mut self, call: CallId) {
        for stream in self.streams.values_mut().filter(|stream| stream.reader == Some(call)) {
            stream.reader = None;
        }
    }

    fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }

    fn look_at_headers(&mut self, request: &Request<Bytes>, session: &str) {
        let accept = header(request, "accept");
        if !accept.contains("application/json") || !accept.contains("text/event-stream") {
            self.complain(format!("accept: {accept}"));
        }
        let body = String::from_utf8_lossy(request.body());
        let bare = session.is_empty() && header(request, "mcp-protocol-version").is_empty();
        if body.contains("\"initialize\"") && !bare {
            self.complain(format!("initialize in a session: {:?}", request.headers()));
        }
    }

    fn bad_mood(&mut self, call: CallId, request: &Request<Bytes>) {
        let (status, extra) = self.dice.pick(&MOODS, (500, None));
        if matches!(status, 500 | 502) && self.dice.chance(50) {
            let message = serde_json::from_slice::<Value>(request.body()).unwrap_or_default();
            self.carry_out(&message);
        }
        let headers = extra.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.effects.push(Effect::Send(call, Frame::Head(status, headers)));
        let body = self.dice.pick(&["", PAGE, REFUSAL], "");
        self.effects.push(Effect::Send(call, Frame::Chunk(body.into())));
        self.effects.push(Effect::Send(call, Frame::End));
    }

    pub(crate) fn reply(&mut self, call: CallId, status: u16, body: &str) {
        self.effects
            .push(Effect::Send(call, Frame::Head(status, vec![("content-type", "application/json".to_owned())])));
        self.effects.push(Effect::Send(call, Frame::Chunk(body.into())));
        self.effects.push(Effect::Send(call, Frame::End));
    }

    /// The session is unknown; the reply has been given.
    fn refuses(&mut self, call: CallId, session: &str) -> bool {
        if !self.weather.sessions {
            return false;
        }
        if self.dice.chance(self.weather.amnesia) {
            self.forget_everything();
        }
        let status = match session {
            "" => 400,
            _ if self.sessions.contains(session) => return false,
            _ => 404,
        };
        self.reply(call, status, REFUSAL);
        true
    }

    fn forget_everything(&mut self) {
        self.moods += u64::from(!self.sessions.is_empty());
        self.sessions.clear();
        for stream in std::mem::take(&mut self.streams).into_values() {
            let frame = if self.dice.chance(50) { Frame::End } else { Frame::Cut };
            self.effects.extend(stream.reader.map(|call| Effect::Send(call, frame)));
        }
    }

    fn message(&mut self, call: CallId, session: &str, message: &Value) {
        let method = message.get("method").and_then(Value::as_str);
        if method == Some("initialize") {
            return self.initialize(call, message);
        }
        if self.refuses(call, session) {
            return;
        }
        match (method, message.get("id")) {
            (Some(_), Some(id)) => {
                self.carry_out(message);
                self.start((id.clone(), mark(message)), call, session);
            }
            (Some(method), None) => {
                if method == "notifications/cancelled" {
                    self.cancelled(message.pointer("/params/requestId").unwrap_or(&Value::Null));
                }
                let status = self.dice.pick(&[202, 202, 204, 200], 202);
                self.reply(call, status, if status == 200 { "{\"result\":{}}" } else { "" });
            }
            (None, id) => {
                self.answered(&id.map(Value::to_string).unwrap_or_default());
                self.reply(call, 202, "");
            }
        }
    }

    fn initialize(&mut self, call: CallId, message: &Value) {
        self.issued += 1;
        let result = json!({"n": mark(message), "protocolVersion": "2025-11-25", "capabilities": {}});
        let body = json!({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).to_string();
        let events = self.dice.chance(self.weather.streams);
        let kind = if events { "text/event-stream" } else { "application/json" };
        let mut headers = vec![("content-type", kind.to_owned())];
        if self.weather.sessions {
            self.sessions.insert(format!("s{}", self.issued));
            headers.push(("mcp-session-id", format!("s{}", self.issued)));
        }
        let body = if events { event(None, &body, &mut self.dice) } else { body.into_bytes() };
        for frame in [Frame::Head(200, headers), Frame::Chunk(body), Frame::End] {
            self.effects.push(Effect::Send(call, frame));
        }
    }

    fn carry_out(&mut self, message: &Value) {
        if message.get("id").is_some() && message.get("method").is_some() {
            self.seen.insert(mark(message));
        }
        if message.get("method").is_some_and(|method| method == "tools/call") {
            *self.done.entry(mark(message)).or_default() += 1;
        }
    }

    fn start(&mut self, request: (Value, u64), call: CallId, session: &str) {
        let stream = Stream::answering(request, session, &self.weather, &mut self.dice);
        self.open(stream, call);
    }

    fn open(&mut self, mut stream: Stream, call: CallId) {
        self.issued += 1;
        stream.reader = Some(call);
        let (key, form) = (self.issued, stream.form);
        self.streams.insert(key, stream);
        if form != Form::Body {
            self.effects
                .push(Effect::Send(call, Frame::Head(200, vec![("content-type", "text/event-stream".to_owned())])));
        }
        if form == Form::Resumable {
            self.say(key, String::new());
        }
        self.effects.push(Effect::Wake(key, 1));
    }

    /// A GET: to listen, or to resume.
    fn listen(&mut self, call: CallId, session: &str, last: &str) {
        if self.refuses(call, session) {
            return;
        }
        if let Some((key, position)) = last.split_once('/') {
            return self.resume(call, session, key.parse().unwrap_or(0), position.parse().unwrap_or(0));
        }
        if !self.weather.listens {
            return self.reply(call, 405, "");
        }
        let stream = Stream::listening(session, &self.weather, &mut self.dice);
        self.open(stream, call);
    }

    fn resume(&mut self, call: CallId, session: &str, key: u64, position: usize) {
        let Some(stream) = self.streams.get_mut(&key).filter(|stream| stream.session == session) else {
            return self.reply(call, 400, REFUSAL);
        };
        let again = usize::from(!self.dice.chance(20));
        stream.reader = Some(call);
        let missed: Vec<(usize, String)> = stream.said.iter().cloned().enumerate().skip(position + again).collect();
        let over = stream.over;
        self.effects.push(Effect::Send(call, Frame::Head(200, vec![("content-type", "text/event-stream".to_owned())])));
        for (position, data) in missed {
            let bytes = event(Some(&format!("{key}/{position}")), &data, &mut self.dice);
            self.effects.push(Effect::Send(call, Frame::Chunk(bytes)));
        }
        if over {
            self.effects.push(Effect::Send(call, Frame::End));
        }
    }

    /// The client cancelled; good servers stop, others answer all the same.
    fn cancelled(&mut self, id: &Value) {
        if self.dice.chance(50) {
            return;
        }
        for stream in
            self.streams.values_mut().filter(|stream| stream.request.as_ref().is_some_and(|(own, _)| own == id))
        {
            stream.work.clear();
            stream.over = true;
            self.effects.extend(stream.reader.take().map(|call| Effect::Send(call, Frame::End)));
        }
    }

    fn answered(&mut self, ask: &str) {
        for (key, stream) in self.streams.iter_mut().filter(|(_, stream)| stream.awaits.as_deref() == Some(ask)) {
            stream.awaits = None;
            self.effects.push(Effect::Wake(*key, 1));
        }
    }
}

fn header(request: &Request<Bytes>, name: &str) -> String {
    request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// The mark that the client gave a request.
fn mark(message: &Value) -> u64 {
    message.pointer("/params/n").and_then(Value::as_u64).unwrap_or(0)
}
