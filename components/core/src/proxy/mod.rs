//! The coordinator: owns the rooms and the one output queue, clamps time, and hands
//! every fact to the room it belongs to. A message visits each room once.
//! Protocol decisions belong to the rooms.

mod exchanges;
mod from_client;
mod from_server;
mod stage;

use crate::back::http::HttpBack;
use crate::boundary::{Exit, Input, Output, Side, Sink, Source};
use crate::config::{ClientTransport, Config, HttpTransport, Snapshot};
use crate::era::legacy::Legacy;
use crate::flow::ToClient;
use crate::front::Front;
use crate::ledger::{Entry, Ledger};
use crate::note::Note;
use crate::outgoing::{Outgoing, Purpose};
use crate::rng::Rng;
use crate::route::{RequestKey, Route};
use crate::time::{Deadline, Time, earlier};
use crate::wire::message::Id;
use bytes::Bytes;
use from_client::MOST_UNTAKEN;
use stage::Stage;
use std::collections::VecDeque;
use std::time::Duration;

/// A tick that comes so much too late comes after a sleep of the machine.
const OVERSLEPT: Duration = Duration::from_secs(30);

/// The machine between one client and one server.
#[derive(Debug)]
pub struct Proxy {
    front: Front,
    route: Route,
    ledger: Ledger,
    era: Legacy,
    back: HttpBack,
    to_client: ToClient,
    queue: VecDeque<Output>,
    stage: Stage,
    now: Time,
    config: Config,
}

impl Proxy {
    /// A machine that has seen nothing yet. The seed serves jitter and the ids
    /// of our own requests; with the same seed and the same facts at the same
    /// times, two machines say the same.
    #[must_use]
    pub fn new(config: &Config, seed: u64, now: Time) -> Self {
        let mut rng = Rng::new(seed);
        let route = Route::new(&mut rng);
        let mut era = Legacy::new(config.total_timeout);
        if let ClientTransport::Http(HttpTransport { resumed: Some(known), .. }) = &config.client {
            era.resume(known);
        }
        Self {
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
        }
    }

    /// Takes one fact. Never fails, never blocks. Time that runs backwards is
    /// taken as standing still.
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
            Input::Stop => self.stop(),
            Input::Shutdown => self.shutdown(),
        }
        self.settle();
    }

    /// The next thing to do, in order. May change after `handle`.
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

    /// May the shell read from this source now? May change after `handle`.
    #[must_use]
    pub fn wants(&self, source: Source) -> bool {
        match source {
            Source::Side(Side::Client) => {
                self.stage == Stage::Running
                    && self.back.held().untaken < MOST_UNTAKEN
                    && self.to_client.client_may_send(self.unsent(), self.config.max_message)
            }
            Source::Call(id) => self.stage != Stage::Over && !self.to_client.full() && self.back.wants(id),
        }
    }

    /// Goes on with the session of a machine that was lost.
    pub fn resume(&mut self, known: &Snapshot) {
        self.era.resume(known);
        self.tell_snapshot();
        self.era.reopen(&mut self.route).into_iter().for_each(|outgoing| self.send(outgoing));
        self.settle();
    }

    /// From now on [`Proxy::ledger`] says what the client waits for.
    pub fn start_ledger(&mut self) {
        self.ledger.start();
    }

    /// What has changed in what the client waits for. The shell must know it
    /// before it carries out what `poll` gives.
    pub fn ledger(&mut self) -> Vec<Entry> {
        self.ledger.take()
    }

    /// Bytes of the client that are no whole line yet.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.front.held()
    }

    /// Is a request of the client open? May change after `handle`.
    #[must_use]
    pub fn busy(&self) -> bool {
        !self.route.idle()
    }

    /// Bytes of the client that have not left for the server.
    fn unsent(&self) -> usize {
        self.front.held() + self.era.held() + self.back.held().unsent
    }

    /// Bytes of the client's messages, of which some may have to go again.
    fn kept(&self) -> usize {
        self.era.held() + self.back.held().kept
    }

    /// How many messages are on their way to the server, or wait for it.
    fn under_way(&self) -> usize {
        self.era.waiting() + self.back.held().calls
    }

    fn tick(&mut self) {
        if self.deadline().is_some_and(|deadline| self.now.since(deadline.at) >= OVERSLEPT) {
            self.back.woke(self.now);
        }
        self.fail_overdue();
        if self.era.tick(self.now) {
            self.listen();
        }
        self.back.tick(self.now, self.paused(), self.pings());
        self.client_tick();
        // What has expired is told before the rest is answered at the end.
        self.settle();
        self.stage_tick();
    }

    /// An idle server is asked for a sign of life.
    fn pings(&self) -> bool {
        self.stage == Stage::Running && self.era.open()
    }

    fn listen(&mut self) {
        self.send(Outgoing::new(Purpose::Listen, Bytes::new()));
    }

    /// The server's silence is the client's fault: it owes the server an
    /// answer, or does not read what the server says.
    fn paused(&self) -> bool {
        self.route.client_owes() || self.to_client.full()
    }

    /// The client has taken some of what is on its way; the server's silence
    /// counts again once it is read again.
    fn flushed(&mut self, take: impl FnOnce(&mut ToClient)) {
        let was_full = self.to_client.full();
        take(&mut self.to_client);
        if was_full && !self.to_client.full() {
            self.back.touch(self.now, None);
        }
    }

    /// Carries reports and released messages on until no room has more to say,
    /// and leaves once there is nothing to wait for.
    fn settle(&mut self) {
        loop {
            if let Some(report) = self.back.report(self.now) {
                self.reported(report);
            } else if let Some(outgoing) = self.era.release(self.now, &mut self.route) {
                self.send(outgoing);
            } else if !self.leave_when_done() {
                return;
            }
        }
    }

    /// Hands a message to the era, and what may go to the back.
    fn deliver(&mut self, outgoing: Outgoing) {
        if let Some(outgoing) = self.era.admit(self.now, outgoing, &mut self.route) {
            self.send(outgoing);
        }
    }

    fn send(&mut self, outgoing: Outgoing) {
        self.back.send(self.now, self.era.stamped(outgoing));
    }

    /// The permission to answer, once.
    fn close(&mut self, key: RequestKey) -> Option<Id> {
        self.route.close(key).inspect(|id| self.ledger.closed(id))
    }

    /// What another machine needs has changed.
    fn tell_snapshot(&mut self) {
        self.queue.extend(self.era.snapshot().map(Output::Snapshot));
    }

    fn note(&mut self, note: Note) {
        self.queue.push_back(Output::Note(note));
    }

    /// Two limits may be hit at once; there is one exit.
    fn exit(&mut self, exit: Exit) {
        if std::mem::replace(&mut self.stage, Stage::Over) != Stage::Over {
            self.queue.push_back(Output::Exit(exit));
        }
    }
}
