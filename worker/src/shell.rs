//! The machine of one session and everything it has under way. [`Shell::tell`] feeds
//! facts to the machine, executes its outputs and never waits: [`Traffic`] does all
//! waiting outside.

use crate::answer;
use crate::keep;
use crate::known::Stateless;
use crate::lines;
use crate::machine::{Machine, More, Timer};
use crate::outlet::Outlet;
use crate::place::Place;
use crate::platform::{self, Begun, Ended, Gone, Piece, Took, Traffic};
use futures::TryFutureExt;
use futures::channel::oneshot::{self, Receiver, Sender};
use http::{HeaderMap, StatusCode, request};
use mcp_proxy_core::{CallError, CallId, Config, ExchangeId, Exit, Input, Sink};
use mcp_proxy_edge::Refusal;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen_futures::spawn_local;
use worker::js_sys::{Date, Function};
use worker::{Result, State, console_log};

/// The platform miscounts longer timeouts. An early tick does no harm.
const LONGEST_WAIT: u64 = 60 * 60 * 1000;
/// Why an object ends when its WebAssembly instance has ended.
const FAILED: &str = "a session has failed, and others of its isolate with it";

pub(crate) struct Shell {
    pub(crate) state: State,
    pub(crate) traffic: Traffic,
    machine: RefCell<Option<Machine>>,
    /// When a client last sent a request, or a response to it ended.
    asked: Cell<u64>,
    /// The response headers of the last call.
    heard: RefCell<HeaderMap>,
    /// The session has ended for good.
    over: Cell<bool>,
    /// Requests that wait until the machine knows how to reach the server.
    undecided: RefCell<Vec<Undecided>>,
    /// Stops watching the WebAssembly instance.
    watch: RefCell<Option<Function>>,
    ring: Closure<dyn Fn()>,
    /// The callbacks of the traffic.
    _callbacks: Callbacks,
}

/// A request that waits for a decision.
struct Undecided {
    wake: Sender<()>,
    /// Until when it waits.
    timer: Timer,
}

type Callbacks = (Begun, Piece, Ended, Took, Gone);

/// Who sends the requests, and for which server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    pub(crate) upstream: String,
    pub(crate) principal: String,
}

/// The session that a machine serves.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    /// The public id of the session.
    pub(crate) session: String,
    pub(crate) asker: Asker,
    /// The object that counts the client's sessions; empty if nobody counts them.
    pub(crate) client: String,
}

#[allow(clippy::cast_possible_truncation, reason = "it is milliseconds since 1970")]
pub(crate) fn now() -> u64 {
    Date::now() as u64
}

impl Shell {
    pub(crate) fn new(state: State) -> Rc<Self> {
        Rc::new_cyclic(|shell| {
            let callbacks = callbacks(shell);
            let (begun, piece, ended, took, gone) = &callbacks;
            let traffic = Traffic::new(begun, piece, ended, took, gone);
            let shell = shell.clone();
            let ring = Closure::new(move || {
                if let Some(shell) = shell.upgrade() {
                    shell.machine.borrow_mut().as_mut().map(Machine::rang);
                    shell.tell(Input::Tick);
                }
            });
            Self {
                state,
                traffic,
                machine: RefCell::new(None),
                asked: Cell::new(now()),
                heard: RefCell::default(),
                over: Cell::new(false),
                undecided: RefCell::default(),
                watch: RefCell::new(None),
                ring,
                _callbacks: callbacks,
            }
        })
    }

    pub(crate) fn start(&self, config: &Config, owner: Owner, more: More, place: Option<Place>) {
        self.watch();
        self.asked.set(now());
        let mut old = self.machine.replace(Some(Machine::new(config, owner, more, place)));
        old.as_mut().map(Machine::hand_place_on);
        self.end(old);
    }

    /// The session is still alive and keeps its place among those of its client.
    pub(crate) fn keep_place(&self) {
        self.machine.borrow().as_ref().map(Machine::keep_place);
    }

    /// Whether there is a machine whose owner satisfies `fits`.
    pub(crate) fn serves(&self, fits: impl FnOnce(&Owner) -> bool) -> bool {
        let slot = self.machine.borrow();
        slot.as_ref().and_then(Machine::owner).is_some_and(fits)
    }

    /// Whether the machine can serve a request beside those that it has. `None` while it
    /// is still finding out how to reach the server.
    pub(crate) fn may_join(&self, how: Option<Stateless>) -> Option<bool> {
        let slot = self.machine.borrow();
        if how == Some(Stateless::Exclusive) {
            slot.as_ref().map_or(Some(false), Machine::tells_apart)
        } else {
            Some(true)
        }
    }

    /// How many requests wait until the machine has found that out.
    pub(crate) fn undecided(&self) -> usize {
        self.undecided.borrow().len()
    }

    /// Resolves once the machine may have found that out, at the latest at this time.
    pub(crate) fn decision(&self, until: u64) -> Receiver<()> {
        let (wake, woken) = oneshot::channel();
        let timer = self.tick_at(until);
        self.undecided.borrow_mut().push(Undecided { wake, timer });
        woken
    }

    /// Lets the requests go on that have waited for a decision, or for too long.
    fn decide(&self) {
        if self.undecided.borrow().is_empty() {
            return;
        }
        let (now, decided) = (now(), self.may_join(Some(Stateless::Exclusive)).is_some());
        let over = |waiting: &mut Undecided| decided || waiting.timer.at <= now;
        let woken: Vec<_> = self.undecided.borrow_mut().extract_if(.., over).collect();
        for Undecided { wake, .. } in woken {
            wake.send(()).ok();
        }
    }

    /// Leaves a request to another object.
    pub(crate) fn pass_on(&self, id: u32) {
        let server = self.machine.borrow().as_ref().and_then(Machine::server);
        match answer::elsewhere(server.as_deref()) {
            Ok(response) => self.traffic.respond(id, &response.into()),
            Err(error) => log("error", "SESSION", &error.to_string()),
        }
    }

    /// The session has ended for good.
    pub(crate) fn over(&self) -> bool {
        self.over.get()
    }

    /// Watches that the WebAssembly instance is alive, while something may wait in it.
    pub(crate) fn watch(&self) {
        let start = || platform::watch(self.state.as_raw().as_ref(), FAILED);
        self.watch.borrow_mut().get_or_insert_with(start);
    }

    /// Releases whatever would keep an object without a session in memory, including a
    /// machine whose first request was not `initialize`.
    pub(crate) fn rest(&self) {
        let useless = self.machine.borrow_mut().take_if(|machine| machine.useless());
        self.end(useless);
        if self.machine.borrow().is_none()
            && let Some(end) = self.watch.take()
        {
            end.call0(&JsValue::NULL).ok();
        }
    }

    /// Ends a machine: cancels its traffic and refuses the waiting requests.
    fn end(&self, machine: Option<Machine>) {
        let Some(machine) = machine else { return };
        self.traffic.cancel_all();
        for (id, outlet) in machine.waiting() {
            self.refuse(number(id.0), &Refusal::SessionEnded, outlet.origin());
        }
    }

    /// Whether the session is idle: no request for `limit`, no response in progress, and
    /// no answer that a client may return for.
    pub(crate) fn idle(&self, limit: Duration) -> bool {
        let silent = now().saturating_sub(self.asked.get());
        Duration::from_millis(silent) >= limit && !self.machine.borrow().as_ref().is_some_and(Machine::busy)
    }

    /// Passes a client's request to the machine.
    pub(crate) fn ask(self: &Rc<Self>, id: u32, parts: request::Parts, body: Vec<u8>, outlet: Outlet) {
        self.asked.set(now());
        let id = ExchangeId(u64::from(id));
        if let Some(machine) = self.machine.borrow_mut().as_mut() {
            machine.owe(id, outlet);
        }
        self.tell(Input::Request(id, parts, body.into()));
    }

    /// Answers a request in the machine's place.
    pub(crate) fn refuse(&self, id: u32, refusal: &Refusal, origin: Option<&str>) {
        match answer::refused(refusal, origin) {
            Ok(response) => self.traffic.respond(id, &response.into()),
            Err(error) => log("error", "SESSION", &error.to_string()),
        }
    }

    /// Stops the current machine. The next request gets a new one.
    pub(crate) fn stop(self: &Rc<Self>) {
        self.machine.borrow_mut().as_mut().map(Machine::retire);
        self.tell(Input::Shutdown);
        // The machine ends its session at the server itself.
        self.store(async |state| keep::save_open(state, keep::Headers::new()).await);
    }

    /// Feeds one fact to the machine and executes its outputs.
    pub(crate) fn tell(self: &Rc<Self>, input: Input<'_>) {
        self.tell_all([input]);
    }

    /// Feeds several facts to the machine and executes its outputs.
    fn tell_all<'i>(self: &Rc<Self>, inputs: impl IntoIterator<Item = Input<'i>>) {
        self.step(inputs);
        self.decide();
    }

    fn step<'i>(self: &Rc<Self>, inputs: impl IntoIterator<Item = Input<'i>>) {
        let mut slot = self.machine.borrow_mut();
        let Some(machine) = slot.as_mut() else { return };
        let exit = machine.tell(self, now(), inputs);
        let idle = machine.useless();
        let ended = slot.take_if(|_| exit.is_some());
        drop(slot);
        if exit == Some(Exit::Drained) {
            self.over.set(true);
            self.store(async |state| keep::forget(state).await);
        }
        self.end(ended);
        if exit.is_some() || idle {
            self.rest();
        }
    }

    /// A call's response began. Without headers, it has the same ones as the last
    /// response; a short body is included. Returns whether the machine wants more.
    fn begun(self: &Rc<Self>, id: CallId, status: u16, headers: Option<&str>, whole: Option<&[u8]>) -> bool {
        if let Some(headers) = headers {
            self.heard.replace(lines::read(headers));
        }
        let Ok(status) = StatusCode::from_u16(status) else {
            self.traffic.cancel(number(id.0));
            self.tell(Input::Failed(id, CallError::Protocol, ""));
            return false;
        };
        let mut head = http::Response::new(()).into_parts().0;
        (head.status, head.headers) = (status, self.heard.borrow().clone());
        let body = whole.filter(|body| !body.is_empty()).map(|body| Input::Chunk(id, body));
        let end = whole.is_some().then_some(Input::End(id));
        self.tell_all([Some(Input::Head(id, head)), body, end].into_iter().flatten());
        whole.is_none() && self.wants(id)
    }

    /// Whether the machine wants more of a call. If not, it will say when.
    fn wants(&self, id: CallId) -> bool {
        self.machine.borrow_mut().as_mut().is_some_and(|machine| machine.wants(id))
    }

    pub(crate) fn answered(&self, now: u64) {
        self.asked.set(now);
    }

    /// Schedules a tick.
    pub(crate) fn tick_at(&self, at: u64) -> Timer {
        let wait = at.saturating_sub(now()).min(LONGEST_WAIT);
        Timer { at, handle: platform::set_timeout(&self.ring, wait as f64) }
    }

    /// Changes the object's storage. Later output does not leave the object before the
    /// change is done.
    pub(crate) fn store(self: &Rc<Self>, does: impl AsyncFnOnce(&State) -> Result<()> + 'static) {
        let shell = self.clone();
        spawn_local(async move {
            does(&shell.state).unwrap_or_else(|error| log("error", "STORAGE", &error.to_string())).await;
        });
    }
}

/// The callbacks for the traffic of a session.
fn callbacks(shell: &Weak<Shell>) -> Callbacks {
    let call = |id: u32| CallId(u64::from(id));
    let exchange = |id: u32| ExchangeId(u64::from(id));
    let size = |count| usize::try_from(count).unwrap_or(usize::MAX);
    let [begun, piece, ended, took, gone] = std::array::from_fn(|_| shell.clone());
    let tell = |shell: &Weak<Shell>, input: Input<'_>| {
        if let Some(shell) = shell.upgrade() {
            shell.tell(input);
        }
    };
    (
        Closure::new(move |id, status, headers: Option<String>, whole: Option<Vec<u8>>| {
            begun.upgrade().is_some_and(|shell| shell.begun(call(id), status, headers.as_deref(), whole.as_deref()))
        }),
        Closure::new(move |id, bytes: Vec<u8>| {
            tell(&piece, Input::Chunk(call(id), &bytes));
            piece.upgrade().is_some_and(|shell| shell.wants(call(id)))
        }),
        Closure::new(move |id, whole| {
            // The platform does not tell how far a request got.
            let failed = || Input::Failed(call(id), CallError::Reset, "");
            tell(&ended, if whole { Input::End(call(id)) } else { failed() });
        }),
        Closure::new(move |id, count| tell(&took, Input::Flushed(Sink::Exchange(exchange(id)), size(count)))),
        Closure::new(move |id| tell(&gone, Input::Gone(exchange(id)))),
    )
}

/// The id of an exchange or a call for the traffic.
pub(crate) fn number(id: u64) -> u32 {
    u32::try_from(id).unwrap_or(u32::MAX)
}

/// Logs a line for the operator, without secrets, session ids and bodies.
pub(crate) fn log(level: &str, tag: &str, message: &str) {
    console_log!("{}", json!({"level": level, "tag": tag, "message": message}));
}
