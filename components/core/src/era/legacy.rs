//! Revisions up to 2025-11-25: the handshake, the session and its headers, the messages
//! held until the session is open, and how the proxy replaces a lost session without the
//! client noticing. Calls and their recovery belong to `back`.

use super::held::Held;
use super::{PROTOCOL_VERSION, cancelled, one};
use crate::config::Snapshot;
use crate::outgoing::{Outgoing, Purpose, SessionContext};
use crate::route::{Asked, RequestKey, Route};
use crate::time::{Deadline, Time, Why, earlier};
use crate::wire::message::{self, Id, Kind, Message};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long later messages wait for the server to accept `initialized`.
const GREETING: Duration = Duration::from_secs(5);
/// These two bound the settings remembered for a new session.
const MOST_SETTINGS: usize = 1000;
const LONGEST_SETTING: usize = 16 << 10;
/// Every later request carries the version. The client has to refuse one that is longer
/// than any date.
const LONGEST_VERSION: usize = 64;
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The client's session with the server.
#[derive(Debug)]
pub(crate) struct Legacy {
    phase: Phase,
    session: Arc<SessionContext>,
    memory: Memory,
    held: Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No handshake yet: messages pass, and the server may refuse them.
    Fresh,
    /// The server has `initialize`: the proxy's own if there is a key, else the client's.
    /// Everything else is held.
    AwaitInitialize(Option<RequestKey>),
    /// The server has `initialized`; everything else is held until this time at the
    /// latest.
    AwaitInitialized(Time),
    /// Messages pass.
    Open,
    /// The session is lost. The next message replaces it, or the timer does.
    Lost(Option<Time>),
}

/// What the proxy needs to open the session again. It keeps messages as bytes, which
/// every snapshot shares.
#[derive(Debug, Default)]
struct Memory {
    initialize: Option<Bytes>,
    /// The version that client and server first agreed on.
    version: String,
    log_level: Option<Bytes>,
    subscriptions: BTreeMap<String, Bytes>,
    /// Settings that the server has not confirmed yet.
    asked: BTreeMap<RequestKey, Message>,
}

/// How a client's request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// With a result.
    Succeeded,
    /// With an error, or without an answer.
    Failed,
}

impl Legacy {
    /// `limit` bounds how long a request may be held.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { phase: Phase::Fresh, session: Arc::default(), memory: Memory::default(), held: Held::new(limit) }
    }

    /// Continues a session that another machine had.
    pub(crate) fn resume(&mut self, known: &Snapshot) {
        self.memory.initialize = one(&known.initialize).map(|message| message.bytes.into());
        self.memory.version.clone_from(&known.version);
        for setting in known.settings.iter().filter_map(one) {
            self.memory.learn(setting);
        }
        self.session = context(1, None, None);
        self.phase = Phase::Lost(None);
    }

    /// The input of [`Legacy::resume`], once a session has been opened.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        let initialize = self.memory.initialize.clone().filter(|_| self.session.number > 0)?;
        let settings = self.memory.settings().cloned().collect();
        Some(Snapshot { initialize, version: self.memory.version.clone(), settings })
    }

    /// Replaces the session if it is lost.
    pub(crate) fn reopen(&mut self, route: &mut Route) -> Option<Outgoing> {
        matches!(self.phase, Phase::Lost(_)).then(|| self.reinitialize(route)).flatten()
    }

    /// Stamps a message with the current session.
    pub(crate) fn stamped(&self, outgoing: Outgoing) -> Outgoing {
        Outgoing { session: Arc::clone(&self.session), ..outgoing }
    }

    /// The session has an id, so the proxy can ask the server to end it.
    pub(crate) fn named(&self) -> bool {
        self.session.named
    }

    /// The headers that name the session at the server; none if it has no id.
    pub(crate) fn name(&self) -> &[(HeaderName, HeaderValue)] {
        if self.session.named { &self.session.headers } else { &[] }
    }

    /// Whether a session was open before.
    pub(crate) fn had_session(&self) -> bool {
        self.session.number > 0
    }

    /// Whether `session` is the current one.
    pub(crate) fn is_current(&self, session: &SessionContext) -> bool {
        self.session.number == session.number && matches!(self.phase, Phase::Open | Phase::AwaitInitialized(_))
    }

    /// Bytes of the held messages.
    pub(crate) fn held(&self) -> usize {
        self.held.bytes()
    }

    /// How many messages are held.
    pub(crate) fn waiting(&self) -> usize {
        self.held.count()
    }

    pub(crate) fn idle(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let session = match self.phase {
            Phase::AwaitInitialized(at) => Some(Deadline { at, why: Why::Greeting }),
            Phase::Lost(Some(at)) => Some(Deadline { at, why: Why::Reopen }),
            Phase::Fresh | Phase::AwaitInitialize(_) | Phase::Open | Phase::Lost(None) => None,
        };
        earlier(session, self.held.deadline())
    }

    /// The client opens a session itself. Returns the proxy's own handshake, which is not
    /// needed any more.
    pub(super) fn superseded(&mut self) -> Option<RequestKey> {
        if let Phase::AwaitInitialize(own) = &mut self.phase { own.take() } else { None }
    }

    /// Remembers the parts of a client's request that a new session would need.
    pub(crate) fn requested(&mut self, purpose: Purpose, message: &Message) {
        if let Purpose::Initialize(_) = purpose {
            self.memory = Memory { initialize: Some(message.bytes.clone().into()), ..Memory::default() };
        } else if let Purpose::Request { key, .. } = purpose {
            self.memory.asked(key, message);
        }
    }

    /// The notification that cancels a request at the server.
    pub(crate) fn cancel(wire: &Id) -> Outgoing {
        Outgoing::new(Purpose::Notification, cancelled(wire, "timed out"))
    }

    /// A client's request is over. If the server accepted a setting, remember it for a new
    /// session. Returns `true` if that changed the snapshot.
    pub(crate) fn concluded(&mut self, key: RequestKey, conclusion: Conclusion) -> bool {
        let setting = self.memory.asked.remove(&key);
        conclusion == Conclusion::Succeeded && setting.is_some_and(|message| self.memory.learn(message))
    }

    /// Admits a message. Returns what to send now; in a lost session, that is the attempt
    /// to replace it.
    pub(crate) fn admit(&mut self, now: Time, outgoing: Outgoing, route: &mut Route) -> Option<Outgoing> {
        if matches!(outgoing.purpose, Purpose::Initialize(_)) {
            self.phase = Phase::AwaitInitialize(None);
            self.session = context(self.session.number, None, None);
            return Some(outgoing);
        }
        // Held messages go first, above all `initialized`.
        if self.phase == Phase::Open && !self.held.is_empty() {
            self.held.push_back(outgoing);
            return None;
        }
        self.pass(now, outgoing, route)
    }

    fn pass(&mut self, now: Time, outgoing: Outgoing, route: &mut Route) -> Option<Outgoing> {
        match self.phase {
            Phase::Fresh => Some(outgoing),
            Phase::Open => {
                if outgoing.purpose == Purpose::Initialized {
                    self.phase = Phase::AwaitInitialized(now.after(GREETING));
                }
                Some(outgoing)
            }
            Phase::AwaitInitialize(_) | Phase::AwaitInitialized(_) => {
                self.held.push_back(outgoing);
                None
            }
            Phase::Lost(_) => {
                self.held.push_back(outgoing);
                self.reinitialize(route)
            }
        }
    }

    /// The next held message that may be sent now.
    pub(crate) fn release(&mut self, now: Time, route: &mut Route) -> Option<Outgoing> {
        match self.phase {
            Phase::Fresh | Phase::Open => {
                let outgoing = self.held.pop_front()?;
                if matches!(outgoing.purpose, Purpose::Initialize(_)) {
                    return self.admit(now, outgoing, route);
                }
                self.pass(now, outgoing, route)
            }
            Phase::Lost(at) if !self.held.is_empty() || at.is_some_and(|at| at <= now) => self.reinitialize(route),
            Phase::AwaitInitialize(_) | Phase::AwaitInitialized(_) | Phase::Lost(_) => None,
        }
    }

    /// Whether there is a handshake to open a session with.
    pub(super) fn introduced(&self) -> bool {
        self.memory.initialize.is_some()
    }

    /// Sets the handshake on behalf of a client that has none. The next message opens the
    /// session.
    pub(super) fn introduce(&mut self, initialize: Vec<u8>) {
        self.memory.initialize = Some(initialize.into());
        self.phase = Phase::Lost(None);
    }

    /// The server's era is unknown, and a lost session cannot be replaced before it is
    /// known.
    pub(super) fn await_era(&mut self) {
        if let Phase::Lost(wait) = &mut self.phase {
            *wait = None;
        }
    }

    /// The server's era could not be detected. The next message of a modern client opens
    /// the session. Returns the held messages, which cannot be sent.
    pub(super) fn not_lent(&mut self) -> Vec<Outgoing> {
        self.phase = if self.introduced() { Phase::Lost(None) } else { Phase::Fresh };
        self.held.take_all()
    }

    /// Remembers a setting of the proxy's own for the next session. Returns `true` if the
    /// server gets it only with that one.
    pub(super) fn learn(&mut self, setting: Message) -> bool {
        self.memory.learn(setting);
        matches!(self.phase, Phase::Lost(_))
    }

    /// Holds a message until the proxy knows the server's era.
    pub(super) fn hold(&mut self, outgoing: Outgoing) {
        self.held.push_back(outgoing);
    }

    /// Takes the held messages that a modern client wrote.
    pub(super) fn take_modern(&mut self) -> Vec<Outgoing> {
        let (modern, rest): (Vec<_>, Vec<_>) = self.held.take_all().into_iter().partition(|outgoing| outgoing.modern);
        rest.into_iter().for_each(|outgoing| self.held.push_back(outgoing));
        modern
    }

    /// The next held message, for a server that needs no session.
    pub(super) fn unhold(&mut self) -> Option<Outgoing> {
        self.held.pop_front()
    }

    /// Removes the held requests that have timed out.
    pub(super) fn overdue(&mut self, now: Time) -> Vec<Outgoing> {
        self.held.overdue(now)
    }

    /// Removes a request if it is held.
    pub(crate) fn withdraw(&mut self, key: RequestKey) -> Option<Outgoing> {
        self.held.withdraw(key)
    }

    /// The server answered the client's `initialize`. Returns the agreed version.
    pub(crate) fn opened(&mut self, result: &str, session: Option<HeaderValue>) -> Option<String> {
        let version =
            message::text_member(result, "protocolVersion").filter(|version| version.len() <= LONGEST_VERSION);
        let header = version.as_deref().and_then(|version| HeaderValue::from_str(version).ok());
        self.session = context(self.session.number + 1, session, header);
        self.phase = Phase::Open;
        if self.memory.version.is_empty() {
            self.memory.version = version.clone().unwrap_or_default();
        }
        version
    }

    /// The client's session is open, but the server has none.
    pub(crate) fn opened_without_session(&mut self, version: Option<String>) {
        self.session = context(self.session.number + 1, None, None);
        self.phase = Phase::Open;
        if self.memory.version.is_empty() {
            self.memory.version = version.unwrap_or_default();
        }
    }

    /// The server answered the proxy's own `initialize` for a lost session.
    pub(crate) fn reopened(&mut self, result: &str, session: Option<HeaderValue>, route: &mut Route) {
        self.opened(result, session);
        let greeting = Outgoing::new(Purpose::Initialized, Bytes::from_static(INITIALIZED));
        let restores = self.memory.settings().filter_map(one).map(|message| {
            let (key, id) = route.open_own(Asked::Upkeep);
            Outgoing::new(Purpose::Restore(key), message.with_id(&id))
        });
        let own: Vec<Outgoing> = std::iter::once(greeting).chain(restores).collect();
        for outgoing in own.into_iter().rev() {
            // These open the new session, so their failure must not trigger another
            // recovery.
            self.held.push_front(Outgoing { recoveries: 1, ..outgoing });
        }
    }

    /// The client's `initialize` failed. Returns the held messages, which cannot be sent.
    pub(crate) fn not_opened(&mut self) -> Vec<Outgoing> {
        self.phase = Phase::Fresh;
        self.held.take_all()
    }

    /// The proxy's own `initialize` failed; it retries after `wait`. Returns the held
    /// messages, which cannot be sent.
    pub(crate) fn not_reopened(&mut self, now: Time, wait: Option<Duration>) -> Vec<Outgoing> {
        self.phase = Phase::Lost(wait.map(|wait| now.after(wait)));
        self.held.take_all()
    }

    /// The server accepted or refused `initialized`. Returns `true` if the phase still
    /// awaited that.
    pub(crate) fn greeted(&mut self) -> bool {
        let awaited = matches!(self.phase, Phase::AwaitInitialized(_));
        if awaited {
            self.phase = Phase::Open;
        }
        awaited
    }

    /// Returns `true` if the server has not accepted `initialized` in time.
    pub(crate) fn tick(&mut self, now: Time) -> bool {
        matches!(self.phase, Phase::AwaitInitialized(at) if at <= now) && self.greeted()
    }

    /// Shutdown: await nothing, and drop the held messages.
    pub(crate) fn end(&mut self) {
        self.phase = Phase::Open;
        self.held.take_all();
    }

    /// The session ended with the stream that carried it; open a new one after `wait`.
    pub(crate) fn ended(&mut self, now: Time, wait: Option<Duration>) {
        if matches!(self.phase, Phase::Open | Phase::AwaitInitialized(_)) && self.memory.initialize.is_some() {
            self.phase = Phase::Lost(wait.map(|wait| now.after(wait)));
        }
    }

    /// A session is open in which the proxy can send requests.
    pub(crate) fn open(&self) -> bool {
        self.phase == Phase::Open && self.memory.initialize.is_some()
    }

    /// A keep-alive ping.
    pub(crate) fn ping(&self, route: &mut Route) -> Outgoing {
        let (key, id) = route.open_own(Asked::Upkeep);
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}}", id.text());
        Outgoing::new(Purpose::KeepAlive(key), body.into_bytes())
    }

    /// The server does not know the session in which `outgoing` was sent.
    pub(crate) fn lost(&mut self, now: Time, mut outgoing: Outgoing, route: &mut Route) -> Recovery {
        // An answer belongs to the session that its question came from.
        let bound = outgoing.purpose == Purpose::Answer;
        if bound || outgoing.recoveries > 0 || self.memory.initialize.is_none() {
            return Recovery::Impossible(outgoing);
        }
        outgoing.recoveries += 1;
        let current = self.is_current(&outgoing.session);
        if !current && outgoing.purpose == Purpose::Initialized {
            return Recovery::Waits;
        }
        if !current {
            return self.admit(now, outgoing, route).map_or(Recovery::Waits, Recovery::Resend);
        }
        if outgoing.purpose != Purpose::Initialized {
            self.held.push_front(outgoing);
        }
        self.reinitialize(route).map_or(Recovery::Waits, Recovery::Reinitialize)
    }

    fn reinitialize(&mut self, route: &mut Route) -> Option<Outgoing> {
        let message = one(self.memory.initialize.as_ref()?)?;
        let (key, id) = route.open_own(Asked::NewSession);
        self.phase = Phase::AwaitInitialize(Some(key));
        self.session = context(self.session.number, None, None);
        Some(Outgoing::new(Purpose::Reinitialize(key), message.with_id(&id)))
    }
}

/// The headers for messages in a session, or between two sessions.
fn context(number: u64, id: Option<HeaderValue>, version: Option<HeaderValue>) -> Arc<SessionContext> {
    let named = id.is_some();
    let headers = [(SESSION_ID, id), (PROTOCOL_VERSION, version)];
    let headers = headers.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    Arc::new(SessionContext { number, headers, named, stateless: false })
}

/// What to do with a message whose session is lost.
#[derive(Debug)]
pub(crate) enum Recovery {
    /// Send it at once: the session has already been replaced.
    Resend(Outgoing),
    /// Hold it, and send this to open a new session.
    Reinitialize(Outgoing),
    /// Hold it until the new session is open.
    Waits,
    /// It was recovered before, or there is no handshake to repeat.
    Impossible(Outgoing),
}

impl Memory {
    fn asked(&mut self, key: RequestKey, message: &Message) {
        let Kind::Request { method, .. } = &message.kind else { return };
        let setting = ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"].contains(&&**method);
        if setting && message.bytes.len() <= LONGEST_SETTING && self.asked.len() < MOST_SETTINGS {
            self.asked.insert(key, message.clone());
        }
    }

    /// Remembers or forgets a setting. Returns `false` if there was nothing to do.
    fn learn(&mut self, message: Message) -> bool {
        let Kind::Request { method, .. } = &message.kind else { return false };
        let uri = message::text_member(message.params(), "uri");
        match (&**method, uri) {
            ("logging/setLevel", _) => self.log_level = Some(message.bytes.into()),
            ("resources/unsubscribe", Some(uri)) => return self.subscriptions.remove(&uri).is_some(),
            (_, Some(uri)) if self.subscriptions.len() < MOST_SETTINGS => {
                self.subscriptions.insert(uri, message.bytes.into());
            }
            (_, _) => return false,
        }
        true
    }

    fn settings(&self) -> impl Iterator<Item = &Bytes> {
        self.subscriptions.values().chain(&self.log_level)
    }
}
