//! Authorization at protected servers (MCP 2026-07-28, "Authorization"). The component
//! knows nothing of it: `http` asks for a token before each request to the server's own
//! origin, and shows a refusal to the `Authorizer`, which renews the token, or lets the
//! person log in, or leaves the refusal to the component.
//!
//! Tokens live here and in the `store`. They never enter the sandbox, a log, a recording,
//! or a child's arguments or environment.

mod assertion;
mod browser;
mod callback;
mod challenge;
pub mod command;
mod discovery;
mod examine;
mod grant;
mod interactive;
mod login;
mod metadata;
mod page;
mod registration;
mod renewal;
mod scope;
mod store;
mod wait;

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ::http::{HeaderMap, HeaderValue, StatusCode};
use mcp_proxy_options::{AuthOptions, Grant, UsageError};
use url::Url;

use self::{
    assertion::Signer, challenge::Challenge, discovery::Found, grant::Asker, login::Login, metadata::Resource,
    store::Store,
};
pub use self::{examine::Examined, wait::Wait};
use crate::{http::Web, note, record::Mask, stdio::lock};

/// After a login that failed, nobody is asked again for this long.
const COOL_DOWN: Duration = Duration::from_secs(300);
/// A server that always wants more is refused after this many times.
const MOST_STEPS: u32 = 3;

/// A handle; clones share the token.
#[derive(Clone)]
pub struct Authorizer(Arc<Inner>);

struct Inner {
    url: Url,
    /// The name of the server in the store.
    name: String,
    options: AuthOptions,
    web: Web,
    store: Store,
    signer: Option<Signer>,
    mask: Arc<Mask>,
    /// The token in use.
    current: Mutex<Current>,
    /// Only one renewal or login runs at a time.
    turn: tokio::sync::Mutex<Turn>,
    /// Whether a person waits for an answer.
    asked: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// Somebody else says why there is no token.
    silent: AtomicBool,
    /// Tells the component while a person is waited for.
    wait: OnceLock<Wait>,
}

#[derive(Default)]
enum Current {
    /// Nobody has looked into the store.
    #[default]
    Unknown,
    None,
    Token(Token),
}

/// A token, as a request carries it.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) header: HeaderValue,
    login: Arc<Login>,
    origin: Origin,
    /// The server has accepted it.
    accepted: Arc<AtomicBool>,
}

/// Where a token comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// An earlier process, or another one.
    Stored,
    Refreshed,
    LoggedIn,
}

/// What earlier turns have led to.
#[derive(Default)]
struct Turn {
    failed: Option<(Instant, String)>,
    /// When the last renewal ended without an answer, and why.
    missed: Option<(Instant, String)>,
    steps: u32,
}

/// What to do about a refusal.
pub(crate) enum Decision {
    /// Send the request again, with this token.
    Again(Token),
    /// Pass the refusal on, with the reason why there is no token.
    Leave(Option<String>),
}

impl Authorizer {
    /// `None` if the user's own credentials, or the options, leave nothing to do.
    pub fn new(
        url: &str,
        options: &AuthOptions,
        web: Web,
        mask: Arc<Mask>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, UsageError> {
        let url = Url::parse(url).map_err(|error| UsageError::new(format!("`{url}` is not a URL: {error}")))?;
        let signer = options.key.as_deref().map(Signer::read).transpose()?;
        // Without a home, only --oauth-grant needs one.
        let store = match (Store::new(options.store, env), options.grant) {
            (_, Grant::Off) => return Ok(None),
            (Ok(store), _) => store,
            (Err(_), Grant::Auto) => return Ok(None),
            (Err(text), _) => return Err(UsageError::new(text)),
        };
        options.client_secret.iter().for_each(|secret| mask.add(secret.as_bytes()));
        Ok(Some(Self(Arc::new(Inner {
            name: metadata::canonical(&url),
            url,
            options: options.clone(),
            web,
            store,
            signer,
            mask,
            current: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            asked: OnceLock::new(),
            silent: AtomicBool::new(false),
            wait: OnceLock::new(),
        }))))
    }

    /// Connects the authorizer with the client: `asked` says whether a request of the
    /// client is open, and `wait` tells the component that a person is waited for.
    pub fn serve(&self, asked: impl Fn() -> bool + Send + Sync + 'static, wait: Wait) {
        drop(self.0.asked.set(Box::new(asked)));
        drop(self.0.wait.set(wait));
    }

    /// Uses and renews a token that is there, but asks nobody and says nothing.
    pub fn only_look(&self) {
        drop(self.0.asked.set(Box::new(|| false)));
        self.0.silent.store(true, Ordering::Relaxed);
    }

    /// The token for the next request, if one is known. Renews it before it expires.
    pub(crate) async fn token(&self) -> Option<Token> {
        let known = match &*lock(&self.0.current) {
            Current::Unknown => None,
            Current::None => return None,
            Current::Token(token) => Some(token.clone()),
        };
        let token = match known {
            Some(token) => token,
            None => self.0.load().await?,
        };
        if !token.login.is_stale(login::now()) {
            return Some(token);
        }
        let this = self.0.clone();
        tokio::spawn(async move { this.renew_early(token).await }).await.ok()
    }

    /// What to do about a refusal of a request that carried `used`.
    pub(crate) async fn refused(&self, status: StatusCode, headers: &HeaderMap, used: Option<Token>) -> Decision {
        let challenge = Challenge::of(headers);
        let wants_more = challenge.as_ref().is_some_and(Challenge::wants_more);
        if status != StatusCode::UNAUTHORIZED && !wants_more {
            return Decision::Leave(None);
        }
        let refusal = Refusal { challenge: challenge.unwrap_or_default(), wants_more, used };
        let this = self.0.clone();
        // A task: whoever else waits for this login must get it, even if this request is
        // cancelled.
        match tokio::spawn(async move { this.take_turn(refusal).await }).await {
            Ok(decision) => decision,
            Err(error) => Decision::Leave(Some(error.to_string())),
        }
    }

    /// The server has accepted the token.
    pub(crate) fn accepted(token: &Token) {
        token.accepted.store(true, Ordering::Relaxed);
    }
}

impl Token {
    /// Why no further token would help.
    fn is_useless(&self) -> Option<String> {
        let issuer = &self.login.server.issuer;
        let useless = self.origin == Origin::LoggedIn && !self.accepted.load(Ordering::Relaxed);
        useless.then(|| format!("the server refuses the token that {issuer} has just issued for it"))
    }

    /// A refused token of a refresh is not refreshed again.
    fn may_refresh(&self) -> bool {
        self.origin != Origin::Refreshed || self.accepted.load(Ordering::Relaxed)
    }
}

impl Turn {
    /// Why a renewal failed that somebody has waited for since then.
    fn missed_since(&self, since: Instant) -> Option<String> {
        self.missed.as_ref().filter(|(ended, _)| *ended >= since).map(|(_, text)| text.clone())
    }

    /// Whether to ask for more scopes than `asked`.
    fn may_step(&mut self, asked: &str, challenge: &Challenge) -> bool {
        self.steps += 1;
        let wanted = challenge.scope.as_deref();
        wanted.is_some_and(|wanted| !scope::covers(asked, wanted)) && self.steps <= MOST_STEPS
    }
}

/// A refused request.
struct Refusal {
    challenge: Challenge,
    /// The token lacks scopes.
    wants_more: bool,
    used: Option<Token>,
}

impl Inner {
    async fn load(&self) -> Option<Token> {
        let login = self.store.load(&self.name, self.options.client_id.as_deref()).await;
        let token = login.and_then(|login| self.token(login, Origin::Stored));
        let mut current = lock(&self.current);
        if matches!(*current, Current::Unknown) {
            *current = token.map_or(Current::None, Current::Token);
        }
        match &*current {
            Current::Token(token) => Some(token.clone()),
            Current::None | Current::Unknown => None,
        }
    }

    fn token(&self, login: Login, origin: Origin) -> Option<Token> {
        login.secrets().for_each(|secret| self.mask.add(secret.as_bytes()));
        let header = login.header()?;
        Some(Token { header, login: Arc::new(login), origin, accepted: Arc::default() })
    }

    fn adopt(&self, login: Login, origin: Origin) -> Result<Token, String> {
        let token = self.token(login, origin).ok_or("the token has characters that no header can carry")?;
        *lock(&self.current) = Current::Token(token.clone());
        Ok(token)
    }

    /// Somebody has got another token meanwhile.
    fn newer(&self, used: Option<&Token>) -> Option<Token> {
        let Current::Token(token) = &*lock(&self.current) else { return None };
        Some(token.clone()).filter(|token| used.is_none_or(|used| used.login.access != token.login.access))
    }

    async fn take_turn(&self, refusal: Refusal) -> Decision {
        let since = Instant::now();
        let mut turn = self.turn.lock().await;
        if let Some(token) = self.newer(refusal.used.as_ref()) {
            return Decision::Again(token);
        }
        // Whoever waits for an authorization server that does not answer, waits once.
        if let Some(text) = turn.missed_since(since).filter(|_| !refusal.wants_more && refusal.used.is_some()) {
            return Decision::Leave(Some(text));
        }
        match self.obtain(&mut turn, &refusal).await {
            Ok(Some(token)) => Decision::Again(token),
            Ok(None) => Decision::Leave(None),
            Err(text) => {
                if !self.silent.load(Ordering::Relaxed) {
                    note::http(&text);
                }
                Decision::Leave(Some(text))
            }
        }
    }

    /// Another token than the one that was refused; `None` if no other would help.
    async fn obtain(&self, turn: &mut Turn, refusal: &Refusal) -> Result<Option<Token>, String> {
        let Refusal { challenge, wants_more, used } = refusal;
        // Also the person may have logged in by the command.
        if let Some(login) = self.fresh(used.as_ref()).await {
            return self.adopt(login, Origin::Stored).map(Some);
        }
        if let Some(used) = used.as_ref().filter(|_| !wants_more) {
            if let Some(text) = used.is_useless() {
                turn.failed = Some((Instant::now(), text.clone()));
                return Err(text);
            }
            if let Some(token) = self.renew_once(turn, used).await? {
                return Ok(Some(token));
            }
        }
        let asked = used.as_ref().filter(|_| *wants_more).map(|used| used.login.asked.clone().unwrap_or_default());
        if !asked.as_deref().is_none_or(|asked| turn.may_step(asked, challenge)) {
            return Ok(None);
        }
        self.may_ask(turn)?;
        let token = self.log_in(challenge, asked.as_deref(), used.as_ref()).await;
        let token = token.map_err(|text| format!("the login failed: {text}"));
        turn.failed = token.as_ref().err().map(|text| (Instant::now(), text.clone()));
        token.map(Some)
    }

    /// Whether a new login may begin now. One that needs nobody always may, unless the
    /// last one failed.
    fn may_ask(&self, turn: &Turn) -> Result<(), String> {
        if let Some((at, text)) = turn.failed.as_ref().filter(|(at, _)| at.elapsed() < COOL_DOWN) {
            let left = COOL_DOWN.saturating_sub(at.elapsed()).as_secs();
            return Err(format!("{text} (the next attempt is possible in {left} s)"));
        }
        let alone = self.options.grant == Grant::ClientCredentials;
        match alone || self.asked.get().is_none_or(|asked| asked()) {
            true => Ok(()),
            false => Err(format!("log in with `mcp-proxy login {}`", self.url)),
        }
    }

    async fn log_in(&self, challenge: &Challenge, asked: Option<&str>, used: Option<&Token>) -> Result<Token, String> {
        let _lock = self.lock_store().await?;
        if let Some(login) = self.fresh(used).await {
            return self.adopt(login, Origin::Stored);
        }
        let found = discovery::find(&self.web, &self.url, challenge.resource_metadata.as_deref()).await?;
        let Found { server, resource } = &found;
        let wanted = scope::first(self.options.scope.as_deref(), challenge.scope.as_deref(), resource.as_ref(), server);
        let wanted = match asked {
            Some(asked) => Some(scope::union(asked, wanted.as_deref().unwrap_or_default())),
            None => wanted,
        };
        let login = self.new_login(&found, wanted.filter(|scope| !scope.is_empty())).await?;
        self.keep(login, Origin::LoggedIn).await
    }

    async fn new_login(&self, found: &Found, scope: Option<String>) -> Result<Login, String> {
        let audience = self.audience(found.resource.as_ref());
        match self.options.grant {
            Grant::ClientCredentials => self.own_login(found, audience, scope).await,
            Grant::Device => self.device_login(found, audience, scope).await,
            Grant::Auto | Grant::Browser | Grant::Off => self.browser_login(found, audience, scope).await,
        }
    }

    /// What the token is for (RFC 8707).
    fn audience(&self, resource: Option<&Resource>) -> String {
        resource.map_or_else(|| self.name.clone(), |resource| resource.resource.clone())
    }

    fn asker<'a>(
        &'a self,
        server: &'a metadata::Server,
        client: &'a registration::Client,
        resource: &'a str,
    ) -> Asker<'a> {
        Asker { web: &self.web, server, client, signer: self.signer.as_ref(), resource }
    }

    /// Runs something that may take long, and tells the component meanwhile.
    async fn wait_for<T>(&self, why: &str, task: impl Future<Output = T>) -> T {
        match self.wait.get() {
            Some(wait) => wait.during(why, task).await,
            None => task.await,
        }
    }
}
