//! The Durable Object of one session. It owns the connection to the server, so
//! that all requests of the session share it; it makes its machine when the
//! session is initialized, and again when it has been restarted meanwhile.

use crate::answer;
use crate::call;
use crate::keep::{self, Kept};
use crate::platform;
use crate::settings::{self, Access, Settings};
use crate::shell::{Asked, Asker, Owner, Shell, log, now};
use http::{HeaderMap, HeaderValue, StatusCode, header::AUTHORIZATION};
use mcp_proxy_core::{ExchangeId, Face, HttpFace, Input, Sink};
use std::rc::Rc;
use std::time::Duration;
use wasm_bindgen_futures::JsFuture;
use worker::js_sys::Uint8Array;
use worker::{DurableObject, Env, Headers, Request, Response, ResponseBuilder, Result, State, durable_object};

/// Set by the edge, which lets no header of that name in from outside.
pub(crate) const UPSTREAM: &str = "mcp-proxy-upstream";
pub(crate) const PRINCIPAL: &str = "mcp-proxy-principal";
pub(crate) const ORIGIN: &str = "mcp-proxy-origin";
pub(crate) const LENGTH: &str = "mcp-proxy-length";

const SESSION_ID: &str = "mcp-session-id";

/// When to look again at a session that a mistake in the settings has stopped.
const MUCH_LATER: Duration = Duration::from_secs(60 * 60);

/// One session.
#[durable_object(alarm)]
pub struct Session {
    shell: Rc<Shell>,
    env: Env,
}

impl DurableObject for Session {
    fn new(state: State, env: Env) -> Self {
        Self { shell: Shell::new(state), env }
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let origin = request.headers().get(ORIGIN)?;
        self.shell.watch();
        let response = self.answer(request).await;
        self.shell.rest();
        let response = response?;
        if let Some(origin) = origin {
            answer::share(response.headers(), &origin)?;
        }
        Ok(response)
    }

    async fn alarm(&self) -> Result<Response> {
        match &*settings::current(&self.env) {
            Ok(settings) => self.look_around(settings).await?,
            Err(_) => self.shell.state.storage().set_alarm(MUCH_LATER).await?,
        }
        Response::empty()
    }
}

impl Session {
    async fn answer(&self, request: Request) -> Result<Response> {
        let read = settings::current(&self.env);
        let Ok(settings) = &*read else {
            return answer::refusal(StatusCode::SERVICE_UNAVAILABLE, -32000, "the Worker is misconfigured");
        };
        let headers = call::headers(&platform::lines(&request.headers().0));
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let asker = Asker {
            upstream: text(UPSTREAM).unwrap_or_default().to_owned(),
            principal: text(PRINCIPAL).unwrap_or_default().to_owned(),
        };
        if !self.serves(settings, &asker, &headers).await? {
            return answer::no_such_session();
        }
        let length = text(LENGTH).and_then(|length| length.parse().ok());
        let limit = settings.limits.body;
        let body = JsFuture::from(platform::body(request.inner(), limit as f64, length)).await?;
        if body.is_undefined() {
            return answer::too_long(limit);
        }
        let body = Uint8Array::new(&body).to_vec();
        #[cfg(feature = "crash")]
        crate::crash::at_word_of(&body);
        let mut parts = http::Request::new(()).into_parts().0;
        parts.method = http::Method::from_bytes(request.method().as_ref().as_bytes()).unwrap_or_default();
        parts.headers = headers;
        let Some(asked) = self.shell.ask(parts, body) else { return answer::no_such_session() };
        self.respond(asked, settings.limits.alarm).await
    }

    /// There is a machine that works for whoever asks; it is made for a new
    /// session, and for one that has lost its object.
    async fn serves(&self, settings: &Settings, asker: &Asker, headers: &HeaderMap) -> Result<bool> {
        let name = headers.get(SESSION_ID);
        if self.shell.owner().is_none() && !self.shell.over() {
            let kept = if name.is_some() && settings.recovers { Kept::load(&self.shell.state).await? } else { None };
            let kept = kept.filter(|kept| kept.asker == *asker && name.is_some_and(|name| kept.is_called(name)));
            // Another request may have been quicker.
            if self.shell.owner().is_none() && name.is_some() == kept.is_some() {
                self.begin(settings, asker, headers, kept).await?;
            }
        }
        Ok(self.shell.owner().is_some_and(|owner| owner.asker == *asker))
    }

    /// Makes the machine.
    async fn begin(&self, settings: &Settings, asker: &Asker, headers: &HeaderMap, kept: Option<Kept>) -> Result<()> {
        let Some(config) = settings.upstreams.get(&asker.upstream) else { return Ok(()) };
        let session = match &kept {
            Some(kept) => kept.session.clone(),
            None => format!("{}.{}", self.shell.state.id(), platform::secret()),
        };
        let Ok(name) = HeaderValue::from_str(&session) else { return Ok(()) };
        let limits = &settings.limits;
        let mut config = config.clone();
        config.face = Face::Http(HttpFace {
            most_open: limits.open,
            queue_bytes: limits.queue,
            replay_events: limits.replay_events,
            replay_bytes: limits.replay_bytes,
            heartbeat: limits.heartbeat,
            patience: limits.patience,
            recovers: settings.recovers,
            resumed: kept.as_ref().map(Kept::keepsake),
            ..HttpFace::new(name)
        });
        if let (Access::Forwarded { .. }, Some(credentials)) = (&settings.access, headers.get(AUTHORIZATION)) {
            config.headers.insert(AUTHORIZATION, credentials.clone());
        }
        let owner = Owner { session, asker: asker.clone() };
        self.shell.start(&config, owner, settings.recovers, settings.verbose);
        if kept.is_some() {
            keep::returned(&self.shell.state).await?;
            self.shell.state.storage().set_alarm(limits.alarm).await?;
        }
        Ok(())
    }

    async fn respond(&self, asked: Asked, alarm: Duration) -> Result<Response> {
        let Asked { run, number, outlet, begun } = asked;
        let Ok(parts) = begun.await else {
            return answer::refusal(StatusCode::SERVICE_UNAVAILABLE, -32000, "the session has ended");
        };
        if parts.headers.contains_key(SESSION_ID) {
            self.shell.state.storage().set_alarm(alarm).await?;
        }
        let headers = Headers(platform::headers(&call::lines(&parts.headers)));
        let response = ResponseBuilder::new().with_status(parts.status.as_u16()).with_headers(headers);
        let whole = outlet.borrow_mut().whole();
        let Some(bytes) = whole else {
            let pipe = self.shell.pipe(number);
            let body = pipe.readable();
            outlet.borrow_mut().open(pipe);
            return Ok(response.stream(body));
        };
        let exchange = ExchangeId(u64::from(number));
        self.shell.tell_all(run, [Input::Flushed(Sink::Exchange(exchange), bytes.len()), Input::Gone(exchange)]);
        Ok(if bytes.is_empty() { response.empty() } else { response.fixed(bytes) })
    }

    /// Keeps the object while it is in use, ends what is idle, and forgets what
    /// nobody has come back for.
    async fn look_around(&self, settings: &Settings) -> Result<()> {
        let limits = &settings.limits;
        let state = &self.shell.state;
        if self.shell.owner().is_some() {
            if !self.shell.idle(limits.idle) {
                self.shell.tick();
                return state.storage().set_alarm(limits.alarm).await;
            }
            log("info", "SESSION", "idle: the connection to the server is closed");
            self.shell.stop();
        }
        let kept = if settings.recovers { Kept::load(state).await? } else { None };
        match kept {
            // Somebody has come back meanwhile.
            _ if self.shell.owner().is_some() => state.storage().set_alarm(limits.alarm).await,
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
