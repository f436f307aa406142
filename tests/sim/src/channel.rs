//! The server as an HTTP+SSE server of 2024-11-05: its stream names the endpoint and is the
//! session. Messages to the server arrive there as POSTs, and all its messages leave as
//! events on the stream. The work behind the answers is in `labour`.

use crate::habit::{Endpoint, GONE, Place};
use crate::ledger::number;
use crate::server::{Effect, Frame, PAGE, Server};
use crate::stream::{Asked, Form, Stream, Work};
use bytes::Bytes;
use http::{Method, Request};
use mcp_proxy_core::CallId;
use serde_json::Value;

impl Server {
    pub(crate) fn http_sse(&mut self, call: CallId, request: &Request<Bytes>, message: &Value) {
        let path = request.uri().path();
        let stream = path.trim_end_matches('2') == self.habits.path();
        match *request.method() {
            Method::GET if stream => self.open_channel(call),
            Method::POST if stream => self.reply(call, self.habits.refusal, PAGE),
            Method::POST if path == self.habits.desk() => {
                let session = request.uri().query().and_then(|query| query.strip_prefix("s=")).unwrap_or_default();
                self.posted(call, session, message);
            }
            Method::POST if self.habits.place == Place::Stripped => self.reply(call, 404, PAGE),
            _ => self.ledger.complain(format!("{} {}", request.method(), request.uri())),
        }
    }

    fn open_channel(&mut self, call: CallId) {
        let taken = |stream: &Stream| stream.form == Form::Channel && stream.reader.is_some();
        if self.habits.single && self.streams.values().any(taken) {
            let status = self.dice.pick(&[409, 503], 409);
            return self.reply(call, status, "");
        }
        let session = format!("s{}", self.new_number());
        self.sessions.insert(session.clone());
        let stream = Stream::channel(&session, &self.habits, &mut self.dice);
        self.open(stream, call);
    }

    /// The stream has ended: ends its session and all work for it.
    pub(crate) fn close_channel(&mut self, session: &str) {
        self.sessions.remove(session);
        self.streams.retain(|_, stream| stream.session != session);
    }

    /// Names the endpoint, or sends what its habit is instead.
    pub(crate) fn name_endpoint(&mut self, key: u64) {
        let Some(stream) = self.streams.get(&key) else { return };
        let name = format!("event: endpoint\ndata: {}\n\n", self.habits.named(&stream.session));
        if self.habits.endpoint == Endpoint::Late {
            self.notify(key);
        }
        self.send(key, Frame::Chunk(name.into_bytes()));
    }

    fn posted(&mut self, call: CallId, session: &str, message: &Value) {
        self.maybe_forget();
        if !self.sessions.contains(session) {
            self.ledger.refuse(call);
            let status = self.dice.pick(&[404, 404, 404, 400], 404);
            return self.reply(call, status, GONE);
        }
        match (message.get("method"), message.get("id")) {
            (Some(_), Some(id)) => {
                self.ledger.done(call, message);
                self.start(call, session, Asked { id: id.clone(), n: number(message), asks: None });
            }
            (_, _) => {
                self.told(message);
                self.accept(call);
            }
        }
    }

    /// Starts the work for a request. The POST returns before the work, after it or,
    /// sometimes, never.
    fn start(&mut self, call: CallId, session: &str, asked: Asked) {
        let channel = self.streams.values().find(|stream| stream.form == Form::Channel && stream.session == session);
        let reader = channel.and_then(|stream| stream.reader);
        let mut job = Stream::job(asked, session, call, &self.habits, &mut self.dice);
        let (never, late) = (self.dice.chance(5), self.dice.chance(25));
        match (never && self.luck.strikes(), late) {
            (true, _) => {}
            (false, true) => job.work.push_back(Work::Accept),
            (false, false) => job.work.push_front(Work::Accept),
        }
        job.reader = reader;
        let key = self.new_number();
        self.streams.insert(key, job);
        self.effects.push(Effect::Wake(key, 0));
    }

    pub(crate) fn accept(&mut self, call: CallId) {
        let status = self.dice.pick(&[202, 202, 200, 204], 202);
        self.reply(call, status, if status == 204 { "" } else { "Accepted" });
    }
}
