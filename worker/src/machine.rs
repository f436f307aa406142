//! The machine of an object: feeds it facts, and carries out its outputs: responses, calls
//! to the server, ticks, and what the object must store.

use crate::keep::{self, Headers, Kept};
use crate::learned;
use crate::lines;
use crate::outlet::{Head, Outlet};
use crate::place::Place;
use crate::platform;
use crate::shell::{Owner, Shell, log, now, number};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use mcp_proxy_core::{
    Blame, CallId, ClientTransport, Config, Detection, ExchangeId, Exit, HttpTransport, Input, Note, Output, Proxy,
    Sink, Snapshot, Source, Time,
};
use mcp_proxy_words::{Throttle, counted};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use wasm_bindgen::JsValue;
use worker::js_sys::Math;

/// The header of the response that opens a session.
const SESSION_ID: &str = "mcp-session-id";

pub(crate) struct Machine {
    proxy: Proxy,
    owner: Option<Owner>,
    more: More,
    /// Its place among the sessions of its client, where those are counted.
    place: Option<Place>,
    /// What the object stores of the session, once it is open.
    snapshot: Option<Snapshot>,
    outlets: BTreeMap<ExchangeId, Outlet>,
    /// The open calls to the server.
    calls: BTreeSet<CallId>,
    /// The calls that the machine does not read at the moment.
    paused: Vec<CallId>,
    /// When the next tick is due.
    timer: Option<Timer>,
    /// The heads that the traffic uses for calls and for responses.
    address: Option<Address>,
    head: Option<Head>,
    throttle: Throttle,
    /// It was told how its server speaks.
    told: bool,
    /// The headers of the session at the server, as the object has stored them.
    named: Headers,
}

/// Where a call goes, and with which headers.
type Address = (Method, Uri, HeaderMap);

/// A scheduled tick. Dropping it cancels the tick.
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

/// How a machine works for its object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct More {
    /// Whether the session outlives the object.
    pub(crate) keeps: bool,
    pub(crate) verbose: bool,
    /// How long after opening the session the object's alarm comes.
    pub(crate) alarm: Duration,
    /// Whether the session is open, or needs none.
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
            told: matches!(&config.client, ClientTransport::Http(HttpTransport { found: Some(_), .. })),
            named: Headers::new(),
        }
    }

    /// The owner, unless the machine has retired.
    pub(crate) fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// The machine serves no client any more. It may still end the server's session.
    pub(crate) fn retire(&mut self) {
        self.owner = None;
    }

    /// Renews the lease of the session's place.
    pub(crate) fn keep_place(&self) {
        self.place.as_ref().map(Place::keep);
    }

    /// Leaves the place to the session's next machine.
    pub(crate) fn hand_place_on(&mut self) {
        self.place = None;
    }

    /// Whether a response is open, or a client may come back for an answer.
    pub(crate) fn busy(&self) -> bool {
        !self.outlets.is_empty() || self.proxy.busy()
    }

    /// Whether one more request may come that the server asks questions about. `None`
    /// while the machine does not know.
    pub(crate) fn tells_apart(&self) -> Option<bool> {
        self.proxy.tells_apart()
    }

    /// What the edge should learn about the server; nothing while there is nothing new.
    pub(crate) fn server(&self) -> Option<String> {
        match self.proxy.detection() {
            Detection::Found(found) => Some(learned::write(Some(found))),
            Detection::Unknown if self.told => Some(learned::DOUBT.to_owned()),
            Detection::Unknown | Detection::Assumed => None,
        }
    }

    /// Whether it serves clients without sessions.
    fn is_shared(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.session.is_empty())
    }

    /// It has no session, and nobody waits for one.
    pub(crate) fn useless(&self) -> bool {
        !self.more.opened && self.outlets.is_empty()
    }

    /// The exchanges whose responses have not begun.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (ExchangeId, &Outlet)> {
        self.outlets.iter().filter(|(_, outlet)| outlet.waits()).map(|(id, outlet)| (*id, outlet))
    }

    /// Sets where the response to an exchange goes.
    pub(crate) fn owe(&mut self, id: ExchangeId, outlet: Outlet) {
        self.outlets.insert(id, outlet);
    }

    /// The scheduled tick has come.
    pub(crate) fn rang(&mut self) {
        self.timer = None;
    }

    /// Whether the machine wants more of a call. If it wants more later, it tells the
    /// traffic.
    pub(crate) fn wants(&mut self, id: CallId) -> bool {
        let wanted = self.proxy.wants(Source::Call(id));
        if !wanted && self.calls.contains(&id) {
            self.paused.push(id);
        }
        wanted
    }

    /// Feeds facts that arrived together to the machine, and carries out its outputs.
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

    /// Carries out the machine's outputs.
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
                    Output::Respond(id, mut parts) => {
                        begun.push(id);
                        let opens = parts.headers.contains_key(SESSION_ID);
                        if opens || !self.more.opened || self.is_shared() {
                            self.tell_edge(&mut parts.headers);
                        }
                        if opens {
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
                    // Only a machine with a client on stdio writes.
                    Output::Write(..) => {}
                }
            }
            if exit.is_none() {
                self.settle();
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

    /// Logs a note, unless many like it came before.
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

    /// Begins a response. A response of one piece counts as read.
    fn begin(&mut self, shell: &Shell, now: u64, id: ExchangeId) {
        let Some(outlet) = self.outlets.get_mut(&id) else { return };
        if let Some(length) = outlet.begin(number(id.0), &shell.traffic, &mut self.head) {
            self.outlets.remove(&id);
            shell.answered(now);
            self.proxy.handle(Time(now), Input::Flushed(Sink::Exchange(id), length));
        }
    }

    /// Tells the edge how the machine speaks to its server. The edge reads this only in
    /// responses to requests that name no session.
    fn tell_edge(&self, headers: &mut HeaderMap) {
        let server = self.server().and_then(|server| HeaderValue::try_from(server).ok());
        headers.extend(server.map(|server| (HeaderName::from_static(learned::SERVER), server)));
    }

    /// Moves its place to the client's own, once the server has admitted the client.
    fn settle(&mut self) {
        if let (Detection::Found(_), Some(place), Some(owner)) =
            (self.proxy.detection(), &mut self.place, &mut self.owner)
            && let Some(client) = place.admitted()
        {
            client.clone_into(&mut owner.client);
        }
    }

    /// The session is open.
    fn open(&mut self, shell: &Rc<Shell>) {
        let alarm = self.more.alarm;
        self.more.opened = true;
        shell.store(async move |state| state.storage().set_alarm(alarm).await);
    }

    /// Resumes the calls of which the machine wants more again, and schedules the next tick.
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

    /// Stores what another machine would need, before any response begins that follows
    /// from it.
    fn keep(&mut self, shell: &Rc<Shell>) {
        if (self.more.keeps || self.is_shared()) && self.proxy.session() != self.named {
            self.named = self.proxy.session().to_vec();
            let named = self.named.clone();
            shell.store(async move |state| keep::save_open(state, named).await);
        }
        let Some(owner) = self.owner.as_ref().filter(|_| self.more.opened && self.more.keeps) else { return };
        if let Some(known) = self.snapshot.take() {
            let kept = Kept::new(owner, &known);
            shell.store(async move |state| kept.save(state).await);
        }
    }
}

/// Logs a note for the operator, with the number of similar notes that were not logged.
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
