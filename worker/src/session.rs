//! The Durable Object of one session, or of clients without sessions. It owns the
//! connection to the server, which all its requests share. It makes its machine with the
//! first request, and makes a new one after a restart.

use crate::answer;
use crate::keep::{self, Kept, Signer};
use crate::known::{Known, Stateless};
use crate::learned;
use crate::machine::More;
use crate::outlet::Outlet;
use crate::place::Place;
use crate::platform::{self, Asked};
use crate::settings::{self, Settings};
use crate::shell::{Owner, Shell, log, now};
use http::{HeaderValue, Method};
use mcp_proxy_core::{ClientTransport, Config, HttpTransport, Input};
use mcp_proxy_edge::{Refusal, session_id};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::{Closure, wasm_bindgen};
use wasm_bindgen_futures::{future_to_promise, spawn_local};
use worker::js_sys::Promise;
use worker::web_sys::Request;
use worker::{Env, Result, worker_sys};

/// How long an object waits before it looks at the settings again, if they are wrong.
const MUCH_LATER: Duration = Duration::from_secs(60 * 60);

/// How long, in milliseconds, a request waits while the machine finds out how to reach the
/// server. A silent server has ten seconds to answer `server/discover`.
const LONGEST_DETECTION: u64 = 15_000;

/// One session.
#[wasm_bindgen]
pub struct Session {
    desk: Rc<Desk>,
    asked: Asked,
}

/// Whether this object can serve a request.
enum Served {
    Yes,
    Unknown,
    /// Another object must serve the request.
    Elsewhere,
    /// The client has too many other sessions.
    Full,
}

/// Where requests arrive.
struct Desk {
    shell: Rc<Shell>,
    env: Env,
}

#[wasm_bindgen]
impl Session {
    /// An object that serves no session yet.
    #[wasm_bindgen(constructor)]
    pub fn new(state: worker_sys::DurableObjectState, env: Env) -> Self {
        let desk = Rc::new(Desk { shell: Shell::new(state.into()), env });
        let taker = desk.clone();
        let asked = Closure::new(move |id, method: String, known, body| taker.take(id, &method, known, body));
        Self { desk, asked }
    }

    /// Accepts a request, with what the edge knows about it.
    pub fn fetch(&self, request: &Request) -> Promise {
        match &*settings::current(&self.desk.env) {
            Ok(settings) => self.desk.shell.traffic.ask(request, settings.edge.max_body as f64, &self.asked),
            Err(_) => {
                let refusal = Refusal::Misconfigured("the Worker is misconfigured".to_owned());
                answer::settled(answer::refused(&refusal, None))
            }
        }
    }

    /// Ends or keeps the session (see `look_around`).
    pub fn alarm(&self) -> Promise {
        let desk = self.desk.clone();
        future_to_promise(AssertUnwindSafe(async move {
            desk.look_around().await?;
            Ok(JsValue::UNDEFINED)
        }))
    }
}

impl Desk {
    /// Accepts a request. A body that is too long is missing.
    fn take(self: &Rc<Self>, id: u32, method: &str, text: String, body: Option<Vec<u8>>) {
        #[cfg(feature = "crash")]
        crate::crash::at_word_of(body.as_deref().unwrap_or_default());
        let known = Known::read(&text);
        if known.length.is_empty() {
            // An edge of another version asks, as happens during a deployment.
            return self.shell.refuse(id, &Refusal::NotOpened, None);
        }
        self.shell.watch();
        let ours = self.shell.serves(|owner| known.is_from(&owner.asker));
        if ours && self.shell.may_join(known.stateless()) == Some(true) {
            return self.hand_over(id, method, &known, body);
        }
        let (desk, method) = (self.clone(), method.to_owned());
        spawn_local(async move {
            let known = Known::read(&text);
            match desk.serves(&known).await {
                Ok(Served::Yes) => desk.hand_over(id, &method, &known, body),
                Ok(Served::Elsewhere) => desk.shell.pass_on(id),
                Ok(Served::Unknown) => desk.shell.refuse(id, &Refusal::UnknownSession, known.origin()),
                Ok(Served::Full) => desk.shell.refuse(id, &answer::too_many_sessions(), known.origin()),
                Err(error) => {
                    log("error", "SESSION", &error.to_string());
                    desk.shell.refuse(id, &Refusal::NotOpened, known.origin());
                }
            }
            desk.shell.rest();
        });
    }

    /// Gives a request to the machine.
    fn hand_over(&self, id: u32, method: &str, known: &Known<'_>, body: Option<Vec<u8>>) {
        let Some(body) = body else {
            return self.shell.refuse(id, &answer::too_long(self.longest()), known.origin());
        };
        let mut parts = http::Request::new(()).into_parts().0;
        parts.method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
        parts.headers = known.headers();
        self.shell.ask(id, parts, body, Outlet::new(known));
    }

    /// The longest body of a request.
    fn longest(&self) -> usize {
        settings::current(&self.env).as_ref().as_ref().map_or(0, |settings| settings.edge.max_body)
    }

    /// Finds the machine for a request. Makes one for a new session, and for a session
    /// whose object has restarted.
    async fn serves(&self, known: &Known<'_>) -> Result<Served> {
        let read = settings::current(&self.env);
        let Ok(settings) = &*read else { return Ok(Served::Unknown) };
        if let Some(how) = known.stateless() {
            return self.serves_stateless(settings, known, how).await;
        }
        if !self.shell.serves(|_| true) && !self.shell.over() {
            let name = known.session();
            let kept = if name.is_some() && settings.recovers { Kept::load(&self.shell.state).await? } else { None };
            let kept = kept.filter(|kept| known.is_from(&kept.asker) && name.is_some_and(|name| kept.is_called(name)));
            let client = kept.as_ref().map_or(known.client, |kept| kept.client.as_str());
            let place = self.place(settings, known, client);
            // The edge has taken the place of a new session.
            if kept.is_some() && !self.shell.serves(|_| true) && !taken(place.as_ref()).await {
                return Ok(Served::Full);
            }
            // Another request may have been quicker.
            if !self.shell.serves(|_| true) && name.is_some() == kept.is_some() {
                self.begin(settings, known, kept, place).await?;
            }
        }
        let is_served = self.shell.serves(|owner| known.is_from(&owner.asker));
        Ok(if is_served { Served::Yes } else { Served::Unknown })
    }

    /// The same for a request without a session.
    async fn serves_stateless(&self, settings: &Settings, known: &Known<'_>, how: Stateless) -> Result<Served> {
        if !self.shell.serves(|_| true) {
            let signer = Signer::load(&self.shell.state).await?;
            let foreign = signer.as_ref().is_some_and(|signer| !known.is_from(&signer.asker));
            if foreign || (signer.is_none() && how == Stateless::Parked) {
                return Ok(Served::Elsewhere);
            }
            let place = self.place(settings, known, known.client);
            if !self.shell.serves(|_| true) && !taken(place.as_ref()).await {
                return Ok(Served::Full);
            }
            // Another request may have been quicker.
            if !self.shell.serves(|_| true) {
                self.begin_stateless(settings, known, signer, place).await?;
            }
        }
        let ours = self.shell.serves(|owner| known.is_from(&owner.asker));
        Ok(if ours && self.may_join(settings, how).await { Served::Yes } else { Served::Elsewhere })
    }

    /// Whether the machine can serve one more request. While the machine is finding out
    /// how to reach the server, the request waits: in another object it would only open a
    /// session of its own.
    async fn may_join(&self, settings: &Settings, how: Stateless) -> bool {
        let until = now() + LONGEST_DETECTION;
        loop {
            match self.shell.may_join(Some(how)) {
                Some(may) => return may,
                None if now() >= until || self.shell.undecided() >= settings.limits.open => return false,
                None => drop(self.shell.decision(until).await),
            }
        }
    }

    /// The place of this object among the sessions that `client` counts.
    fn place(&self, settings: &Settings, known: &Known<'_>, client: &str) -> Option<Place> {
        let place = Place::new(&self.env, client, &self.shell.state.id().to_string(), &settings.limits);
        place.map(|place| place.until_admitted(known.principal))
    }

    async fn begin_stateless(
        &self,
        settings: &Settings,
        known: &Known<'_>,
        signer: Option<Signer>,
        place: Option<Place>,
    ) -> Result<()> {
        let states = || session_id::write(&self.shell.state.id().to_string(), &platform::secret());
        let signer = signer.unwrap_or_else(|| Signer { asker: known.asker(), states: states() });
        let Some(mut config) = config(settings, known, &signer.states, None) else { return Ok(()) };
        if let ClientTransport::Http(client) = &mut config.client {
            client.left = keep::open(&self.shell.state).await?;
            client.states.clone_from(&signer.states);
            client.recovers = true;
        }
        let limits = &settings.limits;
        let more = More { keeps: false, verbose: settings.verbose, alarm: limits.alarm, opened: true };
        let owner = Owner { session: String::new(), asker: known.asker(), client: known.client.to_owned() };
        self.shell.start(&config, owner, more, place);
        signer.save(&self.shell.state).await?;
        self.shell.state.storage().set_alarm(limits.alarm).await
    }

    /// Makes the machine of a session.
    async fn begin(
        &self,
        settings: &Settings,
        known: &Known<'_>,
        kept: Option<Kept>,
        place: Option<Place>,
    ) -> Result<()> {
        let session = match &kept {
            Some(kept) => kept.session.clone(),
            None => session_id::write(&self.shell.state.id().to_string(), &platform::secret()),
        };
        let limits = &settings.limits;
        let Some(mut config) = config(settings, known, &session, kept.as_ref()) else { return Ok(()) };
        if let (ClientTransport::Http(client), Some(_)) = (&mut config.client, &kept) {
            client.left = keep::open(&self.shell.state).await?;
        }
        let (keeps, verbose, opened) = (settings.recovers, settings.verbose, kept.is_some());
        let more = More { keeps, verbose, alarm: limits.alarm, opened };
        let client = kept.map_or_else(|| known.client.to_owned(), |kept| kept.client);
        self.shell.start(&config, Owner { session, asker: known.asker(), client }, more, place);
        if opened {
            keep::returned(&self.shell.state).await?;
            self.shell.state.storage().set_alarm(limits.alarm).await?;
        }
        Ok(())
    }

    /// Keeps the object while clients use it, closes an idle session's connections, and
    /// deletes a session to which no client has come back.
    async fn look_around(&self) -> Result<()> {
        let state = &self.shell.state;
        let read = settings::current(&self.env);
        let Ok(settings) = &*read else { return state.storage().set_alarm(MUCH_LATER).await };
        let limits = &settings.limits;
        if self.shell.serves(|_| true) {
            if !self.shell.idle(limits.idle) {
                self.shell.tell(Input::Tick);
                self.shell.keep_place();
                return state.storage().set_alarm(limits.alarm).await;
            }
            log("info", "SESSION", "idle: the connection to the server is closed");
            self.shell.stop();
        }
        let kept = if settings.recovers { Kept::load(state).await? } else { None };
        match kept {
            // Somebody has come back meanwhile.
            _ if self.shell.serves(|_| true) => state.storage().set_alarm(limits.alarm).await,
            Some(_) => self.await_return(limits.lifetime).await,
            None => keep::forget(state).await,
        }
    }

    /// The object may restart meanwhile, so the storage has the time at which the client
    /// left.
    async fn await_return(&self, lifetime: Duration) -> Result<()> {
        let state = &self.shell.state;
        let away = Duration::from_millis(now().saturating_sub(keep::left(state, now()).await?));
        if away < lifetime {
            return state.storage().set_alarm(lifetime.saturating_sub(away)).await;
        }
        log("info", "SESSION", "forgotten: nobody has come back");
        keep::forget(state).await
    }
}

/// The settings of a machine for the client of a request.
fn config(settings: &Settings, known: &Known<'_>, session: &str, kept: Option<&Kept>) -> Option<Config> {
    let mut config = settings.edge.upstreams.get(known.upstream)?.clone();
    let limits = &settings.limits;
    config.client = ClientTransport::Http(HttpTransport {
        most_open: limits.open,
        queue_bytes: limits.queue,
        replay_events: limits.replay_events,
        replay_bytes: limits.replay_bytes,
        hold: limits.hold,
        heartbeat: limits.heartbeat,
        patience: limits.patience,
        recovers: settings.recovers,
        challenges: settings.edge.access.is_forwarded() && !known.metadata.is_empty(),
        resumed: kept.map(Kept::snapshot),
        found: learned::read(known.server),
        ..HttpTransport::new(HeaderValue::from_str(session).ok()?)
    });
    if let Some((name, credentials)) = known.authorization() {
        config.headers.insert(name, credentials);
    }
    Some(config)
}

/// Leases the place if the client's sessions are counted. Returns whether one was free.
async fn taken(place: Option<&Place>) -> bool {
    match place {
        Some(place) => place.take().await,
        None => true,
    }
}
