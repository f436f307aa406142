//! The machine itself, and what it has begun: responses, ticks, things to keep.

use crate::keep::Kept;
use crate::lines;
use crate::outlet::{Head, Outlet};
use crate::place::Place;
use crate::platform;
use crate::shell::{Owner, Shell, log, now, number};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri};
use mcp_proxy_core::{
    Blame, CallId, Config, ExchangeId, Exit, Input, Note, Output, Proxy, Sink, Snapshot, Source, Time,
};
use mcp_proxy_words::{Throttle, counted};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use wasm_bindgen::JsValue;
use worker::js_sys::Math;

/// Stands in the response that opens a session.
const SESSION_ID: &str = "mcp-session-id";

pub(crate) struct Machine {
    proxy: Proxy,
    owner: Option<Owner>,
    more: More,
    /// Its place among the sessions of its client, where those are counted.
    place: Option<Place>,
    /// What is to be kept of the session, once it is open.
    snapshot: Option<Snapshot>,
    outlets: BTreeMap<ExchangeId, Outlet>,
    /// What is under way with the server.
    calls: BTreeSet<CallId>,
    /// Calls of which the machine has wanted no more.
    paused: Vec<CallId>,
    /// When the next tick is due.
    timer: Option<Timer>,
    /// How the traffic makes calls, and begins responses.
    address: Option<Address>,
    head: Option<Head>,
    throttle: Throttle,
}

/// Where a call goes, and with which headers.
type Address = (Method, Uri, HeaderMap);

/// A tick that is due. Dropped, it is not.
pub(crate) struct Timer {
    pub(crate) at: u64,
    pub(crate) handle: JsValue,
}

impl Drop for Timer {
    fn drop(&mut self) {
        platform::clear_timeout(&self.handle);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.place.as_ref().map(Place::leave);
    }
}

/// What else a machine is started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct More {
    /// Whether the session outlives the object.
    pub(crate) keeps: bool,
    pub(crate) verbose: bool,
    /// How long after the session was opened the object looks around.
    pub(crate) alarm: Duration,
    /// Whether it has been opened.
    pub(crate) opened: bool,
}

impl Machine {
    pub(crate) fn new(config: &Config, owner: Owner, more: More, place: Option<Place>) -> Self {
        Self {
            proxy: Proxy::new(config, (Math::random() * 9e15).to_bits(), Time(now())),
            owner: Some(owner),
            more,
            place,
            snapshot: None,
            outlets: BTreeMap::new(),
            calls: BTreeSet::new(),
            paused: Vec::new(),
            timer: None,
            address: None,
            head: None,
            throttle: Throttle::default(),
        }
    }

    /// Whom it works for, if it still does.
    pub(crate) fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// It works for nobody any more; it may still say goodbye to the server.
    pub(crate) fn retire(&mut self) {
        self.owner = None;
    }

    /// The session is still there.
    pub(crate) fn keep_place(&self) {
        self.place.as_ref().map(Place::keep);
    }

    /// The next machine of the session has its place.
    pub(crate) fn hand_place_on(&mut self) {
        self.place = None;
    }

    /// Somebody is being answered, or may come back for an answer that is still to come.
    pub(crate) fn busy(&self) -> bool {
        !self.outlets.is_empty() || self.proxy.busy()
    }

    /// It has no session, and nobody waits for one.
    pub(crate) fn useless(&self) -> bool {
        !self.more.opened && self.outlets.is_empty()
    }

    /// Those whose responses have not begun.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (ExchangeId, &Outlet)> {
        self.outlets.iter().filter(|(_, outlet)| outlet.waits()).map(|(id, outlet)| (*id, outlet))
    }

    /// The response to this exchange goes there.
    pub(crate) fn owe(&mut self, id: ExchangeId, outlet: Outlet) {
        self.outlets.insert(id, outlet);
    }

    /// The tick that was due has come.
    pub(crate) fn rang(&mut self) {
        self.timer = None;
    }

    /// Whether more is wanted of a call. If more is wanted later, the traffic hears of it.
    pub(crate) fn wants(&mut self, id: CallId) -> bool {
        let wanted = self.proxy.wants(Source::Call(id));
        if !wanted && self.calls.contains(&id) {
            self.paused.push(id);
        }
        wanted
    }

    /// Takes facts that are known together, and starts what the machine asks for.
    pub(crate) fn tell<'i>(
        &mut self,
        shell: &Rc<Shell>,
        now: u64,
        inputs: impl IntoIterator<Item = Input<'i>>,
    ) -> Option<Exit> {
        for input in inputs {
            if let Input::Gone(id) = &input {
                self.outlets.remove(id);
                shell.answered(now);
            }
            if let Input::End(id) | Input::Failed(id, ..) = &input {
                self.calls.remove(id);
            }
            self.proxy.handle(Time(now), input);
        }
        self.drain(shell, now)
    }

    /// Carries out what the machine says.
    fn drain(&mut self, shell: &Rc<Shell>, now: u64) -> Option<Exit> {
        loop {
            let (mut begun, mut exit) = (Vec::new(), None);
            while let Some(output) = self.proxy.poll() {
                match output {
                    Output::Call(id, request) => {
                        self.calls.insert(id);
                        self.call(shell, id, &request);
                    }
                    Output::Cancel(id) => {
                        self.calls.remove(&id);
                        shell.traffic.cancel(number(id.0));
                    }
                    Output::Respond(id, parts) => {
                        begun.push(id);
                        if parts.headers.contains_key(SESSION_ID) {
                            self.open(shell);
                        }
                        self.to(id, |outlet| outlet.respond(parts));
                    }
                    Output::Send(id, bytes) => self.to(id, |outlet| outlet.send(&bytes)),
                    Output::Finish(id) => self.to(id, Outlet::finish),
                    Output::Abort(id) => self.to(id, Outlet::abort),
                    Output::Snapshot(known) => self.snapshot = Some(known),
                    Output::Note(note) => self.tell_of(Time(now), &note),
                    Output::Exit(how) => exit = Some(how),
                    // Only a client on stdio is written to.
                    Output::Write(..) => {}
                }
            }
            if exit.is_none() {
                self.keep(shell);
            }
            let none = begun.is_empty();
            begun.into_iter().for_each(|id| self.begin(shell, now, id));
            if none || exit.is_some() {
                self.go_on(shell);
                return exit;
            }
        }
    }

    /// A note, unless its like was told again and again.
    fn tell_of(&mut self, now: Time, note: &Note) {
        let fault = note.blame() != Blame::Nobody;
        let unsaid = if fault { self.throttle.admit(now, note) } else { Some(0) };
        unsaid.into_iter().for_each(|unsaid| tell_of(note, self.more.verbose, unsaid));
    }

    fn to(&mut self, id: ExchangeId, write: impl FnOnce(&mut Outlet)) {
        if let Some(outlet) = self.outlets.get_mut(&id) {
            write(outlet);
        }
    }

    /// Makes a call.
    fn call(&mut self, shell: &Shell, id: CallId, request: &Request<Bytes>) {
        let (method, url, headers) = (request.method(), request.uri(), request.headers());
        if !self.address.as_ref().is_some_and(|known| (&known.0, &known.1, &known.2) == (method, url, headers)) {
            shell.traffic.address(method.as_str(), &url.to_string(), &lines::write(headers));
            self.address = Some((method.clone(), url.clone(), headers.clone()));
        }
        drop(shell.traffic.call(number(id.0), request.body()));
    }

    /// Begins a response. If that is all of it, it has been taken.
    fn begin(&mut self, shell: &Shell, now: u64, id: ExchangeId) {
        let Some(outlet) = self.outlets.get_mut(&id) else { return };
        if let Some(length) = outlet.begin(number(id.0), &shell.traffic, &mut self.head) {
            self.outlets.remove(&id);
            shell.answered(now);
            self.proxy.handle(Time(now), Input::Flushed(Sink::Exchange(id), length));
        }
    }

    /// The session stands.
    fn open(&mut self, shell: &Rc<Shell>) {
        let alarm = self.more.alarm;
        self.more.opened = true;
        shell.store(async move |state| state.storage().set_alarm(alarm).await);
    }

    /// Reads on where the machine wants more again, and sets the clock.
    fn go_on(&mut self, shell: &Shell) {
        self.paused.retain(|id| {
            let wanted = self.proxy.wants(Source::Call(*id));
            if wanted {
                shell.traffic.resume(number(id.0));
            }
            !wanted && self.calls.contains(id)
        });
        if let Some(deadline) = self.proxy.deadline()
            && self.timer.as_ref().is_none_or(|timer| deadline.at.0 < timer.at)
        {
            self.timer = Some(shell.tick_at(deadline.at.0));
        }
    }

    /// Keeps what another object would need, before any response begins that
    /// follows from it.
    fn keep(&mut self, shell: &Rc<Shell>) {
        let Some(owner) = self.owner.as_ref().filter(|_| self.more.opened && self.more.keeps) else { return };
        if let Some(known) = self.snapshot.take() {
            let kept = Kept::new(owner, &known);
            shell.store(async move |state| kept.save(state).await);
        }
    }
}

/// Tells the operator, if it is worth a line; and how many like it were not.
pub(crate) fn tell_of(note: &Note, verbose: bool, unsaid: u64) {
    let level = match note.blame() {
        Blame::Nobody if !verbose => return,
        Blame::Nobody => "info",
        Blame::Client | Blame::Server | Blame::Link => "warn",
        Blame::Bug => "error",
    };
    let (tag, text) = mcp_proxy_words::words(note);
    log(level, tag, &counted(text, unsaid));
}
