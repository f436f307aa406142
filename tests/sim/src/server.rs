//! The simulated server: it receives requests and sometimes refuses them at random. This
//! module has what all transports share; `streamable`, `channel` and `modern` have the rest,
//! and `labour` the work for a request.

use crate::dice::{Chance, Dice, Owner};
use crate::habit::{Habits, Kind};
use crate::ledger::Ledger;
use crate::luck::Luck;
use crate::modern::Round;
use crate::stream::{Form, Stream};
use crate::weather::Weather;
use bytes::Bytes;
use http::Request;
use mcp_proxy_core::CallId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) dice: Dice,
    pub(crate) habits: Habits,
    pub(crate) large: bool,
    harm: u64,
    /// The machine sends cookies back.
    cookies: bool,
    pub(crate) luck: Luck,
    pub(crate) sessions: BTreeSet<String>,
    pub(crate) streams: BTreeMap<u64, Stream>,
    issued: u64,
    pub(crate) ledger: Ledger,
    pub(crate) effects: Vec<Effect>,
    /// How many more questions the server may ask.
    pub(crate) questions: u64,
    /// Results that asked for input, and whose requests must come again.
    pub(crate) rounds: Vec<Round>,
    /// The client answers such questions itself.
    pub(crate) client_repeats: bool,
}

/// An effect of a request, or of work.
#[derive(Debug)]
pub(crate) enum Effect {
    Send(CallId, Frame),
    /// Continue this stream after this long.
    Wake(u64, u64),
}

/// A piece of a response.
#[derive(Debug, Clone)]
pub(crate) enum Frame {
    Head(u16, Headers),
    Chunk(Vec<u8>),
    End,
    Cut,
}

pub(crate) type Headers = Vec<(&'static str, String)>;

/// A random refusal: status and header. `true`: the server may still have executed the
/// request.
type Mood = (u16, Option<(&'static str, &'static str)>, bool);

const MOODS: [Mood; 18] = [
    (200, Some(("content-type", "text/html")), true),
    (202, None, true),
    (400, None, false),
    (401, None, false),
    (403, None, false),
    (404, None, false),
    (405, None, false),
    (409, None, false),
    (422, None, true),
    (429, Some(("retry-after", "1")), false),
    (429, None, false),
    (500, None, true),
    (502, None, true),
    (503, Some(("retry-after", "2")), false),
    (503, None, true),
    (504, Some(("retry-after", "1")), true),
    (307, Some(("location", "mcp2")), false),
    (302, Some(("location", "https://elsewhere.test/")), false),
];
const MOST_QUESTIONS: u64 = 30;
/// The cookie of the load balancer.
pub(crate) const COOKIE: &str = "lb=7";
pub(crate) const PAGE: &str = "<html>no</html>";

impl Server {
    pub(crate) fn new(chance: Chance<'_>, weather: &Weather, faults: u64) -> Self {
        Self {
            dice: chance.dice(Owner::Server),
            habits: weather.server.clone(),
            large: weather.large,
            harm: weather.harm / 3,
            cookies: weather.quirks.cookies,
            luck: Luck::new(faults),
            sessions: BTreeSet::new(),
            streams: BTreeMap::new(),
            issued: 0,
            ledger: Ledger::default(),
            effects: Vec::new(),
            questions: MOST_QUESTIONS,
            rounds: Vec::new(),
            client_repeats: weather.modern,
        }
    }

    /// A request arrived.
    pub(crate) fn receive(&mut self, call: CallId, request: &Request<Bytes>) {
        let message = serde_json::from_slice::<Value>(request.body()).unwrap_or_default();
        self.ledger.received(&message);
        self.look_at_cookie(request);
        let (moody, mood) = (self.dice.chance(self.harm), self.dice.pick(&MOODS, (500, None, true)));
        if moody && self.luck.strikes() {
            return self.bad_mood(call, &message, mood);
        }
        match self.habits.kind {
            Kind::Streamable => self.streamable(call, request, &message),
            Kind::Sse => self.http_sse(call, request, &message),
            Kind::Modern => self.modern(call, request, &message),
            Kind::Nothing => self.reply(call, 404, PAGE),
        }
    }

    /// Checks that the machine sends the cookie once a session is open.
    fn look_at_cookie(&mut self, request: &Request<Bytes>) {
        let known = request.headers().contains_key("mcp-session-id") || request.uri().query().is_some();
        if self.habits.sticky && self.cookies && known && header(request, "cookie") != COOKIE {
            self.ledger.complain(format!("without the cookie: {:?}", request.headers()));
        }
    }

    /// Nobody reads this exchange any longer.
    pub(crate) fn gone(&mut self, call: CallId) {
        let reads = |stream: &&Stream| stream.reader == Some(call) && stream.form == Form::Channel;
        let ended: Vec<String> = self.streams.values().filter(reads).map(|stream| stream.session.clone()).collect();
        ended.iter().for_each(|session| self.close_channel(session));
        for stream in self.streams.values_mut().filter(|stream| stream.reader == Some(call)) {
            stream.reader = None;
        }
    }

    pub(crate) fn new_number(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    /// Refuses a request; the body may be empty, an error or a page.
    fn bad_mood(&mut self, call: CallId, message: &Value, (status, extra, may_run): Mood) {
        if may_run && self.dice.chance(50) {
            self.ledger.done(call, message);
        }
        let refusal = self.refusal(message, "no");
        let body = match self.dice.between(0, 2) {
            0 => String::new(),
            1 => PAGE.to_owned(),
            _ => refusal,
        };
        self.head(call, status, extra.map(|(name, value)| (name, value.to_owned())).into_iter().collect());
        self.finish(call, body.into_bytes());
    }

    /// A JSON-RPC error that refuses a message with this text, and has no id.
    pub(crate) fn refusal(&mut self, message: &Value, words: &str) -> String {
        let id = message.get("id").unwrap_or(&Value::Null);
        let number = self.ledger.make(id, crate::ledger::number(message));
        format!(
            r#"{{"jsonrpc":"2.0","error":{{"code":-32000,"message":"{words}","data":{{"r":{number}}}}},"id":null}}"#
        )
    }

    pub(crate) fn head(&mut self, call: CallId, status: u16, mut headers: Headers) {
        if self.habits.sticky {
            headers.push(("set-cookie", COOKIE.to_owned()));
        }
        self.effects.push(Effect::Send(call, Frame::Head(status, headers)));
    }

    pub(crate) fn finish(&mut self, call: CallId, body: Vec<u8>) {
        self.effects.push(Effect::Send(call, Frame::Chunk(body)));
        self.effects.push(Effect::Send(call, Frame::End));
    }

    /// Sends a whole response. Some responses announce their length.
    pub(crate) fn reply(&mut self, call: CallId, status: u16, body: &str) {
        let mut headers = vec![("content-type", "application/json".to_owned())];
        if self.dice.chance(50) {
            headers.push(("content-length", body.len().to_string()));
        }
        self.head(call, status, headers);
        self.finish(call, body.into());
    }

    /// A message that needs no answer.
    pub(crate) fn told(&mut self, message: &Value) {
        match message.get("method") {
            Some(method) if method == "notifications/cancelled" => {
                self.cancelled(message.pointer("/params/requestId").unwrap_or(&Value::Null));
            }
            Some(_) => {}
            None => self.answered(&message.get("id").map(Value::to_string).unwrap_or_default()),
        }
    }

    /// The client cancelled: good servers stop, others answer anyway.
    fn cancelled(&mut self, id: &Value) {
        if self.dice.chance(50) {
            return;
        }
        let names = |stream: &&mut Stream| stream.request.as_ref().is_some_and(|asked| asked.id == *id);
        for stream in self.streams.values_mut().filter(names) {
            stream.work.clear();
            stream.over = true;
            if stream.form != Form::Job {
                self.effects.extend(stream.reader.take().map(|call| Effect::Send(call, Frame::End)));
            }
        }
    }

    fn answered(&mut self, ask: &str) {
        for (key, stream) in self.streams.iter_mut().filter(|(_, stream)| stream.awaits.as_deref() == Some(ask)) {
            stream.awaits = None;
            self.effects.push(Effect::Wake(*key, 1));
        }
    }

    /// Sometimes forgets all sessions; their streams may stay open.
    pub(crate) fn maybe_forget(&mut self) {
        if !self.dice.chance(self.habits.amnesia) || self.sessions.is_empty() || !self.luck.strikes() {
            return;
        }
        self.sessions.clear();
        let (end, noticed) = (self.dice.chance(50), self.dice.chance(70));
        if self.habits.kind == Kind::Streamable || noticed {
            for stream in std::mem::take(&mut self.streams).into_values().filter(|stream| stream.form != Form::Job) {
                let frame = if end { Frame::End } else { Frame::Cut };
                self.effects.extend(stream.reader.map(|call| Effect::Send(call, frame)));
            }
        }
    }
}

pub(crate) fn header(request: &Request<Bytes>, name: &str) -> String {
    request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}
