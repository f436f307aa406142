//! The Durable Object of one session. It owns the connection to the server, so
//! that all requests of the session share it; it makes its machine when the
//! session is initialized, and again when it has been restarted meanwhile.

use crate::answer;
use crate::keep::{self, Kept};
use crate::known::Known;
use crate::machine::More;
use crate::place::Place;
use crate::platform::{self, Asked};
use crate::settings::{self, Settings};
use crate::shell::{Owner, Shell, log, now};
use http::{HeaderValue, Method};
use mcp_proxy_core::{ClientTransport, HttpTransport, Input};
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

/// When to look again at a session that a mistake in the settings has stopped.
const MUCH_LATER: Duration = Duration::from_secs(60 * 60);

/// One session.
#[wasm_bindgen]
pub struct Session {
    desk: Rc<Desk>,
    asked: Asked,
}

/// Whether there is a machine for whoever asks.
enum Served {
    Yes,
    Unknown,
    /// Its client has too many others.
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

    /// A request, with what the edge knows of it.
    pub fn fetch(&self, request: &Request) -> Promise {
        match &*settings::current(&self.desk.env) {
            Ok(settings) => self.desk.shell.traffic.ask(request, settings.edge.max_body as f64, &self.asked),
            Err(_) => {
                let refusal = Refusal::Misconfigured("the Worker is misconfigured".to_owned());
                answer::settled(answer::refused(&refusal, None))
            }
        }
    }

    /// The object looks around.
    pub fn alarm(&self) -> Promise {
        let desk = self.desk.clone();
        future_to_promise(AssertUnwindSafe(async move {
            desk.look_around().await?;
            Ok(JsValue::UNDEFINED)
        }))
    }
}

impl Desk {
    /// Takes a request; without its body, if that is too long.
    fn take(self: &Rc<Self>, id: u32, method: &str, text: String, body: Option<Vec<u8>>) {
        #[cfg(feature = "crash")]
        crate::crash::at_word_of(body.as_deref().unwrap_or_default());
        let known = Known::read(&text);
        if known.length.is_empty() {
            // An edge of another version asks, as happens during a deployment.
            return self.shell.refuse(id, &Refusal::NotOpened, None);
        }
        self.shell.watch();
        if self.shell.serves(|owner| known.is_from(&owner.asker)) {
            return self.hand_over(id, method, &known, body);
        }
        let (desk, method) = (self.clone(), method.to_owned());
        spawn_local(async move {
            let known = Known::read(&text);
            match desk.serves(&known).await {
                Ok(Served::Yes) => desk.hand_over(id, &method, &known, body),
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
        self.shell.ask(id, parts, body, known.origin().map(str::to_owned));
    }

    /// The longest body of a request.
    fn longest(&self) -> usize {
        settings::current(&self.env).as_ref().as_ref().map_or(0, |settings| settings.edge.max_body)
    }

    /// There is a machine that works for whoever asks; it is made for a new
    /// session, and for one that has lost its object.
    async fn serves(&self, known: &Known<'_>) -> Result<Served> {
        let read = settings::current(&self.env);
        let Ok(settings) = &*read else { return Ok(Served::Unknown) };
        if !self.shell.serves(|_| true) && !self.shell.over() {
            let name = known.session();
            let kept = if name.is_some() && settings.recovers { Kept::load(&self.shell.state).await? } else { None };
            let kept = kept.filter(|kept| known.is_from(&kept.asker) && name.is_some_and(|name| kept.is_called(name)));
            let client = kept.as_ref().map_or(known.client, |kept| kept.client.as_str());
            let place = Place::new(&self.env, client, &self.shell.state.id().to_string(), &settings.limits);
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

    /// Makes the machine.
    async fn begin(
        &self,
        settings: &Settings,
        known: &Known<'_>,
        kept: Option<Kept>,
        place: Option<Place>,
    ) -> Result<()> {
        let Some(config) = settings.edge.upstreams.get(known.upstream) else { return Ok(()) };
        let session = match &kept {
            Some(kept) => kept.session.clone(),
            None => session_id::write(&self.shell.state.id().to_string(), &platform::secret()),
        };
        let Ok(name) = HeaderValue::from_str(&session) else { return Ok(()) };
        let limits = &settings.limits;
        let mut config = config.clone();
        config.client = ClientTransport::Http(HttpTransport {
            most_open: limits.open,
            queue_bytes: limits.queue,
            replay_events: limits.replay_events,
            replay_bytes: limits.replay_bytes,
            hold: limits.hold,
            heartbeat: limits.heartbeat,
            patience: limits.patience,
            recovers: settings.recovers,
            resumed: kept.as_ref().map(Kept::snapshot),
            ..HttpTransport::new(name)
        });
        if let Some((name, credentials)) = known.authorization() {
            config.headers.insert(name, credentials);
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

    /// Keeps the object while it is in use, ends what is idle, and forgets what
    /// nobody has come back for.
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

    /// Objects come and go meanwhile, so since when is not for them to know.
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

/// Whether a place could be had, where they are counted.
async fn taken(place: Option<&Place>) -> bool {
    match place {
        Some(place) => place.take().await,
        None => true,
    }
}
