//! The meaning of a protocol revision: methods, versions, sessions. Only these modules
//! know which era a peer speaks. Sockets and retries do not belong here.

mod held;
pub(crate) mod legacy;
mod listening;
pub(crate) mod modern;
mod probe;
mod state;
mod stateful;
mod stateless;
mod step;

pub(crate) use modern::mirror;
pub(crate) use step::{Cancellation, FromClient, FromServer, Reply, Step};

use crate::config::{self, ClientTransport, Config, Detection, Found, Snapshot};
use crate::failure::{Delivered, Failure, Phase};
use crate::note::Note;
use crate::outgoing::{Outgoing, Purpose};
use crate::quirks::Quirks;
use crate::rng::Rng;
use crate::route::{Asked, RequestKey, Route};
use crate::time::{Deadline, Time, earlier};
use crate::wire::message::{self, Id, Message, Parsed};
use bytes::Bytes;
use http::HeaderName;
use legacy::{Conclusion, Legacy};
use modern::{edit, subscriptions};
use probe::Verdict;
use state::States;
use stateful::Stateful;
use stateless::Stateless;

/// What the server speaks, and how the proxy speaks to it.
#[derive(Debug)]
pub(crate) struct Era {
    choice: config::Era,
    server: Server,
    pub(crate) legacy: Legacy,
    stateless: Stateless,
    stateful: Stateful,
    /// The session with the server is the proxy's, for a modern client.
    lends_session: bool,
    /// The handshake for a lost session, while the proxy detects the server's era.
    reopening: Option<Outgoing>,
    rng: Rng,
}

/// What the proxy knows about the server's era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Unknown,
    /// The proxy has sent `server/discover`; everything else is held.
    Probing {
        again: bool,
    },
    Legacy,
    Modern,
}

/// How the proxy's `server/discover` ended.
#[derive(Debug)]
pub(crate) enum Discovered<'a> {
    /// With a result or an error of the server.
    Answer(&'a Message),
    /// With a refusal, perhaps with an error of the server.
    Refused(&'a Failure, Option<&'a Message>),
    /// Without an answer.
    Failed(&'a Failure),
    /// With silence.
    Expired,
}

/// What to do once `server/discover` has ended.
#[derive(Debug)]
pub(crate) enum Detected {
    /// The server is modern. With the steps that a lost session needs.
    Modern(Vec<Step>),
    /// The server is legacy, or `initialize` decides.
    Legacy(Vec<Step>),
    /// Send this first.
    Again(Outgoing),
    /// The held handshake fails.
    Failed(Failure),
}

impl Discovered<'_> {
    fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Answer(_) | Self::Expired => None,
            Self::Refused(failure, _) | Self::Failed(failure) => Some(failure),
        }
    }
}

impl Era {
    pub(crate) fn new(config: &Config, mut rng: Rng) -> Self {
        // HTTP+SSE is older than the modern era.
        let legacy = config.era == config::Era::Legacy || config.transport == config::Transport::Sse;
        let found = config.found().is_some_and(|found| found.era == config::Era::Legacy);
        let server = if legacy || found { Server::Legacy } else { Server::Unknown };
        let states = match &config.client {
            ClientTransport::Http(client) if !client.states.is_empty() => States::of(&client.states),
            ClientTransport::Http(_) | ClientTransport::Lines => States::of_one_client(&mut rng),
        };
        Self {
            choice: config.era,
            server,
            legacy: Legacy::new(config.total_timeout),
            stateless: Stateless::new(config.url.host_str().unwrap_or_default(), config.total_timeout),
            stateful: Stateful::new(config.max_message, config.total_timeout, states),
            lends_session: false,
            reopening: None,
            rng,
        }
    }

    /// Continues a session that another machine had.
    pub(crate) fn resume(&mut self, known: &Snapshot) {
        self.legacy.resume(known);
        if let Some(initialize) = one(&known.initialize) {
            self.stateless.introduced(initialize.params());
        }
        self.stateless.resume(known);
    }

    /// The server speaks the modern era: no sessions, no listening stream, no pings.
    pub(crate) fn is_modern(&self) -> bool {
        self.server == Server::Modern
    }

    /// What the proxy knows about a server that it reaches over this transport.
    pub(crate) fn detection(&self, transport: config::Transport) -> Detection {
        let found = |era| Detection::Found(Found { era, transport });
        match self.server {
            Server::Unknown | Server::Probing { .. } => Detection::Unknown,
            Server::Legacy if self.legacy.open() => found(config::Era::Legacy),
            Server::Legacy => Detection::Assumed,
            Server::Modern => found(config::Era::Modern),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let stateless = if self.is_modern() { self.stateless.deadline() } else { None };
        earlier(earlier(self.legacy.deadline(), stateless), self.stateful.deadline())
    }

    /// What to do with a message from the client.
    pub(crate) fn client_message(&self, message: &Message, route: &Route) -> FromClient {
        match step::from_client(message, route) {
            // The session is the proxy's, so the server does not know a modern client's notifications.
            FromClient::Send(_) if self.lends_session() => FromClient::Drop(None),
            decided @ (FromClient::Request { .. }
            | FromClient::Cancel(_)
            | FromClient::Answer(_)
            | FromClient::Send(_)
            | FromClient::Drop(_)) => decided,
        }
    }

    /// What to do with a message from the server. `origin` is the request whose response
    /// carried it.
    pub(crate) fn server_message(
        &self,
        message: &Message,
        origin: Option<RequestKey>,
        route: &Route,
        quirks: Quirks,
    ) -> FromServer {
        let lends = self.lends_session();
        // A modern server asks by results, and there is no session yet whose client could
        // be asked when it answers `server/discover`.
        let discovers = || origin.is_some_and(|key| route.asked(key) == Some(Asked::Discovery));
        match step::from_server(message, origin, route, quirks) {
            FromServer::Ask { .. } if self.is_modern() || discovers() => FromServer::Drop(Note::AskForbidden),
            FromServer::Ask { aside } if lends || origin.is_some_and(|key| self.translates(key)) => {
                FromServer::Park { aside }
            }
            // A modern client knows the question only as part of an answer.
            FromServer::Withdraw { question, .. } if lends => FromServer::Withdraw { question, tell: false },
            FromServer::Deliver if lends => FromServer::Distribute,
            decided @ (FromServer::Answer(_)
            | FromServer::Ask { .. }
            | FromServer::Park { .. }
            | FromServer::Progress(_)
            | FromServer::Withdraw { .. }
            | FromServer::Deliver
            | FromServer::Distribute
            | FromServer::Drop(_)
            | FromServer::Late { .. }) => decided,
        }
    }

    /// How a request is cancelled at the server.
    pub(crate) fn cancellation(&self) -> Cancellation {
        if self.is_modern() {
            Cancellation::Close
        } else if self.lends_session {
            Cancellation::Notify
        } else {
            Cancellation::Relay
        }
    }

    /// Whether an idle server can be pinged.
    pub(crate) fn pings(&self) -> bool {
        !self.is_modern() && self.legacy.open()
    }

    /// The notifications for a client whose session was replaced.
    pub(crate) fn list_changes(&self, initialized: &str) -> Vec<Vec<u8>> {
        if self.lends_session() { Vec::new() } else { list_changes(initialized) }
    }

    /// Remembers the parts of a client's request that a new session, or each later
    /// request, would need. A client that opens a session replaces any that the proxy was
    /// opening or has lent it.
    pub(crate) fn requested(&mut self, purpose: Purpose, message: &Message) -> Vec<Step> {
        self.legacy.requested(purpose, message);
        let Purpose::Initialize(_) = purpose else { return Vec::new() };
        self.stateless.introduced(message.params());
        if let Server::Probing { .. } = self.server {
            self.lends_session = false;
            return Vec::new();
        }
        let mut steps: Vec<Step> = self.legacy.superseded().map(Step::Close).into_iter().collect();
        if std::mem::take(&mut self.lends_session) {
            let why = "the client has opened another session";
            steps.extend(self.stateful.not_opened(&Failure::new(Phase::Session, Delivered::No, why)));
        }
        steps
    }

    /// A request of the client is over. Returns whether the snapshot has changed.
    pub(crate) fn concluded(&mut self, key: RequestKey, conclusion: Conclusion) -> bool {
        self.legacy.concluded(key, conclusion)
    }

    /// Whether a message stays as it is: client and server are legacy.
    pub(crate) fn relays(&self, outgoing: &Outgoing) -> bool {
        self.server == Server::Legacy && !outgoing.modern
    }

    /// Admits a message. Returns what to do now.
    pub(crate) fn admit(&mut self, now: Time, outgoing: Outgoing, route: &mut Route) -> Vec<Step> {
        let opens = outgoing.purpose.traits().handshake || outgoing.modern;
        match self.server {
            Server::Unknown if opens => {
                let like = outgoing.modern.then(|| one(&outgoing.body)).flatten();
                self.legacy.hold(outgoing);
                vec![Step::Send(self.probe(like.as_ref(), route))]
            }
            Server::Probing { .. } => {
                self.legacy.hold(outgoing);
                Vec::new()
            }
            Server::Legacy if outgoing.modern => self.lend(now, outgoing, route),
            Server::Unknown | Server::Legacy => {
                let outgoing = self.legacy.admit(now, outgoing, route);
                outgoing.map(|outgoing| Step::Send(self.launch(outgoing, route))).into_iter().collect()
            }
            Server::Modern => self.stateless.admit(now, outgoing, route),
        }
    }

    /// Serves a modern client with a session of the proxy's own. A client that has opened
    /// a session itself is legacy, whatever its requests look like.
    fn lend(&mut self, now: Time, outgoing: Outgoing, route: &mut Route) -> Vec<Step> {
        self.lends_session |= !self.legacy.introduced();
        if !self.lends_session {
            let outgoing = Outgoing { modern: false, ..outgoing };
            return self.legacy.admit(now, outgoing, route).map(Step::Send).into_iter().collect();
        }
        self.stateful.admit(now, outgoing, &mut self.legacy, route)
    }

    /// The client is modern, and the server's session is the proxy's.
    fn lends_session(&self) -> bool {
        self.lends_session && !self.is_modern()
    }

    /// Whether the answers to a request must change eras.
    pub(crate) fn translates(&self, key: RequestKey) -> bool {
        self.is_modern() || self.stateful.knows(key)
    }

    /// The server asks something in such a session.
    pub(crate) fn ask(
        &mut self,
        now: Time,
        origin: Option<RequestKey>,
        message: &Message,
        route: &mut Route,
    ) -> Vec<Step> {
        self.stateful.ask(now, origin, message, &mut self.legacy, route)
    }

    /// The server notifies in such a session.
    pub(crate) fn notified(&mut self, origin: Option<RequestKey>, message: &Message) -> Vec<Step> {
        self.stateful.notified(origin, message)
    }

    /// A session of the proxy's own is open.
    pub(crate) fn lent(&mut self, now: Time, result: &str, route: &mut Route) -> Vec<Step> {
        if !self.lends_session() {
            return Vec::new();
        }
        self.stateful.opened(now, result, &mut self.legacy, route)
    }

    /// Such a session could not be opened.
    pub(crate) fn not_lent(&mut self, failure: &Failure) -> Vec<Step> {
        self.stateful.not_opened(failure)
    }

    /// Whether the server's side of a request is open and the client's is not.
    pub(crate) fn is_parked(&self, key: RequestKey) -> bool {
        self.stateful.is_parked(key)
    }

    /// How many subscriptions of clients are open, about which no server asks anything.
    pub(crate) fn listens(&self) -> usize {
        self.stateful.listens()
    }

    /// Whether a request waits for its client to repeat it.
    pub(crate) fn parks(&self) -> bool {
        self.stateful.parks()
    }

    /// The client has left, and will repeat no request.
    pub(crate) fn abandoned(&mut self, now: Time, route: &mut Route) -> Vec<Step> {
        self.stateful.abandoned(now, &mut self.legacy, route)
    }

    /// The server's session is lost.
    pub(crate) fn session_lost(&mut self) -> Vec<Step> {
        self.stateful.session_lost()
    }

    /// Tells the server of the subscriptions that end with a request of the client.
    pub(crate) fn unsubscribe(&mut self, now: Time, key: RequestKey, route: &mut Route) -> Vec<Step> {
        self.stateful.unsubscribe(now, key, &mut self.legacy, route)
    }

    /// The server's questions in a request that is over.
    pub(crate) fn unasked(&mut self, key: RequestKey) -> Vec<Id> {
        self.stateful.forget(key)
    }

    /// The notification that cancels a request at a legacy server.
    pub(crate) fn cancelled(wire: &Id) -> Vec<u8> {
        cancelled(wire, "the client cancelled it")
    }

    /// Puts `server/discover` before a handshake that the proxy makes for a lost session.
    fn launch(&mut self, outgoing: Outgoing, route: &mut Route) -> Outgoing {
        if self.server != Server::Unknown || !outgoing.purpose.traits().handshake {
            return outgoing;
        }
        self.reopening = Some(outgoing);
        self.probe(None, route)
    }

    /// What can be done with the next held message.
    pub(crate) fn release(&mut self, now: Time, route: &mut Route) -> Option<Vec<Step>> {
        match self.server {
            Server::Probing { .. } => None,
            Server::Modern => self.legacy.unhold().map(|outgoing| self.stateless.released(now, outgoing, route)),
            Server::Unknown | Server::Legacy => {
                let outgoing = self.legacy.release(now, route)?;
                Some(vec![Step::Send(self.launch(outgoing, route))])
            }
        }
    }

    /// Replaces the session if it is lost.
    pub(crate) fn reopen(&mut self, route: &mut Route) -> Option<Outgoing> {
        let outgoing = self.legacy.reopen(route)?;
        Some(self.launch(outgoing, route))
    }

    /// The server's answer to a request of the client.
    pub(crate) fn answered(&mut self, now: Time, key: RequestKey, message: Message, route: &mut Route) -> Vec<Step> {
        if self.is_modern() {
            return self.stateless.answered(now, key, message, route);
        }
        self.stateful.answered(now, key, message, route)
    }

    /// The server refused a request of the client with this error.
    pub(crate) fn refused(&mut self, now: Time, key: RequestKey, error: Message, route: &mut Route) -> Vec<Step> {
        if self.is_modern() {
            return self.stateless.refused(key, error, route);
        }
        self.stateful.answered(now, key, error, route)
    }

    /// The server answered, or failed to answer, the proxy's `tools/list`.
    pub(crate) fn looked_up(&mut self, key: RequestKey, result: Option<&str>, route: &mut Route) -> Vec<Step> {
        if self.is_modern() {
            return self.stateless.looked_up(key, result, route);
        }
        self.stateful.subscribed(key, result.is_some())
    }

    /// A notification on the proxy's own `subscriptions/listen`.
    pub(crate) fn heard(&mut self, now: Time, key: RequestKey, message: &Message, route: &mut Route) -> Vec<Step> {
        self.stateless.heard(now, key, message, route)
    }

    /// The proxy's own `subscriptions/listen` ended. `refused`: for good.
    pub(crate) fn unsubscribed(&mut self, now: Time, key: RequestKey, refused: bool) -> Vec<Step> {
        self.stateless.listening.ended(now, key, refused, &mut self.rng)
    }

    /// Whether a question comes from the proxy, on behalf of a modern server.
    pub(crate) fn is_question(&self, id: &Id) -> bool {
        self.stateless.is_question(id)
    }

    /// The client answered such a question.
    pub(crate) fn replied(&mut self, id: &Id, message: &Message, route: &mut Route) -> Vec<Step> {
        self.stateless.replied(id, message, route)
    }

    /// The client cannot answer such a question.
    pub(crate) fn unanswerable(&mut self, id: &Id, why: &str) -> Vec<Step> {
        self.stateless.unanswerable(id, why)
    }

    /// How often the proxy sent an open request to a modern server.
    pub(crate) fn attempts(&self, key: RequestKey) -> u32 {
        self.stateless.attempts(key)
    }

    /// Forgets a request of the client. Returns the questions that need no answer now.
    pub(crate) fn forget(&mut self, key: RequestKey) -> Vec<Id> {
        if !self.is_modern() {
            return Vec::new();
        }
        self.stateless.forget(key)
    }

    /// Whether a request still needs the answer to what the proxy sent in this round.
    pub(crate) fn awaits(&self, key: RequestKey, round: u32) -> bool {
        self.stateless.awaits(key, round)
    }

    /// A progress notification as the client expects it. `None` if the client must not
    /// get it now.
    pub(crate) fn progressed(&mut self, key: RequestKey, message: Message) -> Option<Message> {
        if self.is_modern() {
            return self.stateless.progressed(key, message.params()).then_some(message);
        }
        self.stateful.progressed(key, message)
    }

    /// Removes the held requests that have timed out.
    pub(crate) fn overdue(&mut self, now: Time) -> Vec<Outgoing> {
        let mut overdue = self.legacy.overdue(now);
        overdue.extend(self.stateful.overdue(now));
        overdue
    }

    pub(crate) fn tick(&mut self, now: Time, route: &mut Route) -> Vec<Step> {
        let mut steps = self.stateless.tick(now, route, &mut self.rng);
        steps.extend(self.stateful.tick(now, &mut self.legacy, route));
        steps
    }

    /// Bytes of the client's messages that have not left, or may have to go again.
    pub(crate) fn kept(&self) -> usize {
        self.legacy.held() + self.stateless.kept() + self.stateful.kept()
    }

    /// The version that a legacy client of a modern server works with.
    pub(crate) fn version(&self) -> Option<String> {
        self.stateless.version()
    }

    fn probe(&mut self, like: Option<&Message>, route: &mut Route) -> Outgoing {
        self.server = Server::Probing { again: self.server == Server::Probing { again: false } };
        self.legacy.await_era();
        self.stateless.discover(like, route)
    }

    /// The proxy's `server/discover` has ended.
    pub(crate) fn discovered(&mut self, now: Time, discovered: &Discovered<'_>, route: &mut Route) -> Detected {
        let Server::Probing { again } = self.server else { return Detected::Legacy(Vec::new()) };
        let verdict = verdict(discovered, again);
        match verdict {
            Verdict::Modern => {
                self.server = Server::Modern;
                if let Discovered::Answer(message) = discovered {
                    self.stateless.discovered(message.result());
                }
                let steps = self.reopening.take().map(|outgoing| {
                    outgoing.purpose.traits().key.map(|key| route.close(key));
                    self.legacy.opened_without_session(self.stateless.version());
                    self.stateless.restored(now, route)
                });
                Detected::Modern(steps.unwrap_or_default())
            }
            Verdict::Again => Detected::Again(self.probe(None, route)),
            Verdict::Legacy if self.choice == config::Era::Modern => {
                self.server = Server::Unknown;
                let why = format!("the server did not answer in revision {MODERN}, which --era modern requires");
                Detected::Failed(Failure::new(Phase::Detect, Delivered::No, why))
            }
            Verdict::Legacy => {
                self.server = Server::Legacy;
                let mut steps: Vec<Step> = self.reopening.take().map(Step::Send).into_iter().collect();
                for outgoing in self.legacy.take_modern() {
                    steps.extend(self.lend(now, outgoing, route));
                }
                Detected::Legacy(steps)
            }
            Verdict::Incompatible(versions) => {
                self.server = Server::Unknown;
                let ours = VERSIONS.iter().copied().chain([MODERN]).collect::<Vec<_>>().join(", ");
                let theirs = versions.iter().map(String::as_str).take(16).collect::<Vec<_>>().join(", ");
                let why =
                    format!("the server supports none of the proxy's versions: it has {theirs}; the proxy has {ours}");
                Detected::Failed(Failure::new(Phase::Detect, Delivered::No, why))
            }
            Verdict::Nothing => {
                self.server = Server::Unknown;
                let unknown = || Failure::new(Phase::Detect, Delivered::No, "the server's era could not be detected");
                Detected::Failed(discovered.failure().cloned().unwrap_or_else(unknown))
            }
        }
    }

    /// No session could be opened: the server may have changed, so the next handshake asks
    /// for its era again. A server that speaks HTTP+SSE has only one.
    pub(crate) fn doubt(&mut self, transport: config::Transport) {
        let sure = transport == config::Transport::Sse || self.choice != config::Era::Auto;
        if self.server == Server::Legacy && !sure {
            self.server = Server::Unknown;
        }
    }

    /// The messages that waited for the era, which could not be detected.
    pub(crate) fn undetected(&mut self) -> Vec<Outgoing> {
        let held = if self.lends_session { self.legacy.not_lent() } else { self.legacy.not_opened() };
        self.reopening.take().into_iter().chain(held).collect()
    }
}

/// What the end of a `server/discover` says. A status that says nothing makes the body
/// irrelevant.
fn verdict(discovered: &Discovered<'_>, again: bool) -> Verdict {
    match discovered {
        Discovered::Answer(message) if message.error().is_empty() => probe::of_result(message.result()),
        Discovered::Answer(message) => probe::of_error(message.error(), again),
        Discovered::Refused(failure, error) => {
            let by_status = probe::of_status(failure.data.http_status);
            let error = error.filter(|_| by_status != Verdict::Nothing);
            error.map_or(by_status, |error| probe::of_error(error.error(), again))
        }
        Discovered::Failed(failure) => probe::of_status(failure.data.http_status),
        Discovered::Expired => Verdict::Legacy,
    }
}

/// The one message in some bytes.
fn one(bytes: &Bytes) -> Option<Message> {
    match message::parse(bytes.to_vec()) {
        Ok(Parsed::One(message)) => Some(message),
        Ok(Parsed::Batch(_)) | Err(_) => None,
    }
}

/// The methods that the proxy handles itself. It relays all others unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Initialize,
    Initialized,
    Cancelled,
    Progress,
    Ping,
    Discover,
    Plain,
}

/// Whether a request with this method opens a session.
pub(crate) fn opens_session(method: &str) -> bool {
    role(method) == Role::Initialize
}

fn role(method: &str) -> Role {
    match method {
        "initialize" => Role::Initialize,
        "notifications/initialized" => Role::Initialized,
        "notifications/cancelled" => Role::Cancelled,
        "notifications/progress" => Role::Progress,
        "ping" => Role::Ping,
        "server/discover" => Role::Discover,
        _ => Role::Plain,
    }
}

/// The newest version with sessions.
const LATEST_LEGACY: &str = "2025-11-25";
/// The version without sessions.
pub(crate) const MODERN: &str = "2026-07-28";
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The versions with sessions. HTTP clients can use only these.
pub(crate) const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Whether a request with this method lasts until the client cancels it.
pub(crate) fn lasts(method: &str) -> bool {
    method == "subscriptions/listen"
}

/// Whether a POST may carry a batch.
pub(crate) fn batches(version: &str) -> bool {
    version == "2025-03-26"
}

/// Whether a client can read an event without data. Clients of earlier versions treat it
/// as a broken message.
pub(crate) fn primes(version: &str) -> bool {
    version >= "2025-11-25"
}

/// The notifications for the client after its session was replaced: every list whose
/// changes the server announces may have changed.
fn list_changes(initialized: &str) -> Vec<Vec<u8>> {
    let capabilities = message::member(initialized, "capabilities").unwrap_or_default();
    let announces = |list: &&str| {
        let list = message::member(capabilities, list).unwrap_or_default();
        message::member(list, "listChanged") == Some("true")
    };
    let lists = ["tools", "resources", "prompts"].into_iter().filter(announces);
    let notification = |list| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{list}/list_changed\"}}");
    lists.map(|list| notification(list).into_bytes()).collect()
}

/// Whether it is safe to send such a request twice: it only reads, or it opens a session
/// that the proxy can abandon.
fn repeatable(method: &str) -> bool {
    let reads = ["initialize", "ping", "prompts/get", "resources/read", "completion/complete", "server/discover"];
    method.ends_with("/list") || reads.contains(&method)
}

/// What the metadata of a request says: the token under which the server will report
/// progress, and whether it has the form of the modern era.
fn metadata(params: &str) -> (Option<Id>, bool) {
    let mut underscores = memchr::memchr_iter(b'_', params.as_bytes());
    if !underscores.any(|at| params.as_bytes().get(at..).is_some_and(|rest| rest.starts_with(b"_meta"))) {
        return (None, false);
    }
    let meta = message::member(params, "_meta").unwrap_or_default();
    let token = message::member(meta, "progressToken").and_then(Id::parse);
    (token, modern::envelope::is_in_meta(meta))
}

/// The token under which the server will report progress of this request.
pub(crate) fn progress_token(params: &str) -> Option<Id> {
    metadata(params).0
}

/// Params with another progress token.
pub(crate) fn with_progress_token(params: &str, token: &Id) -> String {
    edit::with_meta(params, &[], &[("progressToken", token.text())])
}

/// The params of a `notifications/progress` under another token, if they have this one.
pub(crate) fn renamed_progress(params: &str, from: &Id, to: &Id) -> Option<String> {
    let reported = reported_token(params).filter(|token| token == from);
    reported.map(|_| edit::with(params, &[("progressToken", to.text())]))
}

/// Params or a result that belong to another subscription, if they belong to this one.
pub(crate) fn renamed_subscription(object: &str, from: &Id, to: &Id) -> Option<String> {
    let subscribed = memchr::memmem::find(object.as_bytes(), b"subscriptionId").is_some();
    let tagged = subscribed.then(|| subscriptions::subscription(object)).flatten().filter(|id| id == from);
    tagged.map(|_| subscriptions::tag(object, to))
}

/// The token of a `notifications/progress`.
fn reported_token(params: &str) -> Option<Id> {
    Id::parse(message::member(params, "progressToken")?)
}

/// The request that a `notifications/cancelled` names.
fn cancelled_request(params: &str) -> Option<Id> {
    Id::parse(message::member(params, "requestId")?)
}

/// The notification that tells the server to stop working on a request.
fn cancelled(id: &Id, reason: &str) -> Vec<u8> {
    let params = format!("{{\"requestId\":{},\"reason\":\"{reason}\"}}", id.text());
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{params}}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reading_methods_are_repeatable() {
        for method in ["tools/list", "resources/templates/list", "resources/read", "initialize", "prompts/get"] {
            assert!(repeatable(method), "{method}");
        }
        for method in ["tools/call", "resources/subscribe", "logging/setLevel", "tasks/result", "x"] {
            assert!(!repeatable(method), "{method}");
        }
    }

    #[test]
    fn only_what_the_server_would_announce_is_announced() {
        let result =
            r#"{"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{}}}"#;
        assert_eq!(list_changes(result), [br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#]);
        assert!(list_changes("{}").is_empty());
    }

    #[test]
    fn tokens_and_ids_are_found_where_the_protocol_has_them() {
        let id = |text| Id::parse(text);
        assert_eq!(progress_token(r#"{"_meta":{"progressToken":0},"a":1}"#), id("0"));
        assert_eq!(progress_token(r#"{"progressToken":0}"#), None);
        assert_eq!(reported_token(r#"{"progressToken":"a","progress":1}"#), id("\"a\""));
        assert_eq!(cancelled_request(r#"{"requestId":7}"#), id("7"));
        assert_eq!(cancelled_request(""), None);
    }
}
