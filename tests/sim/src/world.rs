//! The world: one queue of events on virtual time, the client's side of it, and the rules
//! that it checks after every step. The machine's side is in `shell`.

use crate::caller::{Caller, Reading};
use crate::calls::Calls;
use crate::client::{Client, Line};
use crate::dice::{Chance, Dice, Owner};
use crate::exchange::Exchanges;
use crate::habit::Kind;
use crate::model::Model;
use crate::network::{Network, Piece};
use crate::run::Size;
use crate::server::Server;
use crate::story::Stories;
use crate::tape::Tape;
use crate::trace::Trace;
use crate::weather::{End, Weather};
use bytes::Bytes;
use http::Request;
use mcp_proxy_core::{CallId, Config, ExchangeId, Input, Proxy, Side, Sink, Snapshot, Source, Time};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

/// Limits for a run, in virtual milliseconds and in steps.
const LONGEST: u64 = 4 * 3_600_000;
const MOST_STEPS: u64 = 400_000;
/// The longest time from EOF to the exit: the drain, then the goodbye.
const LEAVING: u64 = 5_000 + 2_000;
/// After this long without requests, the machine must hold nothing of the earlier ones.
const FORGOTTEN: u64 = 61_000;
/// With this many unread bytes, the machine must stop reading.
const FULL: usize = 1 << 20;
/// The length of the machine's debug text while it holds only a session.
const EMPTY: usize = 12 << 10;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) proxy: Proxy,
    /// The last snapshot of the session.
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) network: Network,
    pub(crate) model: Model,
    pub(crate) calls: Calls,
    pub(crate) trace: Trace,
    pub(crate) tape: Tape,
    pub(crate) dice: Dice,
    pub(crate) now: u64,
    /// How far the machine's clock is ahead, because the machine slept.
    pub(crate) slept: u64,
    /// The planned events, by time and then by the order in which they were planned.
    queue: BTreeMap<(u64, u64), Happening>,
    planned: u64,
    pub(crate) requests: BTreeMap<CallId, Request<Bytes>>,
    pub(crate) stdout: VecDeque<usize>,
    pub(crate) slowness: u64,
    end: End,
    /// Since when no request has come or been open.
    pub(crate) quiet_since: u64,
    content: bool,
    pub(crate) left: Option<u64>,
    /// The client, if it speaks HTTP, with its exchanges and stories.
    pub(crate) caller: Option<Caller>,
    pub(crate) exchanges: Exchanges,
    pub(crate) stories: Stories,
    pub(crate) config: Config,
    pub(crate) seed: u64,
    /// How many machines were replaced.
    pub(crate) machine: u64,
    /// How many bytes of responses the machine has read.
    pub(crate) read_bytes: u64,
}

#[derive(Debug)]
pub(crate) enum Happening {
    /// The client writes its next line.
    Write,
    /// The client writes this line.
    Say(Line),
    Eof,
    Gone,
    /// A request arrives at the server, under this id.
    Request(CallId, CallId),
    /// This many bytes of a request have left.
    Uploaded(CallId, usize),
    Arrive(CallId, Piece),
    /// The network checks whether a response has been silent for too long.
    Look(CallId),
    /// The server notices that nobody reads this exchange any longer.
    Notice(CallId),
    Work(u64),
    /// Stdout has accepted a piece.
    Flush,
    /// The computer sleeps for this long.
    Sleep(u64),
    /// An HTTP client opens a stream to listen.
    Listen,
    /// It reads a piece of a response.
    Taken(ExchangeId),
    /// It loses a connection; the machine may learn of the loss later.
    Lose(ExchangeId, Reading, Option<u64>),
    /// The machine learns of the loss.
    Report(ExchangeId),
    /// The client returns for the rest of a story.
    Return(u64),
    /// Another machine takes over.
    Restart,
}

impl World {
    pub(crate) fn new(chance: Chance<'_>, size: Size, weather: &Weather, trace: Trace) -> Option<Self> {
        let config = weather.config()?;
        let mut world = Self {
            proxy: Proxy::new(&config, chance.seed(), Time(0)),
            snapshot: None,
            client: Client::new(chance, weather, size.requests),
            server: Server::new(chance, weather, size.server),
            network: Network::new(chance, weather, size.network),
            model: Model::new(weather.limits.total, weather.server.kind == Kind::Modern, weather.modern),
            calls: Calls::new(&weather.server),
            trace,
            tape: Tape::default(),
            dice: chance.dice(Owner::World),
            now: 0,
            slept: 0,
            queue: BTreeMap::new(),
            planned: 0,
            requests: BTreeMap::new(),
            stdout: VecDeque::new(),
            slowness: weather.stdout,
            end: weather.end,
            quiet_since: 0,
            content: false,
            left: None,
            caller: weather.caller.clone().map(|manners| Caller::new(chance, manners, size.caller)),
            exchanges: Exchanges::default(),
            stories: Stories::default(),
            config,
            seed: chance.seed(),
            machine: 0,
            read_bytes: 0,
        };
        match weather.end {
            End::Content(_) => {}
            End::At(at) => world.plan(at, Happening::Eof),
            End::Gone(at) => world.plan(at, Happening::Gone),
        }
        weather.sleep.into_iter().for_each(|(at, length)| world.plan(at, Happening::Sleep(length)));
        let restarts = weather.caller.iter().flat_map(|manners| &manners.restarts);
        restarts.for_each(|at| world.plan(*at, Happening::Restart));
        world.plan_writing();
        Some(world)
    }

    pub(crate) fn plan(&mut self, wait: u64, happening: Happening) {
        self.planned += 1;
        self.queue.insert((self.now + wait, self.planned), happening);
    }

    pub(crate) fn plan_writing(&mut self) {
        if let Some(pause) = self.client.pause() {
            self.plan(pause, Happening::Write);
        }
    }

    pub(crate) fn play(&mut self) {
        for _ in 0..MOST_STEPS {
            if self.model.exited {
                self.knock_once_more();
                return self.read_the_rest();
            }
            if !self.model.reproaches.is_empty() || !self.step() {
                return;
            }
            self.look_around();
            self.leave_content();
        }
        self.model.reproach("no end of steps".to_owned());
    }

    /// Runs the next event, or a tick if that is due first.
    fn step(&mut self) -> bool {
        let next = self.queue.keys().next().map(|(at, _)| *at);
        let tick = self.proxy.deadline().map(|deadline| deadline.at.0.saturating_sub(self.slept).max(self.now));
        let at = match (next, tick) {
            (Some(next), Some(tick)) => next.min(tick),
            (Some(at), None) | (None, Some(at)) => at,
            (None, None) => return self.stuck("nothing will ever happen"),
        };
        self.now = at;
        if at > LONGEST || self.left.is_some_and(|left| at > left + LEAVING) {
            return self.stuck("it takes too long");
        }
        match self.queue.first_entry().filter(|first| first.key().0 <= at) {
            Some(first) => {
                let happening = first.remove();
                self.happen(happening);
            }
            None => self.tick(),
        }
        true
    }

    /// Checks that after a tick the deadline is later or gone.
    fn tick(&mut self) {
        self.tell(Input::Tick);
        if let Some(deadline) = self.proxy.deadline().filter(|deadline| deadline.at.0 <= self.now + self.slept) {
            self.stuck(&format!("{deadline:?} after a tick"));
        }
    }

    fn stuck(&mut self, why: &str) -> bool {
        self.model.reproach(format!("at {}: {why}", self.now));
        false
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Write => self.client_writes(),
            Happening::Say(line) => self.client_says(line),
            Happening::Eof if self.caller.as_ref().is_some_and(|caller| caller.session.is_some()) => self.leave(None),
            Happening::Eof if self.caller.is_none() => self.leave(Some(Input::Eof(Side::Client))),
            Happening::Eof | Happening::Gone => {
                if self.caller.is_none() {
                    self.model.left();
                }
                self.exchanges.may_be_turned_away();
                self.leave(Some(Input::Shutdown));
            }
            Happening::Request(call, arriving) => {
                if let Some(request) = self.requests.get(&call).cloned() {
                    self.server.receive(arriving, &request);
                    self.serve();
                }
            }
            Happening::Uploaded(call, bytes) => self.tell(Input::Flushed(Sink::Call(call), bytes)),
            Happening::Arrive(call, piece) => self.arrive(call, piece),
            Happening::Look(call) => self.look(call),
            Happening::Sleep(length) => self.slept += length,
            Happening::Notice(call) => self.server.gone(call),
            Happening::Work(stream) => {
                self.server.wake(stream);
                self.serve();
            }
            Happening::Flush => self.flush(),
            Happening::Listen => self.listen_anew(),
            Happening::Taken(id) => self.taken(id),
            Happening::Lose(id, reading, report) => self.lose(id, reading, report),
            Happening::Report(id) => self.report(id),
            Happening::Return(story) => self.come_back(story),
            Happening::Restart => self.restart(),
        }
    }

    /// Checks what must hold after every step.
    fn look_around(&mut self) {
        if !self.model.idle() {
            self.quiet_since = self.now;
        }
        if self.model.exited {
            let forgotten = self.calls.forgotten();
            if !forgotten.is_empty() {
                self.model.reproach(format!("neither read to the end nor cancelled: {forgotten:?}"));
            }
            return;
        }
        let unread = self.model.unwritten + self.exchanges.unread();
        let (wanted, unwanted): (Vec<CallId>, Vec<CallId>) = self.calls.live().partition(|call| self.wants(*call));
        if unread == 0 && !unwanted.is_empty() {
            self.model.reproach(format!("calls {unwanted:?} are neither over nor wanted"));
        }
        if unread >= FULL && !wanted.is_empty() {
            self.model.reproach(format!("{unread} bytes are unread, and more is wanted of {wanted:?}"));
        }
        let owed = |world: &Self| unread > 0 || (world.surely_open() > 0 && !world.model.asked_by_server());
        if self.caller.is_some() && self.proxy.deadline().is_none() && owed(self) {
            self.model.reproach("something is owed, and there is no deadline".to_owned());
        }
        self.look_at_exchanges();
    }

    // ----- the client ------------------------------------------------------------

    fn client_writes(&mut self) {
        if self.left.is_some() {
            return;
        }
        if self.caller.as_mut().is_some_and(|caller| caller.dice.chance(caller.manners.faulty)) {
            self.go_wrong();
        }
        if !self.listens_to_client() {
            return self.plan(10, Happening::Write);
        }
        if let Some(line) = self.client.write() {
            self.client_says(line);
        }
        self.plan_writing();
    }

    /// Whether the machine reads from the client. It may leave a pipe unread, but not an
    /// HTTP request.
    fn listens_to_client(&self) -> bool {
        self.caller.is_some() || self.proxy.wants(Source::Side(Side::Client))
    }

    /// Passes a line to the machine, in one piece or in two.
    fn client_says(&mut self, line: Line) {
        if self.left.is_some() {
            return;
        }
        if !self.listens_to_client() {
            return self.plan(10, Happening::Say(line));
        }
        if self.caller.is_some() {
            return self.post(line);
        }
        self.quiet_since = self.now;
        self.client.said(&line);
        let text = format!("{}\n", line.text);
        let cut = usize::try_from(self.dice.between(0, u64::try_from(line.text.len()).unwrap_or(0))).unwrap_or(0);
        let (head, tail) = text.as_bytes().split_at(cut);
        self.tell(Input::Bytes(Side::Client, head));
        line.claims.iter().for_each(|claim| self.model.claimed(self.now, claim));
        self.tell(Input::Bytes(Side::Client, tail));
    }

    /// A client that waits for its answers leaves some time after it has them all.
    fn leave_content(&mut self) {
        let End::Content(linger) = self.end else { return };
        let content = if self.caller.is_some() { !self.stories.wants() } else { self.model.idle() };
        if !self.content && self.client.done() && content {
            self.content = true;
            self.plan(linger, Happening::Eof);
        }
    }

    /// The client leaves: as given, or else an HTTP client ends its session.
    fn leave(&mut self, how: Option<Input<'_>>) {
        if self.left.is_none() {
            self.weigh();
            self.left = Some(self.now);
            match how {
                Some(how) => self.tell(how),
                None => self.end_session(),
            }
        }
    }

    /// Checks that the machine no longer holds requests that were answered long ago. It may
    /// hold a large event that is still arriving.
    fn weigh(&mut self) {
        if self.now < self.quiet_since + FORGOTTEN || !self.model.idle() || self.model.may_hold() || self.server.large {
            return;
        }
        let mut weight = Weight(0);
        // Counting cannot fail.
        let _ = write!(weight, "{:?}", self.proxy);
        let kept =
            self.caller.as_ref().map_or(0, |caller| caller.manners.keeps.bytes + caller.manners.keeps.queue_bytes);
        // The debug text escapes much of it.
        if weight.0 > EMPTY + 2 * kept {
            self.model.reproach(format!("long after the last answer the machine holds {} bytes", weight.0));
        }
    }
}

/// Counts the bytes written to it.
struct Weight(usize);

impl Write for Weight {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}
