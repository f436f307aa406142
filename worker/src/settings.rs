//! The operator's settings: reads and checks variables and secrets, and reads them again
//! when they change. With a configuration that cannot work, the Worker serves nobody and
//! lists the problems. Everybody can read that list, so it names a setting and what it
//! allows, never its value: somebody may have put a secret in the wrong place.

use crate::platform;
use http::{HeaderValue, header::AUTHORIZATION};
use mcp_proxy_core::{Config, Era, KeepAlive, Transport};
use mcp_proxy_edge::{Access, Edge, OriginPolicy, resource};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use worker::{Env, Url};

/// How long an idle server may be silent before the proxy pings it. The path to the server
/// drops a stream that is silent for two minutes.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The setting with the `Authorization` header for the server of `UPSTREAM_URL`.
const SECRET: &str = "UPSTREAM_AUTHORIZATION";

/// A configuration that works.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The servers, and who may come in.
    pub(crate) edge: Edge<Config>,
    pub(crate) limits: Limits,
    /// Whether a session outlives the object that serves it.
    pub(crate) recovers: bool,
    /// Whether the Worker logs everything, not only problems.
    pub(crate) verbose: bool,
}

#[derive(Debug)]
pub(crate) struct Limits {
    /// How many sessions a client may have open. With 0, the Worker does not count them.
    pub(crate) sessions: usize,
    pub(crate) open: usize,
    pub(crate) queue: usize,
    pub(crate) replay_events: usize,
    pub(crate) replay_bytes: usize,
    /// How long a response waits for its answer before it becomes a stream.
    pub(crate) hold: Duration,
    pub(crate) heartbeat: Duration,
    /// How long a client may leave a response unread.
    pub(crate) patience: Duration,
    /// How often a session checks whether it is idle.
    pub(crate) alarm: Duration,
    pub(crate) idle: Duration,
    pub(crate) lifetime: Duration,
}

/// The settings, or their problems in one sentence each.
pub(crate) type Read = Result<Settings, Vec<String>>;

thread_local! {
    /// The settings that the Worker read last, and their number.
    static LAST: RefCell<Option<(u32, Rc<Read>)>> = const { RefCell::new(None) };
}

/// Returns the current settings: secrets and variables may change while an isolate lives.
pub(crate) fn current(env: &Env) -> Rc<Read> {
    let number = platform::environment(env.as_ref());
    LAST.with_borrow_mut(|last| {
        if let Some((of, read)) = last
            && *of == number
        {
            return read.clone();
        }
        let read = Rc::new(Settings::read(&platform::variables(env.as_ref())));
        *last = Some((number, read.clone()));
        read
    })
}

/// The settings that all servers share.
struct All {
    transport: Transport,
    era: Era,
    /// Whether servers may do without TLS.
    plain: bool,
    patience: Option<Duration>,
    event: usize,
}

/// Reads variables and collects their problems.
struct Reader {
    variables: Map<String, Value>,
    problems: Vec<String>,
}

impl Settings {
    fn read(variables: &str) -> Read {
        let variables = serde_json::from_str(variables).unwrap_or_default();
        let mut reader = Reader { variables, problems: Vec::new() };
        let access = reader.access();
        let issuers = reader.issuers(access.as_ref());
        let event = reader.size("MAX_EVENT_BYTES", 8 << 20, 1);
        let settings = Self {
            edge: Edge {
                upstreams: reader.upstreams(event),
                issuers,
                access: access.unwrap_or(Access::Public),
                origins: OriginPolicy::new(reader.origins(), reader.hosts()),
                // No message is longer than the longest of the server.
                max_body: reader.size("MAX_BODY_BYTES", 4 << 20, 1).min(event),
            },
            limits: Limits {
                sessions: reader.size("MAX_SESSIONS", 256, 0),
                open: reader.size("MAX_PENDING", 256, 1),
                queue: reader.size("MAX_QUEUE_BYTES", 1 << 20, 0),
                replay_events: reader.size("REPLAY_EVENTS", 512, 0),
                replay_bytes: reader.size("REPLAY_BYTES", 1 << 20, 0),
                hold: Duration::from_millis(reader.number("STREAM_AFTER_MS", 250, 0)),
                heartbeat: reader.seconds("HEARTBEAT_SECONDS", 15, 1),
                patience: reader.seconds("STALL_SECONDS", 30, 1),
                alarm: reader.alarm(),
                idle: reader.seconds("IDLE_SECONDS", 300, 0),
                lifetime: reader.seconds("SESSION_TTL_SECONDS", 24 * 60 * 60, 0),
            },
            recovers: reader.switch("SESSION_RECOVERY", true),
            verbose: reader.switch("VERBOSE", false),
        };
        if reader.problems.is_empty() { Ok(settings) } else { Err(reader.problems) }
    }
}

impl Reader {
    fn text(&self, name: &str) -> Option<String> {
        let text = self.variables.get(name)?.as_str()?.trim();
        Some(text.to_owned()).filter(|text| !text.is_empty())
    }

    /// Returns the valid items of a list.
    fn list(&mut self, name: &str, such_as: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        let items = text.split(',').map(|item| item.trim().trim_end_matches('/').to_owned());
        let (good, bad): (Vec<_>, Vec<_>) = items.filter(|item| !item.is_empty()).partition(|item| fits(item));
        if !bad.is_empty() {
            self.problems.push(format!("{name} must be a list, with commas, of what looks like {such_as}."));
        }
        good
    }

    fn origins(&mut self) -> Vec<String> {
        let fits = |item: &str| item.split_once("://").is_some_and(|(scheme, host)| is_scheme(scheme) && is_host(host));
        self.list("ALLOWED_ORIGINS", "https://app.example", fits)
    }

    fn hosts(&mut self) -> Vec<String> {
        self.list("ALLOWED_HOSTS", "mcp.example", is_host)
    }

    fn number(&mut self, name: &str, default: u64, least: u64) -> u64 {
        let Some(text) = self.text(name) else { return default };
        match text.parse() {
            Ok(number) if number >= least => return number,
            Ok(_) => self.problems.push(format!("{name} must be at least {least}.")),
            Err(_) => self.problems.push(format!("{name} must be a whole number.")),
        }
        default
    }

    fn size(&mut self, name: &str, default: u64, least: u64) -> usize {
        usize::try_from(self.number(name, default, least)).unwrap_or(usize::MAX)
    }

    fn seconds(&mut self, name: &str, default: u64, least: u64) -> Duration {
        Duration::from_secs(self.number(name, default, least))
    }

    /// The platform removes an object without requests from memory after a little more
    /// than two minutes, unless an alarm is due.
    fn alarm(&mut self) -> Duration {
        let seconds = self.number("ALARM_SECONDS", 30, 0);
        if !(1..=60).contains(&seconds) {
            self.problems.push("ALARM_SECONDS must be 1 to 60.".to_owned());
        }
        Duration::from_secs(seconds)
    }

    fn switch(&mut self, name: &str, default: bool) -> bool {
        match self.text(name).as_deref() {
            None => default,
            Some("1" | "on" | "true") => true,
            Some("0" | "off" | "false") => false,
            Some(_) => {
                self.problems.push(format!("{name} must be 1 or 0, on or off."));
                default
            }
        }
    }

    fn access(&mut self) -> Option<Access> {
        let token = self.text("FRONT_TOKEN");
        let anonymous = self.switch("PUBLIC", false);
        let forwarded = self.switch("FORWARD_AUTHORIZATION", false);
        let problem = match (token, anonymous, forwarded) {
            (Some(token), false, false) => return Some(Access::Token(token)),
            (None, anonymous, true) => return Some(Access::Forwarded { anonymous }),
            (None, true, false) => return Some(Access::Public),
            (None, false, false) => {
                "Nobody may come in: set the secret FRONT_TOKEN, or PUBLIC=1 if everybody may use this server."
            }
            (Some(_), _, true) => {
                "FORWARD_AUTHORIZATION and FRONT_TOKEN exclude each other: one header cannot be meant for two."
            }
            (Some(_), true, false) => "FRONT_TOKEN and PUBLIC=1 exclude each other.",
        };
        self.problems.push(problem.to_owned());
        None
    }

    /// The authorization servers whose tokens open the Worker.
    fn issuers(&mut self, access: Option<&Access>) -> Vec<String> {
        let text = self.text("AUTHORIZATION_SERVERS").unwrap_or_default();
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned);
        let (good, bad): (Vec<_>, Vec<_>) = items.partition(|item| resource::is_issuer(item));
        if !bad.is_empty() {
            let such_as = "https://login.example";
            self.problems
                .push(format!("AUTHORIZATION_SERVERS must be a list, with commas, of what looks like {such_as}."));
        }
        if access == Some(&Access::Public) && !good.is_empty() {
            self.problems.push(
                "AUTHORIZATION_SERVERS needs FRONT_TOKEN or FORWARD_AUTHORIZATION: with PUBLIC=1 alone nobody needs \
                 a token."
                    .to_owned(),
            );
        }
        good
    }

    fn upstreams(&mut self, event: usize) -> BTreeMap<String, Config> {
        let named = match (self.text("UPSTREAM_URL"), self.named()) {
            (Some(url), None) => BTreeMap::from([(String::new(), url)]),
            (None, Some(named)) => named,
            (None, None) => {
                self.problems.push("No server is set: UPSTREAM_URL for /mcp, or UPSTREAMS for /<name>/mcp.".to_owned());
                BTreeMap::new()
            }
            (Some(_), Some(_)) => {
                self.problems.push("UPSTREAM_URL and UPSTREAMS exclude each other.".to_owned());
                BTreeMap::new()
            }
        };
        if named.len() > 1 && self.switch("FORWARD_AUTHORIZATION", false) {
            self.problems.push(
                "FORWARD_AUTHORIZATION is for one server: with several in UPSTREAMS, a client's token could reach a \
                 server that it is not meant for."
                    .to_owned(),
            );
        }
        if named.keys().any(|name| !name.is_empty()) && self.text(SECRET).is_some() {
            self.problems
                .push(format!("{SECRET} is for UPSTREAM_URL; each of UPSTREAMS has its own, {SECRET}_<NAME>."));
        }
        let all = All {
            transport: self.transport(),
            era: self.era(),
            plain: self.switch("ALLOW_HTTP", false),
            patience: Some(self.seconds("REQUEST_TIMEOUT_SECONDS", 300, 0)).filter(|limit| !limit.is_zero()),
            event,
        };
        named.into_iter().filter_map(|(name, url)| Some((name.clone(), self.upstream(&name, &url, &all)?))).collect()
    }

    fn transport(&mut self) -> Transport {
        match self.text("UPSTREAM_TRANSPORT").as_deref() {
            None | Some("auto") => Transport::Auto,
            Some("sse") => Transport::Sse,
            Some("streamable-http") => Transport::StreamableHttp,
            Some(_) => {
                self.problems.push("UPSTREAM_TRANSPORT must be auto, sse or streamable-http.".to_owned());
                Transport::Auto
            }
        }
    }

    fn era(&mut self) -> Era {
        match self.text("UPSTREAM_ERA").as_deref() {
            None | Some("auto") => Era::Auto,
            Some("legacy") => Era::Legacy,
            Some("modern") => Era::Modern,
            Some(_) => {
                self.problems.push("UPSTREAM_ERA must be auto, legacy or modern.".to_owned());
                Era::Auto
            }
        }
    }

    /// The map of names to URLs: as JSON text, or as a table of wrangler.toml.
    fn named(&mut self) -> Option<BTreeMap<String, String>> {
        let given = self.variables.get("UPSTREAMS")?;
        let map: Option<BTreeMap<String, String>> = match given.as_str().map(str::trim) {
            Some("") => return None,
            Some(text) => serde_json::from_str(text).ok(),
            None => serde_json::from_value(given.clone()).ok(),
        };
        let Some(map) = map.filter(|map| !map.is_empty()) else {
            self.problems.push("UPSTREAMS must be a JSON object of names and URLs.".to_owned());
            return Some(BTreeMap::new());
        };
        let (plain, other): (BTreeMap<_, _>, BTreeMap<_, _>) = map.into_iter().partition(|(name, _)| is_name(name));
        if !other.is_empty() {
            self.problems.push("A name in UPSTREAMS must be of letters, digits, - and _ only.".to_owned());
        }
        self.tell_apart(plain.keys());
        Some(plain)
    }

    /// No two servers may share a secret.
    fn tell_apart<'n>(&mut self, names: impl Iterator<Item = &'n String>) {
        let mut secrets = BTreeMap::new();
        for name in names {
            let secret = secret_of(name);
            if let Some(other) = secrets.insert(secret.clone(), name) {
                self.problems.push(format!("{other:?} and {name:?} in UPSTREAMS would share the secret {secret}."));
            }
        }
    }

    fn upstream(&mut self, name: &str, url: &str, all: &All) -> Option<Config> {
        let what = if name.is_empty() { "UPSTREAM_URL".to_owned() } else { format!("UPSTREAMS {name:?}") };
        let (Ok(mut config), Ok(url)) = (Config::new(url), Url::parse(url)) else {
            self.problems.push(format!("{what} is not an https URL."));
            return None;
        };
        let secret = secret_of(name);
        if url.scheme() == "http" && !all.plain {
            self.problems.push(format!("{what} must be an https URL; ALLOW_HTTP=1 allows http."));
        }
        if !url.username().is_empty() || url.password().is_some() {
            self.problems.push(format!("{what} contains credentials: they go into the secret {secret}."));
        }
        if let Some(given) = self.text(&secret) {
            self.credentials(&mut config, &secret, &given);
        }
        config.transport = all.transport;
        config.era = all.era;
        config.request_timeout = all.patience;
        config.max_message = all.event;
        config.keep_alive = KeepAlive::Every(KEEP_ALIVE);
        config.redirects = false;
        Some(config)
    }

    fn credentials(&mut self, config: &mut Config, secret: &str, given: &str) {
        if self.switch("FORWARD_AUTHORIZATION", false) {
            return self.problems.push(format!("FORWARD_AUTHORIZATION and {secret} exclude each other."));
        }
        match HeaderValue::from_str(given) {
            Ok(mut value) => {
                value.set_sensitive(true);
                config.headers.insert(AUTHORIZATION, value);
            }
            Err(_) => self.problems.push(format!("{secret} cannot stand in a header.")),
        }
    }
}

/// The setting with the credentials for the server of this name.
fn secret_of(name: &str) -> String {
    match name {
        "" => SECRET.to_owned(),
        _ => format!("{SECRET}_{}", name.to_ascii_uppercase().replace('-', "_")),
    }
}

/// The name of a server is part of its endpoint's path, so it is public.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// A name or an address, perhaps with a port.
fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
}
