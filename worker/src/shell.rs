//! The machine of one session and all that it has under way. Facts go in by
//! [`Shell::tell`], which carries out what the machine says and never waits;
//! whatever waits is a task of its own and holds no borrow meanwhile.

use crate::call;
use crate::keep::{self, Kept};
use crate::outlet::Outlet;
use crate::platform::{self, Pipe};
use bytes::Bytes;
use futures::channel::oneshot;
use http::{request, response};
use mcp_proxy_core::{
    Blame, CallId, Config, ExchangeId, Exit, Input, Keepsake, Note, Output, Proxy, Sink, Source, Time,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen_futures::spawn_local;
use worker::js_sys::Function;
use worker::web_sys::{AbortController, AbortSignal};
use worker::{Date, State, console_log};

/// The platform counts longer ones wrongly. A tick that comes early does no harm.
const LONGEST_WAIT: u64 = 60 * 60 * 1000;
/// What ends an object whose instance has ended.
const FAILED: &str = "a session has failed, and others of its isolate with it";

pub(crate) struct Shell {
    pub(crate) state: State,
    machine: RefCell<Option<Machine>>,
    runs: Cell<u64>,
    exchanges: Cell<u32>,
    /// When a client last asked for something, or an answer to it ended.
    asked: Cell<u64>,
    /// The session has ended, and will not come back.
    over: Cell<bool>,
    /// Ends the watch over the WebAssembly instance.
    watch: RefCell<Option<Function>>,
    took: Closure<dyn Fn(u32, u32)>,
    gone: Closure<dyn Fn(u32)>,
    ring: Closure<dyn Fn()>,
}

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
}

struct Machine {
    proxy: Proxy,
    /// Tells this machine from earlier ones, whose tasks may still end.
    run: u64,
    /// None once the machine has been stopped; it may still say goodbye to the server.
    owner: Option<Owner>,
    /// Whether the session outlives the object.
    keeps: bool,
    verbose: bool,
    kept: Option<Keepsake>,
    /// What is under way with the server.
    calls: BTreeMap<CallId, AbortController>,
    outlets: BTreeMap<ExchangeId, Rc<RefCell<Outlet>>>,
    /// Tasks that wait for the machine to want more.
    waiting: Vec<Waker>,
    /// When the next tick is due.
    timer: Option<Timer>,
}

/// A tick that is due. Dropped, it is not.
struct Timer {
    at: u64,
    handle: JsValue,
}

impl Drop for Timer {
    fn drop(&mut self) {
        platform::clear_timeout(&self.handle);
    }
}

/// What a machine asks for that takes time.
enum Errand {
    Call(CallId, http::Request<Bytes>, AbortSignal),
    Tick(u64),
    Save(Kept),
    Forget,
}

pub(crate) fn now() -> u64 {
    Date::now().as_millis()
}

impl Shell {
    pub(crate) fn new(state: State) -> Rc<Self> {
        Rc::new_cyclic(|shell: &Weak<Self>| {
            let (one, other, third) = (shell.clone(), shell.clone(), shell.clone());
            let tell = |shell: &Weak<Self>, input| {
                if let Some(shell) = shell.upgrade() {
                    shell.tell(shell.runs.get(), input);
                }
            };
            let exchange = |id: u32| ExchangeId(u64::from(id));
            let size = |count| usize::try_from(count).unwrap_or(usize::MAX);
            let took = move |id, count| tell(&one, Input::Flushed(Sink::Exchange(exchange(id)), size(count)));
            Self {
                state,
                machine: RefCell::new(None),
                runs: Cell::new(0),
                exchanges: Cell::new(0),
                asked: Cell::new(now()),
                over: Cell::new(false),
                watch: RefCell::new(None),
                took: Closure::new(took),
                gone: Closure::new(move |id| tell(&other, Input::Gone(exchange(id)))),
                ring: Closure::new(move || {
                    if let Some(shell) = third.upgrade() {
                        shell.machine.borrow_mut().as_mut().map(|machine| machine.timer.take());
                        shell.tick();
                    }
                }),
            }
        })
    }

    /// A response that is written while it is read.
    pub(crate) fn pipe(&self, exchange: u32) -> Pipe {
        platform::pipe(exchange, &self.took, &self.gone)
    }

    /// Starts a machine.
    pub(crate) fn start(&self, config: &Config, owner: Owner, keeps: bool, verbose: bool) {
        self.runs.set(self.runs.get() + 1);
        let seed = (worker::js_sys::Math::random() * 9e15).to_bits();
        let machine = Machine {
            proxy: Proxy::new(config, seed, Time(now())),
            run: self.runs.get(),
            owner: Some(owner),
            keeps,
            verbose,
            kept: None,
            calls: BTreeMap::new(),
            outlets: BTreeMap::new(),
            waiting: Vec::new(),
            timer: None,
        };
        self.asked.set(now());
        self.machine.replace(Some(machine));
    }

    /// Whose session the machine serves, if there is one.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.machine.borrow().as_ref().and_then(|machine| machine.owner.clone())
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
        let mut slot = self.machine.borrow_mut();
        slot.take_if(|machine| machine.outlets.is_empty() && machine.proxy.keepsake().is_none());
        if slot.is_none()
            && let Some(end) = self.watch.take()
        {
            end.call0(&JsValue::NULL).ok();
        }
    }

    /// Nobody has asked for anything for so long, and nobody is being answered,
    /// or may come back for an answer that is still to come.
    pub(crate) fn idle(&self, limit: Duration) -> bool {
        let silent = now().saturating_sub(self.asked.get());
        let used = |machine: &Machine| !machine.outlets.is_empty() || machine.proxy.busy();
        Duration::from_millis(silent) >= limit && !self.machine.borrow().as_ref().is_some_and(used)
    }

    /// Gives a client's request to the machine. The response begins at the
    /// other end of the channel; dropped, it does not.
    pub(crate) fn ask(self: &Rc<Self>, parts: request::Parts, body: Vec<u8>) -> Option<Asked> {
        self.asked.set(now());
        let number = self.exchanges.get().wrapping_add(1);
        self.exchanges.set(number);
        let exchange = ExchangeId(u64::from(number));
        let (outlet, begun) = Outlet::new();
        let outlet = Rc::new(RefCell::new(outlet));
        let run = {
            let mut machine = self.machine.borrow_mut();
            let machine = machine.as_mut()?;
            machine.outlets.insert(exchange, outlet.clone());
            machine.run
        };
        self.tell(run, Input::Request(exchange, parts, body.into()));
        Some(Asked { run, number, outlet, begun })
    }

    /// Ends the machine, whichever it is. Whoever comes next gets another.
    pub(crate) fn stop(self: &Rc<Self>) {
        self.machine.borrow_mut().as_mut().map(|machine| machine.owner.take());
        self.tell(self.runs.get(), Input::Shutdown);
    }

    /// Time has passed, for whichever machine there is.
    pub(crate) fn tick(self: &Rc<Self>) {
        self.tell(self.runs.get(), Input::Tick);
    }

    /// Takes one fact, and starts what the machine asks for.
    pub(crate) fn tell(self: &Rc<Self>, run: u64, input: Input<'_>) {
        self.tell_all(run, [input]);
    }

    /// Takes facts that are known together, and starts what the machine asks for.
    pub(crate) fn tell_all<'i>(self: &Rc<Self>, run: u64, inputs: impl IntoIterator<Item = Input<'i>>) {
        let mut errands = Vec::new();
        {
            let mut slot = self.machine.borrow_mut();
            let Some(machine) = slot.as_mut().filter(|machine| machine.run == run) else { return };
            let now = now();
            for input in inputs {
                if let Input::Gone(exchange) = &input {
                    machine.outlets.remove(exchange);
                    self.asked.set(now);
                }
                if let Input::End(call) | Input::Failed(call, _) = &input {
                    machine.calls.remove(call);
                }
                machine.proxy.handle(Time(now), input);
            }
            let exit = machine.drain(&mut errands);
            machine.waiting.drain(..).for_each(Waker::wake);
            if let Some(exit) = exit {
                if exit == Exit::Drained {
                    self.over.set(true);
                    errands.push(Errand::Forget);
                }
                slot.take();
            }
        }
        errands.into_iter().for_each(|errand| self.run_errand(run, errand));
        if self.machine.borrow().is_none() {
            self.rest();
        }
    }

    fn run_errand(self: &Rc<Self>, run: u64, errand: Errand) {
        let shell = self.clone();
        match errand {
            Errand::Call(id, request, signal) => spawn_local(call::run(shell, run, id, request, signal)),
            Errand::Tick(at) => self.tick_at(run, at),
            Errand::Save(kept) => spawn_local(async move {
                if let Err(error) = kept.save(&shell.state).await {
                    log("error", "STORAGE", &error.to_string());
                }
            }),
            Errand::Forget => spawn_local(async move {
                if let Err(error) = keep::forget(&shell.state).await {
                    log("error", "STORAGE", &error.to_string());
                }
            }),
        }
    }

    fn tick_at(&self, run: u64, at: u64) {
        if let Some(machine) = self.machine.borrow_mut().as_mut().filter(|machine| machine.run == run) {
            let wait = at.saturating_sub(now()).min(LONGEST_WAIT);
            let handle = platform::set_timeout(&self.ring, wait as f64);
            machine.timer = Some(Timer { at, handle });
        }
    }

    /// Waits until the machine wants to read more of this call.
    pub(crate) async fn wanted(&self, run: u64, id: CallId) {
        std::future::poll_fn(|context| {
            let mut slot = self.machine.borrow_mut();
            match slot.as_mut().filter(|machine| machine.run == run) {
                Some(machine) if !machine.proxy.wants(Source::Call(id)) && machine.calls.contains_key(&id) => {
                    machine.waiting.push(context.waker().clone());
                    Poll::Pending
                }
                Some(_) | None => Poll::Ready(()),
            }
        })
        .await;
    }

    /// The machine still wants to hear of this call.
    pub(crate) fn runs(&self, run: u64, id: CallId) -> bool {
        let slot = self.machine.borrow();
        slot.as_ref().is_some_and(|machine| machine.run == run && machine.calls.contains_key(&id))
    }
}

/// A request that the machine has taken.
pub(crate) struct Asked {
    pub(crate) run: u64,
    pub(crate) number: u32,
    pub(crate) outlet: Rc<RefCell<Outlet>>,
    pub(crate) begun: oneshot::Receiver<response::Parts>,
}

impl Machine {
    /// Carries out what the machine says.
    fn drain(&mut self, errands: &mut Vec<Errand>) -> Option<Exit> {
        let mut answered = false;
        while let Some(output) = self.proxy.poll() {
            match output {
                Output::Call(id, request) => {
                    let Ok(controller) = AbortController::new() else { continue };
                    errands.push(Errand::Call(id, request, controller.signal()));
                    self.calls.insert(id, controller);
                }
                Output::Cancel(id) => {
                    if let Some(controller) = self.calls.remove(&id) {
                        controller.abort();
                    }
                }
                Output::Respond(id, parts) => self.to(id, |outlet| outlet.respond(parts)),
                Output::Send(id, bytes) => self.to(id, |outlet| outlet.send(&bytes)),
                Output::Finish(id) => {
                    answered = true;
                    self.to(id, Outlet::finish);
                }
                Output::Abort(id) => self.to(id, Outlet::abort),
                Output::Note(note) => self.note(&note),
                Output::Exit(exit) => return Some(exit),
                // Only a client on stdio is written to.
                Output::Write(..) => {}
            }
        }
        if answered && self.keeps {
            self.keep(errands);
        }
        if let Some(deadline) = self.proxy.deadline()
            && self.timer.as_ref().is_none_or(|timer| deadline.at.0 < timer.at)
        {
            errands.push(Errand::Tick(deadline.at.0));
        }
        None
    }

    fn to(&self, id: ExchangeId, write: impl FnOnce(&mut Outlet)) {
        if let Some(outlet) = self.outlets.get(&id) {
            write(&mut outlet.borrow_mut());
        }
    }

    /// Keeps what another object would need, if it has changed.
    fn keep(&mut self, errands: &mut Vec<Errand>) {
        let known = self.proxy.keepsake();
        if let Some(known) = &known
            && self.kept.as_ref() != Some(known)
        {
            errands.extend(self.owner.as_ref().map(|owner| Errand::Save(Kept::new(owner, known))));
            self.kept = Some(known.clone());
        }
    }

    fn note(&self, note: &Note) {
        let level = match note.blame() {
            Blame::Nobody if !self.verbose => return,
            Blame::Nobody => "info",
            Blame::Client | Blame::Server | Blame::Link => "warn",
            Blame::Bug => "error",
        };
        let (tag, text) = mcp_proxy_words::words(note);
        log(level, tag, &text);
    }
}

/// Nothing outlives the machine that asked for it, and nobody waits for it.
impl Drop for Machine {
    fn drop(&mut self) {
        self.calls.values().for_each(AbortController::abort);
        self.outlets.values().for_each(|outlet| outlet.borrow_mut().abandon());
    }
}

/// A line for the operator, without secrets, session ids and bodies.
pub(crate) fn log(level: &str, tag: &str, message: &str) {
    console_log!("{}", json!({"level": level, "tag": tag, "message": message}));
}
