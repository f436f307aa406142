//! The coordinator: owns the modules and the only output queue, never lets time run
//! backwards, and dispatches every fact. A message visits each module once. Protocol
//! decisions belong to the modules.

mod exchanges;
mod from_client;
mod from_server;
mod modern;
mod stage;

use crate::back::http::HttpBack;
use crate::boundary::{Exit, Input, Output, Side, Sink, Source};
use crate::config::{ClientTransport, Config, Detection, HttpTransport, Snapshot, Transport};
use crate::era::Era;
use crate::flow::ToClient;
use crate::front::Front;
use crate::ledger::{Entry, Ledger};
use crate::note::Note;
use crate::outgoing::{Outgoing, Purpose, SessionContext};
use crate::rng::Rng;
use crate::route::{RequestKey, Route};
use crate::time::{Deadline, Time, earlier};
use crate::wire::message::Id;
use bytes::Bytes;
use from_client::MOST_UNTAKEN;
use http::{HeaderName, HeaderValue};
use stage::Stage;
use std::collections::VecDeque;
use std::time::Duration;

/// If a tick comes this much after its deadline, the computer slept.
const OVERSLEPT: Duration = Duration::from_secs(30);

/// The machine between one client and one server.
#[derive(Debug)]
pub struct Proxy {
    front: Front,
    route: Route,
    ledger: Ledger,
    era: Era,
    back: HttpBack,
    to_client: ToClient,
    queue: VecDeque<Output>,
    stage: Stage,
    now: Time,
    config: Config,
}

impl Proxy {
    /// Makes a new machine. The seed determines jitter and the ids of the proxy's own
    /// requests. With the same seed, and the same facts at the same times, two machines
    /// return the same outputs.
    #[must_use]
    pub fn new(config: &Config, seed: u64, now: Time) -> Self {
        let mut rng = Rng::new(seed);
        let route = Route::new(&mut rng);
        let mut era = Era::new(config, Rng::new(seed.wrapping_add(1)));
        if let ClientTransport::Http(HttpTransport { resumed: Some(known), .. }) = &config.client {
            era.resume(known);
        }
        let mut proxy = Self {
            front: Front::new(config, &mut rng),
            route,
            ledger: Ledger::default(),
            era,
            back: HttpBack::new(config.clone(), rng, now),
            to_client: ToClient::default(),
            queue: VecDeque::new(),
            stage: Stage::Running,
            now,
            config: config.clone(),
        };
        if let ClientTransport::Http(client) = &config.client {
            proxy.end_session(&client.left);
        }
        proxy
    }

    /// Handles one fact. Never fails, never blocks. An earlier time than the last one
    /// counts as the last one.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        self.now = self.now.max(now);
        if self.stage == Stage::Over {
            return;
        }
        match input {
            Input::Tick => self.tick(),
            Input::Bytes(Side::Client, bytes) => self.client_bytes(bytes),
            Input::Eof(Side::Client) => self.client_eof(),
            Input::Request(id, parts, body) => self.client_asked(id, &parts, body),
            Input::Gone(id) => self.client_gone(id),
            Input::Head(id, head) => self.back.head(self.now, id, head.status, &head.headers),
            Input::Chunk(id, chunk) => self.server_bytes(id, chunk),
            Input::End(id) => self.back.end(self.now, id),
            Input::Failed(id, error, words) => self.back.failed(self.now, id, error, words),
            Input::Flushed(Sink::Side(Side::Client), count) => self.flushed(|to_client| to_client.flushed(count)),
            Input::Flushed(Sink::Exchange(id), count) => self.client_took(id, count),
            Input::Flushed(Sink::Call(id), count) => self.back.uploaded(id, count),
            Input::Waiting(why) => self.shell_waits(why),
            Input::Stop => self.stop(),
            Input::Shutdown => self.shutdown(),
        }
        self.advance();
    }

    /// The next output, in order. May change after `handle`.
    pub fn poll(&mut self) -> Option<Output> {
        self.queue.pop_front()
    }

    /// When to send [`Input::Tick`], and why. May change after `handle`.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        if self.stage == Stage::Over {
            return None;
        }
        let rooms = earlier(self.back.deadline(self.pings()), self.era.deadline());
        let front = if let Front::Http(front) = &self.front { front.deadline() } else { None };
        let rooms = earlier(rooms, front);
        earlier(self.stage.deadline(), rooms)
    }

    /// Whether the shell may read from this source now. May change after `handle`.
    #[must_use]
    pub fn wants(&self, source: Source) -> bool {
        match source {
            Source::Side(Side::Client) => {
                self.stage == Stage::Running
                    && self.back.held().untaken < MOST_UNTAKEN
                    && self.era.legacy.waiting() < MOST_UNTAKEN
                    && self.to_client.client_may_send(self.unsent(), self.config.max_message)
            }
            Source::Call(id) => self.stage != Stage::Over && !self.to_client.full() && self.back.wants(id),
        }
    }

    /// Continues the session of a lost machine. A legacy server gets `initialize` at once.
    pub fn resume(&mut self, known: &Snapshot) {
        self.era.resume(known);
        self.tell_snapshot();
        self.reopen();
        self.advance();
    }

    /// Starts the ledger: from now on, [`Proxy::ledger`] reports the client's open requests.
    pub fn start_ledger(&mut self) {
        self.ledger.start();
    }

    /// Takes the changes to the list of open requests. The shell must store them before it
    /// carries out the outputs of `poll`.
    pub fn ledger(&mut self) -> Vec<Entry> {
        self.ledger.take()
    }

    /// The headers that name the session at the server. A shell that loses its machine
    /// passes them to the next one, which ends that session. May change after `handle`.
    #[must_use]
    pub fn session(&self) -> &[(HeaderName, HeaderValue)] {
        self.era.legacy.name()
    }

    /// Ends a session that another machine has left open. HTTP+SSE has none of these.
    fn end_session(&mut self, headers: &[(HeaderName, HeaderValue)]) {
        if headers.is_empty() || self.back.transport() == Transport::Sse {
            return;
        }
        let session = SessionContext { headers: headers.to_vec(), named: true, ..SessionContext::default() };
        let goodbye = Outgoing { session: session.into(), ..Outgoing::new(Purpose::Goodbye, Bytes::new()) };
        self.back.send(self.now, goodbye);
    }

    /// How many bytes of an unfinished line of the client the machine holds.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.front.held()
    }

    /// Whether a request of the client is open, or is parked until the client repeats it.
    /// May change after `handle`.
    #[must_use]
    pub fn busy(&self) -> bool {
        !self.route.idle() || self.era.parks()
    }

    /// What the machine knows about the server. May change after `handle`.
    #[must_use]
    pub fn detection(&self) -> Detection {
        match self.era.detection(self.back.transport()) {
            Detection::Assumed if self.refuted() => Detection::Unknown,
            detection @ (Detection::Unknown | Detection::Assumed | Detection::Found(_)) => detection,
        }
    }

    /// The machine was told that the server speaks HTTP+SSE, and it does not.
    fn refuted(&self) -> bool {
        let told = self.config.found().is_some_and(|found| found.transport == Transport::Sse);
        told && self.back.transport() != Transport::Sse
    }

    /// Whether one more request may come that the server asks questions about: over
    /// HTTP+SSE a question does not say which request it belongs to. `None` while the
    /// machine is still finding out how to reach the server. May change after `handle`.
    #[must_use]
    pub fn tells_apart(&self) -> Option<bool> {
        let alone = self.route.open_requests() == self.era.listens() && !self.era.parks();
        let told = self.config.transport == Transport::Sse || self.config.found().is_some();
        match self.detection() {
            _ if alone => Some(true),
            Detection::Found(found) => Some(found.transport == Transport::StreamableHttp),
            Detection::Assumed if told && self.back.transport() == Transport::Sse => Some(false),
            Detection::Unknown | Detection::Assumed => None,
        }
    }

    /// Bytes of the client's messages that have not left for the server.
    fn unsent(&self) -> usize {
        self.front.held() + self.era.legacy.held() + self.back.held().unsent
    }

    /// Bytes of the client's messages that the proxy holds, to send them or to send them
    /// again.
    fn kept(&self) -> usize {
        self.era.kept() + self.back.held().kept
    }

    /// How many messages are on their way to the server, or wait for it.
    fn under_way(&self) -> usize {
        self.era.legacy.waiting() + self.back.held().calls
    }

    fn tick(&mut self) {
        if self.deadline().is_some_and(|deadline| self.now.since(deadline.at) >= OVERSLEPT) {
            self.back.woke(self.now);
        }
        self.fail_overdue();
        if self.era.legacy.tick(self.now) {
            self.listen();
        }
        let steps = self.era.tick(self.now, &mut self.route);
        self.carry_out(steps);
        // A client that leaves may leave calls behind, which are due at once.
        self.client_tick();
        let paused = self.paused();
        let excused = |key| paused || self.era.is_parked(key);
        self.back.tick(self.now, excused, self.pings());
        // Report expired requests before `stage_tick` answers the rest.
        self.advance();
        self.stage_tick();
    }

    /// Whether to ping an idle server.
    fn pings(&self) -> bool {
        self.stage == Stage::Running && self.era.pings()
    }

    fn listen(&mut self) {
        self.send(Outgoing::new(Purpose::Listen, Bytes::new()));
    }

    /// Whether the server's silence does not count: the client owes the server an answer,
    /// or does not read the server's messages.
    fn paused(&self) -> bool {
        self.route.client_owes() || self.to_client.full()
    }

    /// The client has read some bytes. If the proxy can now read from the server again, the
    /// server's silence counts from now on.
    fn flushed(&mut self, take: impl FnOnce(&mut ToClient)) {
        let was_full = self.to_client.full();
        take(&mut self.to_client);
        if was_full && !self.to_client.full() {
            self.back.touch(self.now, None);
        }
    }

    /// Handles reports and released messages until there are none, and leaves once there is
    /// nothing to wait for.
    fn advance(&mut self) {
        loop {
            if let Some(report) = self.back.report(self.now) {
                self.reported(report);
            } else if let Some(steps) = self.era.release(self.now, &mut self.route) {
                self.carry_out(steps);
            } else if !self.leave_when_done() {
                return;
            }
        }
    }

    /// Passes a message to the era, and to the back if the era lets it go.
    fn deliver(&mut self, outgoing: Outgoing) {
        if !self.era.relays(&outgoing) {
            let steps = self.era.admit(self.now, outgoing, &mut self.route);
            return self.carry_out(steps);
        }
        if let Some(outgoing) = self.era.legacy.admit(self.now, outgoing, &mut self.route) {
            self.send(outgoing);
        }
    }

    /// Opens a new session if the last one is lost.
    fn reopen(&mut self) {
        if let Some(outgoing) = self.era.reopen(&mut self.route) {
            self.send(outgoing);
        }
    }

    fn send(&mut self, outgoing: Outgoing) {
        let outgoing = if outgoing.session.stateless { outgoing } else { self.era.legacy.stamped(outgoing) };
        self.back.send(self.now, outgoing);
    }

    /// Closes a request. Returns its id once: the permission to answer it.
    fn close(&mut self, key: RequestKey) -> Option<Id> {
        self.route.close(key).inspect(|id| self.ledger.closed(id))
    }

    /// Outputs the snapshot, after it has changed.
    fn tell_snapshot(&mut self) {
        self.queue.extend(self.era.legacy.snapshot().map(Output::Snapshot));
    }

    fn note(&mut self, note: Note) {
        self.queue.push_back(Output::Note(note));
    }

    /// Exits, unless the machine already has: two limits may expire at once.
    fn exit(&mut self, exit: Exit) {
        if std::mem::replace(&mut self.stage, Stage::Over) != Stage::Over {
            self.queue.push_back(Output::Exit(exit));
        }
    }
}
