//! The loop: carry out what the core asks, wait in one place, tell it what
//! happened. The drain starts things and never waits for them.

use crate::call::{Call, News};
use crate::log::{self, Level};
use crate::output::Stdout;
use crate::tape::Tape;
use mcp_proxy_core::{CallError, CallId, Config, Exit, Input, Output, Proxy, Side, Sink, Source, Time};
use mcp_proxy_options::Options;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use wasip2::cli::stdin;
use wasip2::clocks::monotonic_clock;
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::{InputStream, StreamError};
use wasip2::random::random;

/// The most that one read of stdin takes.
const READ: u64 = 64 << 10;

/// The machine and everything it touches.
pub(crate) struct Shell {
    proxy: Proxy,
    stdin: Stdin,
    stdout: Stdout,
    calls: BTreeMap<CallId, Call>,
    timer: Option<Timer>,
    /// When the last wait ended: one look at the clock serves all its facts.
    now: Time,
    level: Level,
    tape: Option<Tape>,
    connect_timeout: Duration,
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

/// What a pollable stands for.
#[derive(Clone, Copy)]
enum Token {
    Stdin,
    Stdout,
    Upload(CallId),
    Download(CallId),
    Timer,
}

impl Shell {
    pub(crate) fn new(config: &Config, options: &Options) -> Self {
        let stream = stdin::get_stdin();
        let now = now();
        let seed = random::get_random_u64();
        Self {
            proxy: Proxy::new(config, seed, now),
            stdin: Stdin { ready: stream.subscribe(), stream },
            stdout: Stdout::new(),
            calls: BTreeMap::new(),
            timer: None,
            now,
            level: if options.debug { Level::All } else { Level::Faults },
            tape: options.record.then(|| Tape::start(config, seed, now)),
            connect_timeout: options.connect_timeout,
            drain_timeout: options.drain_timeout,
        }
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

    /// Carries out everything that the core asks for.
    fn drain(&mut self) -> Option<Exit> {
        loop {
            while let Some(output) = self.proxy.poll() {
                match output {
                    Output::Write(Side::Client, line) => self.stdout.push(line),
                    Output::Call(id, request) => self.call(id, request),
                    Output::Cancel(id) => drop(self.calls.remove(&id)),
                    Output::Note(note) => log::note(self.level, &note),
                    Output::Exit(exit) => return Some(exit),
                    // Only a client of HTTP has exchanges.
                    Output::Respond(..) | Output::Send(..) | Output::Finish(_) | Output::Abort(_) => {}
                }
            }
            if !self.flush() {
                return None;
            }
        }
    }

    /// Writes what stdout takes; `true` if the core may have more to say.
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
        match Call::start(request, self.connect_timeout) {
            Ok(call) => {
                self.calls.insert(id, call);
                self.upload(id);
            }
            Err(error) => self.tell(Input::Failed(id, error)),
        }
    }

    fn upload(&mut self, id: CallId) {
        let count = self.calls.get_mut(&id).map_or(0, Call::feed);
        if count > 0 {
            self.tell(Input::Flushed(Sink::Call(id), count));
        }
    }

    /// The one place in which the shell waits.
    fn wait(&mut self) -> Vec<Token> {
        self.arm();
        self.calls.values_mut().for_each(Call::prepare);
        let mut tokens = Vec::with_capacity(self.calls.len() + 3);
        let mut pollables = Vec::with_capacity(self.calls.len() + 3);
        let mut add = |token, pollable| {
            tokens.push(token);
            pollables.push(pollable);
        };
        if self.proxy.wants(Source::Side(Side::Client)) {
            add(Token::Stdin, &self.stdin.ready);
        }
        self.stdout.pollable().into_iter().for_each(|ready| add(Token::Stdout, ready));
        for (id, call) in &self.calls {
            call.upload().into_iter().for_each(|ready| add(Token::Upload(*id), ready));
            if !call.has_body() || self.proxy.wants(Source::Call(*id)) {
                call.download().into_iter().for_each(|ready| add(Token::Download(*id), ready));
            }
        }
        self.timer.iter().for_each(|timer| add(Token::Timer, &timer.ready));
        let ready = poll(&pollables);
        self.now = now();
        ready.into_iter().filter_map(|at| tokens.get(usize::try_from(at).ok()?).copied()).collect()
    }

    /// An early tick changes nothing, so a timer that stands is only replaced
    /// by an earlier one.
    fn arm(&mut self) {
        let Some(deadline) = self.proxy.deadline() else { return };
        if self.timer.as_ref().is_none_or(|timer| deadline.at < timer.at) {
            let ready = monotonic_clock::subscribe_instant(deadline.at.0.saturating_mul(1_000_000));
            self.timer = Some(Timer { ready, at: deadline.at });
        }
    }

    fn ready(&mut self, token: Token) {
        match token {
            Token::Stdin => self.read_stdin(),
            Token::Stdout => {}
            Token::Upload(id) => self.upload(id),
            Token::Download(id) => self.read_call(id),
            Token::Timer => {
                self.timer = None;
                self.tell(Input::Tick);
            }
        }
    }

    fn read_stdin(&mut self) {
        match self.stdin.stream.read(READ) {
            Ok(bytes) if bytes.is_empty() => {}
            Ok(bytes) => self.tell(Input::Bytes(Side::Client, &bytes)),
            Err(StreamError::Closed | StreamError::LastOperationFailed(_)) => self.tell(Input::Eof(Side::Client)),
        }
    }

    /// Reads a response until it has nothing more at hand, or the core has had
    /// enough.
    fn read_call(&mut self, id: CallId) {
        while let Some(call) = self.calls.get_mut(&id) {
            match call.read() {
                News::Nothing => return,
                News::Head(head) => self.tell(Input::Head(id, head)),
                News::Chunk(bytes) => self.tell(Input::Chunk(id, &bytes)),
                News::End => {
                    self.calls.remove(&id);
                    return self.tell(Input::End(id));
                }
                News::Failed(error) => return self.fail(id, error),
            }
            if !self.proxy.wants(Source::Call(id)) {
                return;
            }
        }
    }

    fn fail(&mut self, id: CallId, error: CallError) {
        self.calls.remove(&id);
        self.tell(Input::Failed(id, error));
    }

    fn tell(&mut self, input: Input<'_>) {
        if let Some(tape) = &mut self.tape {
            tape.told(self.now, &input);
        }
        self.proxy.handle(self.now, input);
    }

    /// Everything is said; the client gets a while to read it.
    fn leave(mut self, exit: Exit) -> ExitCode {
        let limit =
            monotonic_clock::subscribe_duration(u64::try_from(self.drain_timeout.as_nanos()).unwrap_or(u64::MAX));
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

/// WASI's monotonic clock counts nanoseconds.
fn now() -> Time {
    Time(monotonic_clock::now() / 1_000_000)
}
