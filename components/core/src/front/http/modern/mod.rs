//! Clients of revision 2026-07-28. Each request is an exchange of its own, with an id that
//! is unique only there, so inside the machine it has an id of the front's own. A client
//! that closes its response cancels the request. What the server may be asked, and
//! sessions, do not belong here.

mod check;
mod placing;

use super::event::StreamId;
use super::refusal::{self, JSON, Refusal};
use super::responses::head;
use super::streams::{Due, EventIds, Streams};
use super::{ClientEvent, Destination, Exchange};
use crate::config::HttpTransport;
use crate::era::{self, mirror};
use crate::failure::Denial;
use crate::time::Time;
use crate::wire::message::{self, Id, Kind, Message, Parsed};
use bytes::Bytes;
use check::Checked;
pub(super) use check::is_modern;
use http::StatusCode;
pub use placing::ModernRequest;
use std::collections::BTreeMap;

/// The proxy passes longer progress tokens on, but does not replace them.
const LONGEST_TOKEN: usize = 256;

#[derive(Debug)]
pub(super) struct Modern {
    /// The open requests by the id that they have in the machine.
    open: BTreeMap<Id, Request>,
    of: BTreeMap<StreamId, Id>,
    last: u64,
    most_open: usize,
    /// Whether a response may wait for its answer.
    holds: bool,
    /// Whether every response waits until the server has admitted its request.
    challenges: bool,
    /// Requests whose client has left.
    abandoned: Vec<Id>,
    /// The headers that calls of tools must have.
    tools: mirror::Table,
}

/// An open request of a client.
#[derive(Debug)]
struct Request {
    /// Its id, in the client's spelling.
    id: Id,
    /// The client's progress token.
    token: Option<Id>,
    stream: StreamId,
    /// It asks for a list of tools.
    lists_tools: bool,
}

impl Modern {
    pub(super) fn new(client: &HttpTransport) -> Self {
        Self {
            open: BTreeMap::new(),
            of: BTreeMap::new(),
            last: 0,
            most_open: client.most_open,
            holds: !client.hold.is_zero(),
            challenges: client.challenges,
            abandoned: Vec::new(),
            tools: mirror::Table::default(),
        }
    }

    /// A client has sent a modern request.
    pub(super) fn is_used(&self) -> bool {
        self.last > 0
    }

    /// Accepts a message and begins the response.
    pub(super) fn accept(
        &mut self,
        exchange: Exchange<'_>,
        message: Message,
        streams: &mut Streams,
    ) -> Result<Vec<ClientEvent>, Refusal> {
        if let Checked::Notification = check::check(exchange.headers, &message, &self.tools)? {
            // Ids mean something only in their own exchange, so there is nothing to do.
            streams.responses.respond(exchange, head(StatusCode::ACCEPTED, None), Bytes::new());
            return Ok(Vec::new());
        }
        let Kind::Request { id, method } = message.kind.clone() else { return Ok(Vec::new()) };
        refusal::is_short(&id)?;
        if self.open.len() >= self.most_open {
            let message = format!("more than {} requests are open", self.most_open);
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message).of(Some(&id)));
        }
        self.last += 1;
        let own = Id::named(&format!("client-{}", self.last));
        let token = era::progress_token(message.params()).filter(|token| token.text().len() <= LONGEST_TOKEN);
        let due = Due::Answers(vec![own.clone()]);
        let streams_at_once = !self.holds || token.is_some() || era::lasts(&method);
        let stream = match self.challenges || !streams_at_once {
            true => streams.hold(exchange, due, EventIds::None),
            false => streams.open(exchange, due, EventIds::None),
        };
        let message = renamed(message, &own, token.is_some());
        self.of.insert(stream, own.clone());
        self.open.insert(own, Request { id, token, stream, lists_tools: &*method == "tools/list" });
        Ok(vec![ClientEvent::Message(message)])
    }

    /// Sends a message to the client whose request it belongs to. Nobody gets any other.
    pub(super) fn write(&mut self, now: Time, destination: Destination<'_>, message: Vec<u8>, streams: &mut Streams) {
        match destination {
            Destination::Answer(own) => self.conclude(now, own, None, message, streams),
            Destination::Denied(own, denial) => self.conclude(now, own, Some(denial), message, streams),
            Destination::Request(own) | Destination::Related(own) => {
                let Some(request) = self.open.get(own) else { return };
                streams.say(now, request.stream, report(message, own, request));
            }
            Destination::Question(_) | Destination::Withdrawn(_) | Destination::Nothing => {}
        }
    }

    fn conclude(&mut self, now: Time, own: &Id, denial: Option<Denial<'_>>, message: Vec<u8>, streams: &mut Streams) {
        let Some(request) = self.open.remove(own) else { return };
        self.of.remove(&request.stream);
        let (message, status) = self.answer(message, own, &request);
        let parts = denial.map_or_else(|| head(status, Some(JSON)), refusal::denied);
        streams.answer(now, own, parts, message);
    }

    /// The answer as the client expects it, and its status.
    fn answer(&mut self, bytes: Vec<u8>, own: &Id, request: &Request) -> (Vec<u8>, StatusCode) {
        let Ok(Parsed::One(mut message)) = message::parse(bytes) else { return (Vec::new(), StatusCode::BAD_GATEWAY) };
        let status = check::status_of(message.error());
        if request.lists_tools {
            self.tools.learn(message.result());
        }
        if let Some(result) = era::renamed_subscription(message.result(), own, &request.id) {
            message.set_result(&result);
        }
        (message.with_id(&request.id), status)
    }

    /// These streams lost their response.
    pub(super) fn left(&mut self, now: Time, left: impl IntoIterator<Item = StreamId>, streams: &mut Streams) {
        for own in left.into_iter().filter_map(|stream| self.of.remove(&stream)) {
            self.open.remove(&own);
            streams.cancel(now, &own);
            self.abandoned.push(own);
        }
    }

    /// The requests whose clients have left since the last time.
    pub(super) fn abandoned(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.abandoned)
    }
}

/// The request under an id of the front's own, and with a progress token of its own if it
/// has one.
fn renamed(mut message: Message, own: &Id, reports: bool) -> Message {
    if reports {
        let params = era::with_progress_token(message.params(), own);
        message.set_params(&params);
    }
    message.rename(own);
    message
}

/// A report as the client expects it.
fn report(bytes: Vec<u8>, own: &Id, request: &Request) -> Vec<u8> {
    let Ok(Parsed::One(mut message)) = message::parse(bytes) else { return Vec::new() };
    let progress = request.token.as_ref().and_then(|token| era::renamed_progress(message.params(), own, token));
    let params = progress.or_else(|| era::renamed_subscription(message.params(), own, &request.id));
    if let Some(params) = params {
        message.set_params(&params);
    }
    message.bytes
}
