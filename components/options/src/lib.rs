//! The command line of mcp-proxy, defined once for both shells: the component (`wasmtime
//! run … mcp-proxy.wasm`) and the native host (`mcp-proxy`).
//!
//! One table (`table`) drives parsing and `--help`; the native program adds commands
//! (`command`). Nothing here reads files, the process
//! environment or the clock: callers pass arguments and a lookup for variables. No error
//! text ever contains a header's value.

mod auth;
mod client;
mod command;
mod header;
mod help;
mod line;
mod parse;
mod quirk;
mod replay;
mod table;
mod url;
mod value;

use std::{fmt, path::PathBuf, time::Duration};

pub use auth::{AuthOptions, Browser, Grant, TokenStore};
pub use client::{Argument, ClientConfig, ClientName};
pub use command::{Command, CommandSpec, Doctor, Operand, SHELLS};
pub use help::notes;
pub use parse::parse;
pub use quirk::Quirk;
pub use replay::Replay;
pub use table::{Group, RECORD, Spec};

/// Who parses the command line. A component has no files and no secrets store, so some
/// options exist only in the native host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    Component,
    Native,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    /// Absolute http(s) URL, without credentials and without a fragment.
    pub url: String,
    pub transport: Transport,
    pub era: Era,
    /// Valid header names and values, in sending order.
    pub headers: Vec<(String, String)>,
    pub connect_timeout: Duration,
    /// `None`: as long as the request may take.
    pub first_byte_timeout: Option<Duration>,
    pub endpoint_timeout: Duration,
    /// `None`: wait forever.
    pub request_timeout: Option<Duration>,
    /// `None`: no limit.
    pub total_timeout: Option<Duration>,
    pub retries: u32,
    pub max_message_bytes: usize,
    pub drain_timeout: Duration,
    pub keep_alive: KeepAlive,
    /// The quirks that the user switched; the last entry for a quirk wins.
    pub quirks: Vec<(Quirk, bool)>,
    pub debug: bool,
    /// Log the messages themselves.
    pub log_bodies: bool,
    /// Write a recording to stderr, for the host. Never set in [`Shell::Native`].
    pub record: bool,
    /// Always empty in [`Shell::Component`].
    pub host: HostOptions,
}

/// The eras of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Auto,
    Legacy,
    Modern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    #[default]
    Auto,
    StreamableHttp,
    Sse,
}

/// When to ping an idle server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeepAlive {
    #[default]
    Auto,
    Off,
    Every(Duration),
}

/// Options that only a native host supports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostOptions {
    pub ca_certs: Vec<PathBuf>,
    pub client_identity: Option<ClientIdentity>,
    pub allow_hosts: Vec<AllowedHost>,
    pub header_files: Vec<PathBuf>,
    pub component: Option<PathBuf>,
    pub record: Option<PathBuf>,
    pub auth: AuthOptions,
}

/// PEM files of a client certificate; giving only one is a usage error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost {
    /// Lower case; an IPv6 address is in brackets.
    pub host: String,
    /// `None`: the default port of the request's scheme.
    pub port: Option<u16>,
}

/// One line with the cause and the remedy.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(String);

impl UsageError {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

impl Options {
    /// The arguments that the host passes to the component. Headers stay behind, since
    /// credentials never enter the sandbox.
    pub fn guest_args(&self) -> Vec<String> {
        let millis = |duration: Duration| format!("{}ms", duration.as_millis());
        let pairs = [
            ("--transport", self.transport.name().to_owned()),
            ("--era", self.era.name().to_owned()),
            ("--connect-timeout", millis(self.connect_timeout)),
            ("--first-byte-timeout", millis(self.first_byte_timeout.unwrap_or_default())),
            ("--endpoint-timeout", millis(self.endpoint_timeout)),
            ("--request-timeout", millis(self.request_timeout.unwrap_or_default())),
            ("--total-timeout", millis(self.total_timeout.unwrap_or_default())),
            ("--retries", self.retries.to_string()),
            ("--max-message-bytes", self.max_message_bytes.to_string()),
            ("--drain-timeout", millis(self.drain_timeout)),
        ];
        let mut args: Vec<String> = pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        let keep_alive = match self.keep_alive {
            KeepAlive::Auto => "auto".to_owned(),
            KeepAlive::Off => "off".to_owned(),
            KeepAlive::Every(time) => millis(time),
        };
        args.extend(["--keep-alive".to_owned(), keep_alive]);
        for (quirk, on) in &self.quirks {
            args.push(format!("--quirk={}={}", quirk.name(), if *on { "on" } else { "off" }));
        }
        args.extend(self.debug.then(|| "--debug".to_owned()));
        args.extend(self.log_bodies.then(|| "--log-bodies".to_owned()));
        args.extend(self.host.record.as_ref().map(|_| table::RECORD.to_owned()));
        args.extend(["--".to_owned(), self.url.clone()]);
        args
    }

    /// Adds the headers of a `--header-file`. Headers of the same name from the command
    /// line or from `MCP_PROXY_HEADERS` win.
    pub fn add_header_file(&mut self, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<(), UsageError> {
        let weaker = header::parse_lines(Shell::Native, text, env)?;
        header::fill(&mut self.headers, weaker);
        self.host.auth.check_headers(&self.headers)
    }

    /// Whether the user sends an Authorization header, which switches the login off.
    pub fn own_authorization(&self) -> bool {
        self.headers.iter().any(|(name, _)| header::is_authorization(name))
    }
}

/// Shows header names only, so that debug output cannot leak a credential.
impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        out.debug_struct("Options")
            .field("args", &self.guest_args())
            .field("headers", &names)
            .field("host", &self.host)
            .finish()
    }
}

impl Era {
    const ALL: [Self; 3] = [Self::Auto, Self::Legacy, Self::Modern];

    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|era| era.name() == text)
    }
}

impl Transport {
    const ALL: [Self; 3] = [Self::Auto, Self::StreamableHttp, Self::Sse];

    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::StreamableHttp => "streamable-http",
            Self::Sse => "sse",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.name() == text)
    }
}

#[cfg(test)]
mod tests;
