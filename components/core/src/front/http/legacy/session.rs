//! The client's session: its name, how far its handshake is, and which requests it
//! accepts. The server's session, streams and messages do not belong here.

use crate::boundary::ExchangeId;
use crate::config::HttpTransport;
use crate::front::http::refusal::{self, Refusal, SESSION_ID};
use crate::wire::message::Id;
use http::{HeaderMap, HeaderValue};
use subtle::ConstantTimeEq;

#[derive(Debug)]
pub(super) struct Session {
    name: HeaderValue,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The client has not initialized it.
    AwaitInitialize,
    /// The client waits for the answer to this. The version is there once the server has
    /// opened the session.
    AwaitAnswer(Initialize, Option<String>),
    /// Open with this protocol version.
    Open(String),
    Over,
}

/// The client's `initialize`.
#[derive(Debug)]
pub(super) struct Initialize {
    pub(super) exchange: ExchangeId,
    pub(super) id: Id,
}

impl Session {
    pub(super) fn new(client: &HttpTransport) -> Self {
        let known = client.resumed.as_ref().map(|known| State::Open(known.version.clone()));
        Self { name: client.session.clone(), state: known.unwrap_or(State::AwaitInitialize) }
    }

    /// The client must name this session, or none.
    pub(super) fn is_ours(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let named = headers.get(SESSION_ID);
        let ours = |named: &HeaderValue| bool::from(named.as_bytes().ct_eq(self.name.as_bytes()));
        let fits = match self.state {
            State::AwaitInitialize | State::AwaitAnswer(..) => named.is_none(),
            State::Open(_) => named.is_none_or(ours),
            State::Over => false,
        };
        if fits { Ok(()) } else { Err(Refusal::no_such_session()) }
    }

    /// The session must be open, and the client must name it. Returns its version.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<&str, Refusal> {
        self.is_ours(headers)?;
        let State::Open(version) = &self.state else {
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

    /// The client wants to open it.
    pub(super) fn initialize(&mut self, exchange: ExchangeId, id: &Id) -> Result<(), Refusal> {
        refusal::is_short(id)?;
        let State::AwaitInitialize = self.state else {
            return Err(Refusal::bad_request("the session is initialized already"));
        };
        self.state = State::AwaitAnswer(Initialize { exchange, id: id.clone() }, None);
        Ok(())
    }

    /// The server has opened it. Returns its name and where to send it.
    pub(super) fn opened(&mut self, with: String) -> Option<(ExchangeId, HeaderValue)> {
        let State::AwaitAnswer(initialize, version) = &mut self.state else { return None };
        *version = Some(with);
        Some((initialize.exchange, self.name.clone()))
    }

    /// The `initialize` that waits for its answer.
    pub(super) fn waiting(&self) -> Option<&Initialize> {
        if let State::AwaitAnswer(initialize, _) = &self.state { Some(initialize) } else { None }
    }

    /// The waiting `initialize` gets its answer. The session is open if the server said so.
    pub(super) fn conclude(&mut self) -> Option<Initialize> {
        let State::AwaitAnswer(_, version) = &mut self.state else { return None };
        let after = version.take().map_or(State::AwaitInitialize, State::Open);
        let before = std::mem::replace(&mut self.state, after);
        if let State::AwaitAnswer(initialize, _) = before { Some(initialize) } else { None }
    }

    /// No client has asked for it.
    pub(super) fn is_fresh(&self) -> bool {
        matches!(self.state, State::AwaitInitialize)
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    pub(super) fn end(&mut self) {
        self.state = State::Over;
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }
}
