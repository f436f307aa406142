//! The world: one queue of things to happen on virtual time, and the machine
//! in the middle. It carries out what the machine asks for as a shell would,
//! and tells the model everything.

use crate::client::{Client, Line};
use crate::dice::Dice;
use crate::model::Model;
use crate::network::{Fate, Network, Piece};
use crate::run::Size;
use crate::server::{Effect, Server};
use crate::tape::Tape;
use crate::trace::Trace;
use crate::weather::{End, Weather};
use bytes::Bytes;
use http::{Request, Response};
use mcp_proxy_core::{Blame, CallError, CallId, Input, Output, Proxy, Side, Sink, Source, Time};
use std::collections::{BTreeMap, VecDeque};

/// No run is longer than this, in virtual milliseconds or in steps.
const LONGEST: u64 = 4 * 3_600_000;
const MOST_STEPS: u64 = 100_000;
/// From EOF to the exit: the drain, the goodbye, and the tick in between.
const LEAVING: u64 = 5_000 + 2_000;

#[derive(Debug)]
pub(crate) struct World {
    proxy: Proxy,
    client: Client,
    pub(crate) server: Server,
    pub(crate) network: Network,
    pub(crate) model: Model,
    pub(crate) trace: Trace,
    pub(crate) tape: Tape,
    dice: Dice,
    pub(crate) now: u64,
    /// What happens, by time and then by order of planning.
    queue: BTreeMap<(u64, u64), Happening>,
    planned: u64,
    requests: BTreeMap<CallId, Request<Bytes>>,
    stdout: VecDeque<usize>,
    slowness: u64,
    end: End,
    left: Option<u64>,
}

#[derive(Debug)]
enum Happening {
    /// The client writes its next line.
    Write,
    /// The client writes this.
    Say(Line),
    Eof,
    Gone,
    /// A request arrives at the server.
    Request(CallId),
    Arrive(CallId, Piece),
    Work(u64),
    /// stdout has taken a piece.
    Flush,
}

impl World {
    pub(crate) fn new(seed: u64, size: Size, weather: &Weather, trace: Trace) -> Option<Self> {
        let proxy = Proxy::new(&weather.config()?, seed, Time(0));
        let mut world = Self {
            proxy,
            client: Client::new(seed, weather, size.requests),
            server: Server::new(seed, weather.clone(), size.faults),
            network: Network::new(seed, weather, size.faults),
            model: Model::default(),
            trace,
            tape: Tape::default(),
            dice: Dice::new(seed, 5),
            now: 0,
            queue: BTreeMap::new(),
            planned: 0,
            requests: BTreeMap::new(),
            stdout: VecDeque::new(),
            slowness: weather.stdout,
            end: weather.end,
            left: None,
        };
        match weather.end {
            End::Content => {}
            End::At(at) => world.plan(at, Happening::Eof),
            End::Gone(at) => world.plan(at, Happening::Gone),
        }
        world.plan_writing();
        Some(world)
    }

    fn plan(&mut self, wait: u64, happening: Happening) {
        self.planned += 1;
        self.queue.insert((self.now + wait, self.planned), happening);
    }

    fn plan_writing(&mut self) {
        if let Some(pause) = self.client.pause() {
            self.plan(pause, Happening::Write);
        }
    }

    pub(crate) fn play(&mut self) {
        for _ in 0..MOST_STEPS {
            if self.model.exited {
                return self.knock_once_more();
            }
            if !self.model.reproaches.is_empty() {
                return;
            }
            if !self.step() {
                return;
            }
            self.leave_content();
        }
        self.model.reproach("no end of steps".to_owned());
    }

    /// The next thing, or a tick if that is due first.
    fn step(&mut self) -> bool {
        let next = self.queue.keys().next().map(|(at, _)| *at);
        let tick = self.proxy.deadline().map(|deadline| deadline.at.0.max(self.now));
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
            None => self.tell(Input::Tick),
        }
        true
    }

    fn stuck(&mut self, why: &str) -> bool {
        self.model.reproach(format!("at {}: {why}", self.now));
        false
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Write => self.client_writes(),
            Happening::Say(line) => self.client_says(&line),
            Happening::Eof => self.leave(Input::Eof(Side::Client)),
            Happening::Gone => {
                self.model.left();
                self.leave(Input::Shutdown);
            }
            Happening::Request(call) => {
                if let Some(request) = self.requests.get(&call).cloned() {
                    self.server.receive(call, &request);
                    self.serve();
                }
            }
            Happening::Arrive(call, piece) => {
                self.network.arrive(call, piece);
                self.read_pipes();
            }
            Happening::Work(stream) => {
                self.server.wake(stream);
                self.serve();
            }
            Happening::Flush => self.flush(),
        }
    }

    // ----- the client ------------------------------------------------------------

    fn client_writes(&mut self) {
        if self.left.is_some() {
            return;
        }
        if !self.proxy.wants(Source::Side(Side::Client)) {
            return self.plan(10, Happening::Write);
        }
        if let Some(line) = self.client.write() {
            self.client_says(&line);
        }
        self.plan_writing();
    }

    /// A line, in one piece or in two.
    fn client_says(&mut self, line: &Line) {
        if self.left.is_some() {
            return;
        }
        let text = format!("{}\n", line.text);
        let cut = usize::try_from(self.dice.between(0, u64::try_from(line.text.len()).unwrap_or(0))).unwrap_or(0);
        let (head, tail) = text.as_bytes().split_at(cut);
        self.tell(Input::Bytes(Side::Client, head));
        line.claims.iter().for_each(|claim| self.model.claimed(claim));
        self.tell(Input::Bytes(Side::Client, tail));
    }

    /// A client that waits for its answers leaves when it has them.
    fn leave_content(&mut self) {
        if self.end == End::Content && self.left.is_none() && self.client.done() && self.model.idle() {
            self.leave(Input::Eof(Side::Client));
        }
    }

    fn leave(&mut self, how: Input<'_>) {
        if self.left.is_none() {
            self.left = Some(self.now);
            self.tell(how);
        }
    }

    fn flush(&mut self) {
        if let Some(bytes) = self.stdout.pop_front() {
            self.model.flushed(bytes);
            self.tell(Input::Flushed(Sink::Side(Side::Client), bytes));
            self.read_pipes();
        }
    }

    // ----- the server and the network ---------------------------------------------

    /// Carries what the server has done into the network and the future.
    fn serve(&mut self) {
        for effect in std::mem::take(&mut self.server.effects) {
            match effect {
                Effect::Wake(stream, wait) => self.plan(wait, Happening::Work(stream)),
                Effect::Send(call, frame) => {
                    for (at, piece) in self.network.send(self.now, call, frame) {
                        let cut = matches!(piece, Piece::Failed(_) | Piece::End);
                        self.plan(at - self.now, Happening::Arrive(call, piece));
                        if cut {
                            self.server.gone(call);
                        }
                    }
                }
            }
        }
    }

    /// The machine reads what has arrived, as far as it wants to.
    fn read_pipes(&mut self) {
        for call in self.network.readable() {
            while self.network.next_is_head(call) || self.proxy.wants(Source::Call(call)) {
                let Some(piece) = self.network.read(call) else { break };
                self.read(call, piece);
            }
        }
    }

    fn read(&mut self, call: CallId, piece: Piece) {
        match piece {
            Piece::Head(status, headers) => {
                self.requests.get(&call).into_iter().for_each(|request| self.model.headed(request, status));
                let mut response = Response::builder().status(status);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                if let Ok(response) = response.body(()) {
                    self.tell(Input::Head(call, response.into_parts().0));
                }
            }
            Piece::Chunk(bytes) => self.tell(Input::Chunk(call, &bytes)),
            Piece::End => {
                self.model.over(call);
                self.tell(Input::End(call));
            }
            Piece::Failed(error) => {
                self.model.over(call);
                self.tell(Input::Failed(call, error));
            }
        }
    }

    // ----- the machine -------------------------------------------------------------

    fn tell(&mut self, input: Input<'_>) {
        self.trace.line(self.now, format_args!("{}", shown(&input)));
        self.tape.told(self.now, &input);
        self.proxy.handle(Time(self.now), input);
        while let Some(output) = self.proxy.poll() {
            self.tape.said(&output);
            self.trace.line(self.now, format_args!("        → {output:?}"));
            self.obey(output);
        }
    }

    fn obey(&mut self, output: Output) {
        match output {
            Output::Write(Side::Client, line) => self.written(&line),
            Output::Call(call, request) => self.start(call, request),
            Output::Cancel(call) => {
                self.model.cancelled(call);
                self.network.drop_call(call);
                self.server.gone(call);
            }
            Output::Note(note) => {
                if note.blame() == Blame::Bug {
                    self.model.reproach(format!("{note:?}"));
                }
            }
            Output::Exit(_) => self.model.exited = true,
        }
    }

    fn written(&mut self, line: &Bytes) {
        let value = self.model.wrote(line, &self.server);
        self.stdout.push_back(line.len());
        let wait = self.dice.between(0, self.slowness);
        self.plan(wait, Happening::Flush);
        let waited = self.client.pause().is_none();
        if let Some((pause, answer)) = self.client.read(&value) {
            self.plan(pause, Happening::Say(answer));
        }
        if waited {
            self.plan_writing();
        }
    }

    fn start(&mut self, call: CallId, request: Request<Bytes>) {
        self.model.called(call, &request);
        let (fate, way) = self.network.begin(call);
        let failed = |error| Happening::Arrive(call, Piece::Failed(error));
        match fate {
            Fate::Refused(error) => self.plan(way, failed(error)),
            Fate::Lost => self.plan(way, failed(CallError::Reset)),
            Fate::ResetBeforeHead => {
                self.plan(way, Happening::Request(call));
                self.plan(way, failed(CallError::Reset));
            }
            Fate::Fine | Fate::Cut(_) | Fate::HalfClose(_) | Fate::Stall(_) => self.plan(way, Happening::Request(call)),
        }
        self.requests.insert(call, request);
    }

    /// After the exit, no fact may matter.
    fn knock_once_more(&mut self) {
        self.tell(Input::Tick);
        self.tell(Input::Bytes(Side::Client, b"{\"id\":1,\"method\":\"tools/call\"}\n"));
        self.tell(Input::Shutdown);
        if self.proxy.deadline().is_some() {
            self.model.reproach("a deadline after the exit".to_owned());
        }
    }
}

fn shown(input: &Input<'_>) -> String {
    match input {
        Input::Bytes(_, bytes) => format!("client {:?}", String::from_utf8_lossy(bytes)),
        Input::Chunk(call, bytes) => format!("chunk {} {:?}", call.0, String::from_utf8_lossy(bytes)),
        Input::Head(call, parts) => format!("head {} {} {:?}", call.0, parts.status, parts.headers),
        Input::Tick | Input::Eof(_) | Input::End(_) | Input::Failed(..) | Input::Flushed(..) | Input::Shutdown => {
            format!("{input:?}")
        }
    }
}
