//! The client's requests and their effects: checks, messages, and the beginning of the
//! response. Later messages to the client, and their streams, do not belong here.

use super::posted::{self, Posted};
use super::refusal::{self, EVENTS, JSON, Refusal};
use super::streams::{self, Lost, Rest, Resumed};
use super::{COMMENT, HttpFront, LAST_EVENT_ID, SESSION_ID, Session, head};
use crate::boundary::ExchangeId;
use crate::era;
use crate::failure::{Delivered, Failure, Phase};
use crate::time::Time;
use crate::wire::message::{self, Id, Kind, Message};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, request};
use subtle::ConstantTimeEq;

/// The effect of a client's request.
#[derive(Debug)]
pub(crate) enum ClientEvent {
    /// The client sent this.
    Message(Message),
    /// The client opened a stream for the server's unsolicited messages.
    Listens,
    /// The client ends the session.
    Leaves,
}

impl HttpFront {
    /// Refuses a request because too much of the client's data is still on its way to the
    /// server.
    pub(crate) fn refuse_full(&mut self, now: Time, exchange: ExchangeId) -> Vec<ClientEvent> {
        let message = "too much of what this session has sent is still on its way to the server";
        self.refuse(now, exchange, &Refusal::new(StatusCode::TOO_MANY_REQUESTS, message));
        Vec::new()
    }

    pub(crate) fn request(
        &mut self,
        now: Time,
        exchange: ExchangeId,
        parts: &request::Parts,
        body: Bytes,
    ) -> Vec<ClientEvent> {
        let heard = match parts.method {
            Method::POST => self.post(now, exchange, &parts.headers, body),
            Method::GET => self.get(now, exchange, &parts.headers),
            Method::DELETE => self.delete(now, exchange, &parts.headers),
            _ => {
                let message = format!("{} is not for an MCP endpoint", parts.method);
                Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message))
            }
        };
        heard.unwrap_or_else(|refusal| {
            self.refuse(now, exchange, &refusal);
            Vec::new()
        })
    }

    fn post(
        &mut self,
        now: Time,
        exchange: ExchangeId,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Vec<ClientEvent>, Refusal> {
        self.is_ours(headers)?;
        refusal::is_json(headers)?;
        refusal::accepts(headers, &[JSON, EVENTS])?;
        if body.len() > self.max {
            let message = format!("the body is over the limit of {} bytes", self.max);
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let parsed = message::parse(body.into()).map_err(Refusal::malformed)?;
        let posted = Posted::new(parsed, self.client.most_open);
        if let Posted::One(message) = &posted
            && let Kind::Request { id, method } = &message.kind
            && era::opens_session(method)
        {
            self.initialize(now, exchange, id).map_err(|refusal| refusal.of(Some(id)))?;
        } else {
            self.messages(now, exchange, headers, &posted)?;
        }
        Ok(posted.each().map(ClientEvent::Message).collect())
    }

    /// The client must name this session, or none.
    fn is_ours(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let named = headers.get(SESSION_ID);
        let ours = |named: &HeaderValue| bool::from(named.as_bytes().ct_eq(self.client.session.as_bytes()));
        match self.session {
            Session::Open(_) if named.is_none_or(ours) => Ok(()),
            Session::None if named.is_none() => Ok(()),
            Session::None | Session::Open(_) | Session::Over => Err(Refusal::no_such_session()),
        }
    }

    /// The session must be open, and the client must name it. Returns its version.
    fn in_session(&self, headers: &HeaderMap) -> Result<&str, Refusal> {
        self.is_ours(headers)?;
        let Session::Open(version) = &self.session else {
            // A client of a later era probes for a server of its era like this.
            refusal::is_known_version(headers, None)?;
            return Err(Refusal::bad_request("the first request of a session must be initialize"));
        };
        if !headers.contains_key(SESSION_ID) {
            return Err(Refusal::bad_request("the Mcp-Session-Id header is missing"));
        }
        refusal::is_known_version(headers, Some(version))?;
        Ok(version)
    }

    fn initialize(&mut self, now: Time, exchange: ExchangeId, id: &Id) -> Result<(), Refusal> {
        posted::is_short(id)?;
        if self.session != Session::None || self.opening.is_some() {
            return Err(Refusal::bad_request("the session is initialized already"));
        }
        self.opening = Some((exchange, id.clone()));
        self.insert(now, exchange, None);
        Ok(())
    }

    /// Accepts messages of an open session and begins the response.
    fn messages(
        &mut self,
        now: Time,
        exchange: ExchangeId,
        headers: &HeaderMap,
        posted: &Posted,
    ) -> Result<(), Refusal> {
        let one = match posted {
            Posted::One(message) => posted::request(message),
            Posted::Batch(_) => None,
        };
        let version = self.in_session(headers).map_err(|refusal| refusal.of(one))?;
        if let Posted::Batch(members) = posted {
            posted::is_batch(version, members, self.client.most_open)?;
        }
        let ids: Vec<&Id> = posted.requests().collect();
        for (at, id) in ids.iter().enumerate() {
            posted::is_short(id)?;
            if self.streams.of(id).is_some() || ids.iter().take(at).any(|earlier| earlier == id) {
                return Err(Refusal::bad_request("a request with this id is still open").of(Some(id)));
            }
        }
        if self.streams.open_requests() + ids.len() > self.client.most_open {
            let message = format!("more than {} requests are open", self.client.most_open);
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message).of(one));
        }
        if ids.is_empty() {
            self.respond_once(now, exchange, head(StatusCode::ACCEPTED, None), Bytes::new());
            return Ok(());
        }
        let stream = self.streams.open(exchange, ids.into_iter().cloned().collect());
        self.insert(now, exchange, Some(stream));
        if self.may_wait(posted) {
            self.responses.hold(exchange);
        } else {
            self.begin(now, exchange, stream);
        }
        if self.streams.listening().is_none() {
            self.say_waiting(now, stream);
        }
        Ok(())
    }

    fn get(&mut self, now: Time, exchange: ExchangeId, headers: &HeaderMap) -> Result<Vec<ClientEvent>, Refusal> {
        self.in_session(headers)?;
        refusal::accepts(headers, &[EVENTS])?;
        let last = refusal::text(headers, &LAST_EVENT_ID);
        let resumed = self.streams.resume(last);
        if let Some((stream, seen)) = self.streams.seen(last) {
            let gets = |at: u64| matches!(&resumed, Resumed::Stream(rest) if rest.holds(at));
            self.unasked.extend(self.questions.join(stream, |at| at <= seen || gets(at)));
        }
        match resumed {
            Resumed::Stream(rest) => self.resume(now, exchange, rest),
            // For any event stream, this status means: do not reconnect. Some clients
            // treat an error as no answer and would reconnect forever.
            Resumed::Over => self.respond_once(now, exchange, head(StatusCode::NO_CONTENT, None), Bytes::new()),
            // The client returned for answers that are lost.
            Resumed::Lost(lost) => {
                let events = lost.iter().flat_map(tell_lost).collect();
                self.respond_once(now, exchange, head(StatusCode::OK, Some(EVENTS)), events);
            }
            Resumed::Unknown => {
                if let Some(old) = self.streams.listening() {
                    self.finish(now, old);
                }
                let stream = self.streams.listen(exchange);
                self.insert(now, exchange, Some(stream));
                self.begin(now, exchange, stream);
                self.say_waiting(now, stream);
            }
        }
        Ok(vec![ClientEvent::Listens])
    }

    /// A client returned for the rest of a stream.
    fn resume(&mut self, now: Time, exchange: ExchangeId, rest: Rest) {
        let Rest { stream, lost, events } = rest;
        // The newest connection wins; the old one may be dead without notice.
        let listened = self.streams.listening();
        let old = self.streams.attach(stream, exchange);
        if let Some(old) = old.or(listened.filter(|_| self.streams.listening() == Some(exchange))) {
            self.abort(now, old);
        }
        self.insert(now, exchange, Some(stream));
        self.start(exchange);
        let lost = lost.iter().map(tell_lost).map(Bytes::from);
        for event in lost.chain(events.into_iter().map(|(_, event)| event)) {
            self.send(now, exchange, event);
        }
        if self.streams.complete(stream) {
            return self.finish(now, exchange);
        }
        if self.streams.listening().is_none_or(|listening| listening == exchange) {
            self.say_waiting(now, stream);
        }
        if self.responses.is_read(exchange) {
            self.send(now, exchange, Bytes::from_static(COMMENT));
        }
    }

    fn delete(&mut self, now: Time, exchange: ExchangeId, headers: &HeaderMap) -> Result<Vec<ClientEvent>, Refusal> {
        self.in_session(headers)?;
        self.respond_once(now, exchange, head(StatusCode::NO_CONTENT, None), Bytes::new());
        Ok(vec![ClientEvent::Leaves])
    }

    /// Whether the response may wait for the answer. A client that asks for progress
    /// needs a stream.
    fn may_wait(&self, posted: &Posted) -> bool {
        let Posted::One(message) = posted else { return false };
        !self.client.hold.is_zero() && era::progress_token(message.params()).is_none()
    }
}

/// The event that reports a lost answer.
fn tell_lost(lost: &Lost) -> Vec<u8> {
    let text = "the connection was lost, and the answer with it; the request may have been carried out";
    streams::event(Some(&lost.event), Failure::new(Phase::Stream, Delivered::Maybe, text).answer(&lost.id))
}
