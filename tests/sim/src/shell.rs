//! The machine's side of the world: carries out the machine's outputs as a shell would,
//! passes it what has arrived, and reports everything to the model. The client's side is in
//! `world`.

use crate::ledger::second;
use crate::network::{Fate, Look, Piece};
use crate::server::Effect;
use crate::story::answered;
use crate::world::{Happening, World};
use bytes::Bytes;
use http::{Request, Response};
use mcp_proxy_core::{Blame, CallError, CallId, ExchangeId, Input, Note, Output, Side, Sink, Source, Time};
use serde_json::Value;

/// The notification that an HTTP client may get after its session was replaced.
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

impl World {
    /// Sends the server's output through the network, and plans its next events.
    pub(crate) fn serve(&mut self) {
        for effect in std::mem::take(&mut self.server.effects) {
            match effect {
                Effect::Wake(stream, wait) => self.plan(wait, Happening::Work(stream)),
                Effect::Send(call, frame) => {
                    for (at, piece) in self.network.send(self.now, call, frame) {
                        self.plan(at - self.now, Happening::Arrive(call, piece));
                    }
                }
            }
        }
    }

    pub(crate) fn arrive(&mut self, call: CallId, piece: Piece) {
        if matches!(piece, Piece::Failed(_) | Piece::End) {
            let delay = self.network.delay();
            self.plan(delay, Happening::Notice(call));
        }
        let begins = matches!(piece, Piece::Head(..));
        self.network.arrive(self.now, call, piece);
        if begins {
            self.look(call);
        }
        self.read_pipes();
    }

    /// The network closes a response that was silent for too long.
    pub(crate) fn look(&mut self, call: CallId) {
        match self.network.look(self.now, call) {
            None => {}
            Some(Look::Again(wait)) => self.plan(wait, Happening::Look(call)),
            Some(Look::Cut(piece)) => self.arrive(call, piece),
        }
    }

    /// The machine reads the bytes that have arrived, as far as it wants to.
    pub(crate) fn read_pipes(&mut self) {
        for call in self.network.readable() {
            while self.network.next_is_head(call) || self.wants(call) {
                let Some(piece) = self.network.read(call) else { break };
                self.read(call, piece);
            }
        }
    }

    fn read(&mut self, call: CallId, piece: Piece) {
        match piece {
            Piece::Head(status, headers) => {
                self.calls.headed(call, status, headers.iter().any(|(name, _)| *name == "retry-after"));
                let mut response = Response::builder().status(status);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                if let Ok(response) = response.body(()) {
                    self.tell(Input::Head(call, response.into_parts().0));
                }
            }
            Piece::Chunk(bytes) => {
                if self.server.ledger.refused(call) {
                    self.calls.excused(call, &bytes);
                }
                self.read_bytes += u64::try_from(bytes.len()).unwrap_or_default();
                self.tell(Input::Chunk(call, &bytes));
            }
            Piece::End => {
                self.calls.over(call);
                self.tell(Input::End(call));
            }
            Piece::Failed(error) => {
                self.calls.failed(call, error);
                self.tell(Input::Failed(call, error, ""));
            }
        }
    }

    pub(crate) fn flush(&mut self) {
        if let Some(bytes) = self.stdout.pop_front() {
            self.model.flushed(bytes);
            self.tell(Input::Flushed(Sink::Side(Side::Client), bytes));
            self.read_pipes();
        }
    }

    // ----- the machine -------------------------------------------------------------

    /// Whether the machine wants to read from this call.
    pub(crate) fn wants(&self, call: CallId) -> bool {
        self.inside(call).is_some_and(|call| self.proxy.wants(Source::Call(call)))
    }

    pub(crate) fn tell(&mut self, input: Input<'_>) {
        if let Input::Chunk(call, bytes) = &input {
            self.trace.chunk(self.now, *call, bytes);
        } else {
            self.trace.fact(self.now, || shown(&input));
        }
        let Some(input) = self.fact(input) else { return };
        self.tape.told(self.now + self.slept, &input);
        self.proxy.handle(Time(self.now + self.slept), input);
        while let Some(output) = self.proxy.poll() {
            self.tape.said(&output);
            self.trace.line(self.now, format_args!("        → {output:?}"));
            self.obey(output);
        }
    }

    fn obey(&mut self, output: Output) {
        if self.model.exited {
            self.model.reproach(format!("after the exit: {output:?}"));
        }
        match output {
            Output::Write(Side::Client, line) => self.written(&line),
            Output::Call(call, request) => self.start(self.outside(call), request),
            Output::Cancel(call) => self.cancel(self.outside(call)),
            Output::Note(note) => {
                if note.blame() == Blame::Bug {
                    self.model.reproach(format!("{note:?}"));
                }
                if matches!(note, Note::SessionLost | Note::StreamLost | Note::SessionOpened { .. }) {
                    self.model.session_lost();
                }
                if matches!(note, Note::SessionRestored) && self.server.habits.announces {
                    self.server.ledger.tell(CHANGED);
                }
            }
            Output::Snapshot(known) => self.snapshot = Some(known),
            Output::Exit(_) => self.model.exited = true,
            Output::Respond(id, parts) => self.responded(id, &parts),
            Output::Send(id, bytes) => self.sent(id, &bytes),
            Output::Finish(id) => self.finished(id),
            Output::Abort(id) => self.aborted(id),
        }
    }

    fn written(&mut self, line: &Bytes) {
        let value = self.model.wrote(self.now, line, &self.server.ledger);
        self.stdout.push_back(line.len());
        let wait = self.dice.between(0, self.slowness);
        self.plan(wait, Happening::Flush);
        self.client_reads(&value);
    }

    /// The client reads this message.
    pub(crate) fn client_reads(&mut self, value: &Value) {
        let waited = self.client.pause().is_none();
        if let Some((pause, answer)) = self.client.read(value) {
            self.plan(pause, Happening::Say(answer));
        }
        if waited {
            self.plan_writing();
        }
    }

    fn start(&mut self, call: CallId, request: Request<Bytes>) {
        let wrong = self.calls.begin(call, &request, |mark| self.model.only_reads(mark));
        self.model.reproaches.extend(wrong);
        self.model.reproaches.extend(self.calls.count(self.now, self.quiet_since));
        let message = serde_json::from_slice::<Value>(request.body()).unwrap_or_default();
        answered(&message).iter().for_each(|id| self.model.question_over(id));
        let (fate, way) = self.network.begin(call);
        let failed = |error| Happening::Arrive(call, Piece::Failed(error));
        match fate {
            Fate::Refused(error) => self.plan(way, failed(error)),
            Fate::Lost => self.plan(way, failed(CallError::Reset)),
            Fate::ResetBeforeHead(error) => {
                self.upload(call, way, request.body().len());
                self.plan(way, failed(error));
            }
            Fate::Doubled => {
                self.upload(call, way, request.body().len());
                self.plan(way + 1, Happening::Request(call, second(call)));
            }
            Fate::CutAfter(wait, error) => {
                self.upload(call, way, request.body().len());
                self.plan(way + wait, failed(error));
            }
            Fate::Fine | Fate::Mute | Fate::Cut(..) | Fate::HalfClose(_) | Fate::Stall(_) => {
                self.upload(call, way, request.body().len());
            }
        }
        self.requests.insert(call, request);
    }

    /// Plans how a request leaves in two pieces and arrives.
    fn upload(&mut self, call: CallId, way: u64, bytes: usize) {
        self.plan(way / 2, Happening::Uploaded(call, bytes / 2));
        self.plan(way, Happening::Uploaded(call, bytes - bytes / 2));
        self.plan(way, Happening::Request(call, call));
    }

    pub(crate) fn cancel(&mut self, call: CallId) {
        if !self.calls.over(call) {
            self.model.reproach(format!("call {} was over before its cancel", call.0));
        }
        self.network.drop_call(call);
        let delay = self.network.delay();
        self.plan(delay, Happening::Notice(call));
    }

    /// Checks that no fact has an effect after the exit.
    pub(crate) fn knock_once_more(&mut self) {
        self.tell(Input::Tick);
        self.tell(Input::Bytes(Side::Client, b"{\"id\":1,\"method\":\"tools/call\"}\n"));
        let exchange = ExchangeId(u64::MAX);
        self.tell(Input::Request(exchange, Request::new(()).into_parts().0, Bytes::new()));
        self.tell(Input::Gone(exchange));
        self.tell(Input::Shutdown);
        if self.proxy.deadline().is_some() {
            self.model.reproach("a deadline after the exit".to_owned());
        }
    }
}

/// A fact as text for the log.
fn shown(input: &Input<'_>) -> String {
    match input {
        Input::Bytes(_, bytes) => format!("client {:?}", String::from_utf8_lossy(bytes)),
        Input::Head(call, parts) => format!("head {} {} {:?}", call.0, parts.status, parts.headers),
        Input::Request(id, parts, body) => {
            let body = String::from_utf8_lossy(body);
            format!("exchange {} {} {:?} {body:?}", id.0, parts.method, parts.headers)
        }
        Input::Tick
        | Input::Eof(_)
        | Input::Gone(_)
        | Input::Chunk(..)
        | Input::End(_)
        | Input::Failed(..)
        | Input::Flushed(..)
        | Input::Waiting(_)
        | Input::Stop
        | Input::Shutdown => format!("{input:?}"),
    }
}
