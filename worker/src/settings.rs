//! What the operator has set: variables and secrets, read once and checked. A
//! configuration that cannot work is a list of problems, and nothing is served.

use http::{HeaderValue, header::AUTHORIZATION};
use mcp_proxy_core::{Config, Door, KeepAlive, Transport};
use std::collections::BTreeMap;
use std::time::Duration;
use worker::{Env, Url};

/// How often an idle server is asked for a sign of life. The path to it gives a
/// silent stream up after two minutes.
const PULSE: Duration = Duration::from_secs(30);

/// A configuration that works.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The servers by name; the one of `/mcp` has none.
    pub(crate) upstreams: BTreeMap<String, Config>,
    pub(crate) access: Access,
    pub(crate) door: Door,
    pub(crate) limits: Limits,
    /// Whether a session outlives the object that serves it.
    pub(crate) recovers: bool,
    /// Everything that happens is logged, not only what is out of order.
    pub(crate) verbose: bool,
}

/// Who may come in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody.
    Public,
    /// Whoever has this token.
    Token(String),
    /// Whoever the server lets in: it gets the client's own credentials.
    Forwarded {
        /// Whether clients without credentials may try.
        anonymous: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) body: usize,
    pub(crate) open: usize,
    pub(crate) queue: usize,
    pub(crate) replay_events: usize,
    pub(crate) replay_bytes: usize,
    pub(crate) heartbeat: Duration,
    /// How long a client may let a response lie unread.
    pub(crate) patience: Duration,
    /// How often a session looks around: whether it is idle, and whether its server lives.
    pub(crate) alarm: Duration,
    pub(crate) idle: Duration,
    pub(crate) lifetime: Duration,
}

/// Reads variables, and notes what is wrong with them.
struct Reader<'a> {
    env: &'a Env,
    problems: Vec<String>,
}

impl Settings {
    /// # Errors
    /// What is wrong, one sentence each.
    pub(crate) fn read(env: &Env) -> Result<Self, Vec<String>> {
        let mut reader = Reader { env, problems: Vec::new() };
        let access = reader.access();
        let settings = Self {
            upstreams: reader.upstreams(),
            access: access.unwrap_or(Access::Public),
            door: Door::new(reader.list("ALLOWED_ORIGINS"), reader.list("ALLOWED_HOSTS")),
            limits: Limits {
                body: reader.size("MAX_BODY_BYTES", 4 << 20),
                open: reader.size("MAX_PENDING", 256),
                queue: reader.size("MAX_QUEUE_BYTES", 1 << 20),
                replay_events: reader.size("REPLAY_EVENTS", 512),
                replay_bytes: reader.size("REPLAY_BYTES", 1 << 20),
                heartbeat: reader.seconds("HEARTBEAT_SECONDS", 15),
                patience: reader.seconds("STALL_SECONDS", 30),
                alarm: reader.alarm(),
                idle: reader.seconds("IDLE_SECONDS", 300),
                lifetime: reader.seconds("SESSION_TTL_SECONDS", 24 * 60 * 60),
            },
            recovers: reader.switch("SESSION_RECOVERY", true),
            verbose: reader.switch("VERBOSE", false),
        };
        if reader.problems.is_empty() { Ok(settings) } else { Err(reader.problems) }
    }
}

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let text = self.env.var(name).ok()?.to_string();
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn list(&self, name: &str) -> Vec<String> {
        let items = self.text(name).unwrap_or_default();
        items
            .split(',')
            .map(|item| item.trim().trim_end_matches('/').to_owned())
            .filter(|item| !item.is_empty())
            .collect()
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        let text = self.text(name)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.problems.push(format!("{name} must be a whole number, not {text:?}."));
        }
        number
    }

    fn size(&mut self, name: &str, default: usize) -> usize {
        self.number(name).map_or(default, |size| usize::try_from(size).unwrap_or(usize::MAX))
    }

    fn seconds(&mut self, name: &str, default: u64) -> Duration {
        Duration::from_secs(self.number(name).unwrap_or(default))
    }

    /// An object without incoming requests is thrown out after a little more than
    /// two minutes, unless an alarm is due.
    fn alarm(&mut self) -> Duration {
        let seconds = self.number("ALARM_SECONDS").unwrap_or(30);
        if !(1..=60).contains(&seconds) {
            self.problems.push(format!("ALARM_SECONDS must be 1 to 60, not {seconds}."));
        }
        Duration::from_secs(seconds)
    }

    fn switch(&mut self, name: &str, default: bool) -> bool {
        match self.text(name).as_deref() {
            None => default,
            Some("1" | "on" | "true") => true,
            Some("0" | "off" | "false") => false,
            Some(other) => {
                self.problems.push(format!("{name} must be 1 or 0, on or off, not {other:?}."));
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

    fn upstreams(&mut self) -> BTreeMap<String, Config> {
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
        named.into_iter().filter_map(|(name, url)| Some((name.clone(), self.upstream(&name, &url)?))).collect()
    }

    /// The map of names to URLs: as JSON text, or as a table of wrangler.toml.
    fn named(&mut self) -> Option<BTreeMap<String, String>> {
        let map: Option<BTreeMap<String, String>> = match self.text("UPSTREAMS") {
            Some(text) => serde_json::from_str(&text).ok(),
            None => Some(self.env.object_var("UPSTREAMS").ok()?),
        };
        let Some(map) = map.filter(|map| !map.is_empty()) else {
            self.problems.push("UPSTREAMS must be a JSON object of names and URLs.".to_owned());
            return Some(BTreeMap::new());
        };
        let plain = |name: &&String| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        for name in map.keys().filter(|name| !plain(name)) {
            self.problems.push(format!("{name:?} in UPSTREAMS is no name: letters, digits, - and _ only."));
        }
        Some(map)
    }

    fn upstream(&mut self, name: &str, url: &str) -> Option<Config> {
        let what = if name.is_empty() { "UPSTREAM_URL".to_owned() } else { format!("UPSTREAMS {name:?}") };
        let Ok(mut config) = Config::new(url) else {
            self.problems.push(format!("{what} is not an https URL."));
            return None;
        };
        let plain = Url::parse(url).is_ok_and(|url| url.scheme() == "http");
        if plain && !self.switch("ALLOW_HTTP", false) {
            self.problems.push(format!("{what} must be an https URL; ALLOW_HTTP=1 allows http."));
        }
        config.transport = match self.text("UPSTREAM_TRANSPORT").as_deref() {
            None | Some("auto") => Transport::Auto,
            Some("sse") => Transport::Sse,
            Some("streamable-http") => Transport::StreamableHttp,
            Some(other) => {
                self.problems.push(format!("UPSTREAM_TRANSPORT must be auto, sse or streamable-http, not {other:?}."));
                Transport::Auto
            }
        };
        let own = format!("UPSTREAM_AUTHORIZATION_{}", name.to_ascii_uppercase().replace('-', "_"));
        let secret = if name.is_empty() { None } else { self.text(&own) };
        if let Some(secret) = secret.or_else(|| self.text("UPSTREAM_AUTHORIZATION")) {
            self.credentials(&mut config, &secret);
        }
        config.request_timeout = Some(self.seconds("REQUEST_TIMEOUT_SECONDS", 300)).filter(|limit| !limit.is_zero());
        config.max_message = self.size("MAX_EVENT_BYTES", 8 << 20);
        config.keep_alive = KeepAlive::Every(PULSE);
        config.redirects = false;
        Some(config)
    }

    fn credentials(&mut self, config: &mut Config, secret: &str) {
        if self.switch("FORWARD_AUTHORIZATION", false) {
            let problem = "FORWARD_AUTHORIZATION and UPSTREAM_AUTHORIZATION exclude each other.";
            return self.problems.push(problem.to_owned());
        }
        match HeaderValue::from_str(secret) {
            Ok(mut value) => {
                value.set_sensitive(true);
                config.headers.insert(AUTHORIZATION, value);
            }
            Err(_) => self.problems.push("UPSTREAM_AUTHORIZATION cannot stand in a header.".to_owned()),
        }
    }
}
