//! The loop: execute the core's outputs, wait in one place, feed facts back. The drain
//! starts operations and never waits for them.

use crate::call::{Broken, Call, News};
use crate::journal::{self, Journal};
use crate::limits::HostLimits;
use crate::log::{Bodies, Level, Log};
use crate::output::Stdout;
use crate::tape::Tape;
use mcp_proxy_core::{CallId, Config, Exit, Input, Output, Proxy, Side, Sink, Snapshot, Source, Time};
use mcp_proxy_options::Options;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;
use wasip2::cli::stdin;
use wasip2::clocks::monotonic_clock;
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::{InputStream, StreamError};
use wasip2::random::random;

/// Size limit of one read of stdin.
const READ: u64 = 64 << 10;

/// A host checks every pollable in every wait. With more idle calls than this, waits skip
/// them while the other calls are active, and for `LULL` after that.
const FEW_IDLE: usize = 64;
const LULL: Duration = Duration::from_millis(20);
/// The longest time to skip idle calls, in microseconds per idle call: the host takes
/// about one to check it.
const LEFT_OUT: u64 = 20;

/// The machine and everything it uses.
pub(crate) struct Shell {
    proxy: Proxy,
    stdin: Stdin,
    /// Its end means stop, and a line that the host waits for a person; only with a host
    /// that supports this.
    stop: Option<Stdin>,
    /// The unfinished line of that stream.
    told: Vec<u8>,
    stdout: Stdout,
    calls: BTreeMap<CallId, Call>,
    /// The calls that started, or returned something, since the last check of all.
    lively: BTreeSet<CallId>,
    timer: Option<Timer>,
    /// Set while waits skip the idle calls: until when.
    look: Option<Look>,
    /// When the last wait ended: one clock reading serves all its facts.
    now: Time,
    log: Log,
    bodies: Option<Bodies>,
    tape: Option<Tape>,
    journal: Option<Journal>,
    limits: HostLimits,
    drain_timeout: Duration,
}

struct Stdin {
    /// A child of `stream`: dropped first.
    ready: Pollable,
    stream: InputStream,
}

struct Timer {
    ready: Pollable,
    at: Time,
}

/// When to check all calls again.
struct Look {
    /// If nothing arrives until then.
    lull: Timer,
    /// In any case.
    latest: Time,
}

/// What a pollable belongs to.
#[derive(Clone, Copy)]
enum Token {
    Stdin,
    Stop,
    Stdout,
    Upload(CallId),
    Download(CallId),
    Timer,
    Look,
}

impl Shell {
    pub(crate) fn new(config: &Config, options: &Options) -> Self {
        let now = now();
        let seed = random::get_random_u64();
        Self {
            proxy: Proxy::new(config, seed, now),
            stdin: Stdin::open(),
            stop: None,
            told: Vec::new(),
            stdout: Stdout::new(),
            calls: BTreeMap::new(),
            lively: BTreeSet::new(),
            timer: None,
            look: None,
            now,
            log: Log::new(if options.debug { Level::All } else { Level::Faults }),
            bodies: options.log_bodies.then(|| Bodies::new(&options.headers)),
            tape: options.record.then(|| Tape::start(config, seed, now)),
            journal: None,
            limits: HostLimits::new(options.connect_timeout, options.request_timeout),
            drain_timeout: options.drain_timeout,
        }
    }

    /// Starts the journal, which the host needs if this component crashes.
    pub(crate) fn keep_journal(&mut self) {
        self.journal = Some(Journal::start(&mut self.proxy));
    }

    /// Opens the second stdin, by which the host talks to the component.
    pub(crate) fn listen_for_stop(&mut self) {
        self.stop = Some(Stdin::open());
    }

    /// Continues the session of a crashed component.
    pub(crate) fn resume(&mut self, known: &Snapshot) {
        self.proxy.resume(known);
    }

    pub(crate) fn run(mut self) -> ExitCode {
        loop {
            if let Some(exit) = self.drain() {
                return self.leave(exit);
            }
            for token in self.wait() {
                self.ready(token);
            }
        }
    }

    /// Executes all outputs of the core.
    fn drain(&mut self) -> Option<Exit> {
        loop {
            self.journal.iter_mut().for_each(|journal| journal.sync(&mut self.proxy));
            while let Some(output) = self.proxy.poll() {
                match output {
                    Output::Write(Side::Client, line) => {
                        self.bodies.iter().for_each(|bodies| bodies.told(&line));
                        self.stdout.push(line);
                    }
                    Output::Call(id, request) => {
                        self.bodies.iter().for_each(|bodies| bodies.sent(request.body()));
                        self.call(id, request);
                    }
                    Output::Cancel(id) => self.forget(id),
                    Output::Snapshot(known) => self.journal.iter().for_each(|_| journal::session(&known)),
                    Output::Note(note) => self.log.note(self.now, &note),
                    Output::Exit(exit) => return Some(exit),
                    // Only an HTTP client has exchanges.
                    Output::Respond(..) | Output::Send(..) | Output::Finish(_) | Output::Abort(_) => {}
                }
            }
            if !self.flush() {
                return None;
            }
        }
    }

    /// Writes as much as stdout accepts. Returns `true` if the core may have more output.
    fn flush(&mut self) -> bool {
        match self.stdout.flush() {
            Ok(0) => false,
            Ok(count) => {
                self.tell(Input::Flushed(Sink::Side(Side::Client), count));
                true
            }
            Err(_) => {
                self.stdout = Stdout::new();
                self.tell(Input::Shutdown);
                true
            }
        }
    }

    fn call(&mut self, id: CallId, request: http::Request<bytes::Bytes>) {
        let options = self.limits.options(self.now, request.method());
        match Call::start(request, options) {
            Ok(call) => {
                self.calls.insert(id, call);
                self.lively.insert(id);
                self.upload(id);
            }
            Err(Broken { error, words }) => self.tell(Input::Failed(id, error, &words)),
        }
    }

    fn upload(&mut self, id: CallId) {
        let count = self.calls.get_mut(&id).map_or(0, Call::feed);
        if count > 0 {
            self.tell(Input::Flushed(Sink::Call(id), count));
        }
    }

    fn forget(&mut self, id: CallId) {
        self.calls.remove(&id);
        self.lively.remove(&id);
    }

    /// The only place where the shell waits.
    fn wait(&mut self) -> Vec<Token> {
        self.arm();
        let ids = self.looked_at();
        for id in &ids {
            self.calls.get_mut(id).into_iter().for_each(Call::prepare);
        }
        let mut tokens = Vec::with_capacity(ids.len() + 4);
        let mut pollables = Vec::with_capacity(ids.len() + 4);
        let mut add = |token, pollable| {
            tokens.push(token);
            pollables.push(pollable);
        };
        if self.proxy.wants(Source::Side(Side::Client)) {
            add(Token::Stdin, &self.stdin.ready);
        }
        self.stop.iter().for_each(|stop| add(Token::Stop, &stop.ready));
        self.stdout.pollable().into_iter().for_each(|ready| add(Token::Stdout, ready));
        for (id, call) in ids.iter().filter_map(|id| Some((id, self.calls.get(id)?))) {
            call.upload().into_iter().for_each(|ready| add(Token::Upload(*id), ready));
            if !call.has_body() || self.proxy.wants(Source::Call(*id)) {
                call.download().into_iter().for_each(|ready| add(Token::Download(*id), ready));
            }
        }
        self.timer.iter().for_each(|timer| add(Token::Timer, &timer.ready));
        self.look.iter().for_each(|look| add(Token::Look, &look.lull.ready));
        let ready = poll(&pollables);
        self.now = now();
        self.looked();
        ready.into_iter().filter_map(|at| tokens.get(usize::try_from(at).ok()?).copied()).collect()
    }

    /// The calls to wait for: all of them, or only the lively ones until the next full
    /// check.
    fn looked_at(&mut self) -> Vec<CallId> {
        let idle = self.calls.len() - self.lively.len();
        if idle > FEW_IDLE && self.look.is_some() {
            return self.lively.iter().copied().collect();
        }
        let Self { calls, lively, .. } = self;
        lively.retain(|id| calls.get(id).is_some_and(Call::uploads));
        self.look = None;
        calls.keys().copied().collect()
    }

    /// After a wait: decides how long to skip the idle calls.
    fn looked(&mut self) {
        let idle = self.calls.len() - self.lively.len();
        if idle <= FEW_IDLE {
            return;
        }
        let left_out = Duration::from_micros(u64::try_from(idle).unwrap_or(u64::MAX).saturating_mul(LEFT_OUT));
        let latest = self.look.as_ref().map_or_else(|| self.now.after(left_out), |look| look.latest);
        let lull = Timer::at(self.now.after(LULL).min(latest));
        self.look = (self.now < latest).then_some(Look { lull, latest });
    }

    /// An early tick changes nothing, so only an earlier deadline replaces the timer.
    fn arm(&mut self) {
        let Some(deadline) = self.proxy.deadline() else { return };
        if self.timer.as_ref().is_none_or(|timer| deadline.at < timer.at) {
            self.timer = Some(Timer::at(deadline.at));
        }
    }

    fn ready(&mut self, token: Token) {
        match token {
            Token::Stdin => self.read_stdin(),
            Token::Stop => self.read_host(),
            Token::Stdout => {}
            Token::Upload(id) => self.upload(id),
            Token::Download(id) => self.read_call(id),
            Token::Timer => {
                self.timer = None;
                self.tell(Input::Tick);
            }
            Token::Look => self.look = None,
        }
    }

    /// Reads what the host says: why it waits for a person, a line each time, until it
    /// tells the component to stop.
    fn read_host(&mut self) {
        match self.stop.as_ref().map(|stop| stop.stream.read(READ)) {
            None => {}
            Some(Ok(bytes)) => self.told.extend(bytes),
            Some(Err(StreamError::Closed | StreamError::LastOperationFailed(_))) => {
                self.stop = None;
                return self.tell(Input::Stop);
            }
        }
        while let Some(end) = self.told.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.told.drain(..=end).collect();
            self.tell(Input::Waiting(String::from_utf8_lossy(&line).trim_end()));
        }
    }

    fn read_stdin(&mut self) {
        match self.stdin.stream.read(READ) {
            Ok(bytes) if bytes.is_empty() => {}
            Ok(bytes) => {
                self.journal.iter_mut().for_each(|journal| journal.read(bytes.len()));
                self.tell(Input::Bytes(Side::Client, &bytes));
            }
            Err(StreamError::Closed | StreamError::LastOperationFailed(_)) => self.tell(Input::Eof(Side::Client)),
        }
    }

    /// Reads a response until nothing more is available, or the core wants no more.
    fn read_call(&mut self, id: CallId) {
        while let Some(call) = self.calls.get_mut(&id) {
            let news = call.read();
            if !matches!(news, News::Nothing) {
                self.lively.insert(id);
            }
            match news {
                News::Nothing => return,
                News::Head(head) => {
                    self.limits.answered(self.now);
                    self.tell(Input::Head(id, head));
                }
                News::Chunk(bytes) => self.tell(Input::Chunk(id, &bytes)),
                News::End => {
                    self.forget(id);
                    return self.tell(Input::End(id));
                }
                News::Failed(broken) => return self.fail(id, &broken),
            }
            if !self.proxy.wants(Source::Call(id)) {
                return;
            }
        }
    }

    fn fail(&mut self, id: CallId, broken: &Broken) {
        self.forget(id);
        self.tell(Input::Failed(id, broken.error, &broken.words));
    }

    fn tell(&mut self, input: Input<'_>) {
        #[cfg(feature = "crash")]
        crate::crash::on_command(&input);
        if let Some(tape) = &mut self.tape {
            tape.told(self.now, &input);
        }
        self.proxy.handle(self.now, input);
    }

    /// All output is queued; gives the client some time to read it.
    fn leave(mut self, exit: Exit) -> ExitCode {
        let limit =
            monotonic_clock::subscribe_duration(u64::try_from(self.drain_timeout.as_nanos()).unwrap_or(u64::MAX));
        self.log.end();
        if exit == Exit::Stopped {
            return ExitCode::SUCCESS;
        }
        while let (Ok(_), Some(ready)) = (self.stdout.flush(), self.stdout.pollable()) {
            poll(&[ready, &limit]);
            if limit.ready() {
                break;
            }
        }
        ExitCode::SUCCESS
    }
}

impl Stdin {
    fn open() -> Self {
        let stream = stdin::get_stdin();
        Self { ready: stream.subscribe(), stream }
    }
}

impl Timer {
    fn at(at: Time) -> Self {
        Self { ready: monotonic_clock::subscribe_instant(at.0.saturating_mul(1_000_000)), at }
    }
}

/// The current time; WASI's monotonic clock counts nanoseconds.
fn now() -> Time {
    Time(monotonic_clock::now() / 1_000_000)
}
