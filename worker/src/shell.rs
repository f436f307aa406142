//! The machine of one session and all that it has under way. Facts go in by
//! [`Shell::tell`], which carries out what the machine says and never waits:
//! whatever waits does so in [`Traffic`], outside.

use crate::answer;
use crate::keep;
use crate::lines;
use crate::machine::{Machine, More, Timer};
use crate::outlet::Outlet;
use crate::place::Place;
use crate::platform::{self, Begun, Ended, Gone, Piece, Took, Traffic};
use futures::TryFutureExt;
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

/// The platform counts longer ones wrongly. A tick that comes early does no harm.
const LONGEST_WAIT: u64 = 60 * 60 * 1000;
/// What ends an object whose instance has ended.
const FAILED: &str = "a session has failed, and others of its isolate with it";

pub(crate) struct Shell {
    pub(crate) state: State,
    pub(crate) traffic: Traffic,
    machine: RefCell<Option<Machine>>,
    /// When a client last asked for something, or an answer to it ended.
    asked: Cell<u64>,
    /// The headers that a call was last answered with.
    heard: RefCell<HeaderMap>,
    /// The session has ended, and will not come back.
    over: Cell<bool>,
    /// Ends the watch over the WebAssembly instance.
    watch: RefCell<Option<Function>>,
    ring: Closure<dyn Fn()>,
    /// What the traffic reports to.
    _callbacks: Callbacks,
}

type Callbacks = (Begun, Piece, Ended, Took, Gone);

/// Who asks, and for which server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    pub(crate) upstream: String,
    pub(crate) principal: String,
}

/// What a machine works for.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    /// The public name of the session.
    pub(crate) session: String,
    pub(crate) asker: Asker,
    /// Who counts the sessions of the client, if anybody does.
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
                watch: RefCell::new(None),
                ring,
                _callbacks: callbacks,
            }
        })
    }

    /// Starts a machine.
    pub(crate) fn start(&self, config: &Config, owner: Owner, more: More, place: Option<Place>) {
        self.watch();
        self.asked.set(now());
        let mut old = self.machine.replace(Some(Machine::new(config, owner, more, place)));
        old.as_mut().map(Machine::hand_place_on);
        self.end(old);
    }

    /// The session is still there, and keeps its place among those of its client.
    pub(crate) fn keep_place(&self) {
        self.machine.borrow().as_ref().map(Machine::keep_place);
    }

    /// Whether there is a machine, and these words fit whom it works for.
    pub(crate) fn serves(&self, fits: impl FnOnce(&Owner) -> bool) -> bool {
        let slot = self.machine.borrow();
        slot.as_ref().and_then(Machine::owner).is_some_and(fits)
    }

    /// The session has ended, and will not come back.
    pub(crate) fn over(&self) -> bool {
        self.over.get()
    }

    /// Watches that the WebAssembly instance lives, while something may wait in it.
    pub(crate) fn watch(&self) {
        let start = || platform::watch(self.state.as_raw().as_ref(), FAILED);
        self.watch.borrow_mut().get_or_insert_with(start);
    }

    /// Lets go of what would keep an object in memory that serves no session: also
    /// of a machine whose first request was no `initialize`.
    pub(crate) fn rest(&self) {
        let useless = self.machine.borrow_mut().take_if(|machine| machine.useless());
        self.end(useless);
        if self.machine.borrow().is_none()
            && let Some(end) = self.watch.take()
        {
            end.call0(&JsValue::NULL).ok();
        }
    }

    /// Nothing outlives the machine that asked for it, and nobody waits for it.
    fn end(&self, machine: Option<Machine>) {
        let Some(machine) = machine else { return };
        self.traffic.cancel_all();
        for (id, outlet) in machine.waiting() {
            self.refuse(number(id.0), &Refusal::SessionEnded, outlet.origin());
        }
    }

    /// Nobody has asked for anything for so long, and nobody is being answered,
    /// or may come back for an answer that is still to come.
    pub(crate) fn idle(&self, limit: Duration) -> bool {
        let silent = now().saturating_sub(self.asked.get());
        Duration::from_millis(silent) >= limit && !self.machine.borrow().as_ref().is_some_and(Machine::busy)
    }

    /// Gives a client's request to the machine.
    pub(crate) fn ask(self: &Rc<Self>, id: u32, parts: request::Parts, body: Vec<u8>, origin: Option<String>) {
        self.asked.set(now());
        let id = ExchangeId(u64::from(id));
        if let Some(machine) = self.machine.borrow_mut().as_mut() {
            machine.owe(id, Outlet::new(origin));
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

    /// Ends the machine, whichever it is. Whoever comes next gets another.
    pub(crate) fn stop(self: &Rc<Self>) {
        self.machine.borrow_mut().as_mut().map(Machine::retire);
        self.tell(Input::Shutdown);
    }

    /// Takes one fact, and starts what the machine asks for.
    pub(crate) fn tell(self: &Rc<Self>, input: Input<'_>) {
        self.tell_all([input]);
    }

    /// Takes facts that are known together, and starts what the machine asks for.
    fn tell_all<'i>(self: &Rc<Self>, inputs: impl IntoIterator<Item = Input<'i>>) {
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

    /// A call is answered, with the same headers as the last time if there are
    /// none, and with its body if that is short. Says whether more is wanted.
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

    /// Whether the machine wants more of a call; if not, it will say when.
    fn wants(&self, id: CallId) -> bool {
        self.machine.borrow_mut().as_mut().is_some_and(|machine| machine.wants(id))
    }

    /// A response has ended.
    pub(crate) fn answered(&self, now: u64) {
        self.asked.set(now);
    }

    /// A tick that is due then.
    pub(crate) fn tick_at(&self, at: u64) -> Timer {
        let wait = at.saturating_sub(now()).min(LONGEST_WAIT);
        Timer { at, handle: platform::set_timeout(&self.ring, wait as f64) }
    }

    /// Does something to the object's storage. What is said afterwards does not
    /// leave the object before that is done.
    pub(crate) fn store(self: &Rc<Self>, does: impl AsyncFnOnce(&State) -> Result<()> + 'static) {
        let shell = self.clone();
        spawn_local(async move {
            does(&shell.state).unwrap_or_else(|error| log("error", "STORAGE", &error.to_string())).await;
        });
    }
}

/// What the traffic of a session reports to.
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
            // The platform does not say how far a request has come.
            let failed = || Input::Failed(call(id), CallError::Reset, "");
            tell(&ended, if whole { Input::End(call(id)) } else { failed() });
        }),
        Closure::new(move |id, count| tell(&took, Input::Flushed(Sink::Exchange(exchange(id)), size(count)))),
        Closure::new(move |id| tell(&gone, Input::Gone(exchange(id)))),
    )
}

/// How an exchange or a call is known outside.
pub(crate) fn number(id: u64) -> u32 {
    u32::try_from(id).unwrap_or(u32::MAX)
}

/// A line for the operator, without secrets, session ids and bodies.
pub(crate) fn log(level: &str, tag: &str, message: &str) {
    console_log!("{}", json!({"level": level, "tag": tag, "message": message}));
}
