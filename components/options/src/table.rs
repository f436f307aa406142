//! The table of options: name, other spellings, value, help line, and who may use it. It
//! drives parsing, `--help`, and the suggestion for an unknown option. The native program
//! also builds its completions and its manual page from it.

use crate::{Shell, auth::Auth};

/// What an option does, and thereby who may use it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Show(Show),
    Debug,
    LogBodies,
    Shared(Shared),
    Native(Native),
    /// Belongs to some commands of the native program.
    Own(Own),
    /// Passed by the native host to the component only.
    Inner,
}

/// Options that print a text instead of running.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Show {
    Version,
    Help,
}

/// Makes the component write the recording to stderr.
pub const RECORD: &str = "--record-to-stderr";

/// Options with a value in both shells.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shared {
    Header,
    BearerTokenEnv,
    Transport,
    Era,
    ConnectTimeout,
    FirstByteTimeout,
    EndpointTimeout,
    RequestTimeout,
    TotalTimeout,
    Retries,
    MaxMessageBytes,
    DrainTimeout,
    KeepAlive,
    Quirk,
}

/// Options that only the native host supports.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Native {
    AllowHost,
    HeaderFile,
    CaCert,
    ClientCert,
    ClientKey,
    Component,
    Record,
    Auth(Auth),
}

/// Options of single commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    Json,
    Deep,
    Name,
    Write,
    Yes,
    Force,
}

/// The headings of the native program's help, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What belongs to one command, and to all of them.
    General,
    Server,
    Headers,
    Authorization,
    Limits,
    Network,
    Diagnosis,
}

impl Group {
    pub fn heading(self) -> &'static str {
        match self {
            Self::General => "Options",
            Self::Server => "Server",
            Self::Headers => "Headers",
            Self::Authorization => "Authorization",
            Self::Limits => "Limits",
            Self::Network => "TLS and network",
            Self::Diagnosis => "Diagnosis",
        }
    }
}

/// An option.
#[derive(Debug)]
pub struct Spec {
    pub(crate) kind: Kind,
    pub group: Group,
    /// The long spelling, with its dashes.
    pub name: &'static str,
    /// Other spellings, long and short, with their dashes.
    pub aliases: &'static [&'static str],
    /// The value's name in the help; empty if the option has none.
    pub value: &'static str,
    /// The only values, if they are a few words.
    pub choices: &'static [&'static str],
    pub help: &'static str,
}

impl Spec {
    pub fn takes_file(&self) -> bool {
        self.value == "FILE"
    }

    pub(crate) fn takes_value(&self) -> bool {
        !self.value.is_empty()
    }

    pub(crate) fn offered_in(&self, shell: Shell) -> bool {
        match self.kind {
            Kind::Show(_) | Kind::Debug | Kind::LogBodies | Kind::Shared(_) => true,
            Kind::Native(_) | Kind::Own(_) => shell == Shell::Native,
            Kind::Inner => false,
        }
    }

    const fn choices(mut self, choices: &'static [&'static str]) -> Self {
        self.choices = choices;
        self
    }

    const fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    fn spelled(&self, text: &str) -> bool {
        self.name == text || self.aliases.contains(&text)
    }
}

const fn row(kind: Kind, group: Group, name: &'static str, value: &'static str, help: &'static str) -> Spec {
    Spec { kind, group, name, aliases: &[], value, choices: &[], help }
}

const fn shared(key: Shared, group: Group, name: &'static str, value: &'static str, help: &'static str) -> Spec {
    row(Kind::Shared(key), group, name, value, help)
}

const fn native(key: Native, group: Group, name: &'static str, value: &'static str, help: &'static str) -> Spec {
    row(Kind::Native(key), group, name, value, help)
}

const fn auth(key: Auth, name: &'static str, value: &'static str, help: &'static str) -> Spec {
    native(Native::Auth(key), Group::Authorization, name, value, help)
}

const fn own(key: Own, name: &'static str, value: &'static str, help: &'static str) -> Spec {
    row(Kind::Own(key), Group::General, name, value, help)
}

#[rustfmt::skip]
pub(crate) const TABLE: &[Spec] = &[
    shared(Shared::Transport, Group::Server, "--transport", "KIND", "auto (default), streamable-http or sse").choices(&["auto", "streamable-http", "sse"]),
    shared(Shared::Era, Group::Server, "--era", "ERA", "auto (default), legacy (sessions) or modern (2026-07-28)").choices(&["auto", "legacy", "modern"]),
    shared(Shared::KeepAlive, Group::Server, "--keep-alive", "WHEN", "ping an idle server: auto (default: once idle streams were cut), off, or after TIME"),
    shared(Shared::Quirk, Group::Server, "--quirk", "NAME=on|off", "switch a tolerance for a known fault of peers (all on); repeatable"),
    shared(Shared::Header, Group::Headers, "--header", "NAME:VALUE", "send this header; also NAME=VALUE; repeatable").also(&["-H"]),
    shared(Shared::BearerTokenEnv, Group::Headers, "--bearer-token-env", "VAR", "send `Authorization: Bearer` with the token in VAR"),
    native(Native::HeaderFile, Group::Headers, "--header-file", "FILE", "headers, one `Name: value` a line, # comments; repeatable"),
    auth(Auth::Grant, "--oauth-grant", "GRANT", "how to log in: auto (default: in a browser, when the server asks for it), browser, device, client-credentials, or off").choices(&["auto", "browser", "device", "client-credentials", "off"]),
    auth(Auth::NoBrowser, "--no-browser", "", "print the URL for the login on stderr instead of opening a browser"),
    auth(Auth::BrowserCommand, "--browser-command", "CMD", "run CMD with the URL as its last argument instead of the system's browser"),
    auth(Auth::ClientId, "--oauth-client-id", "ID", "a client id that the authorization server already knows"),
    auth(Auth::ClientSecretEnv, "--oauth-client-secret-env", "VAR", "the secret of the client id is in VAR"),
    auth(Auth::ClientMetadata, "--oauth-client-metadata", "URL", "the https URL of your client-id metadata document"),
    auth(Auth::Key, "--oauth-key", "FILE", "PEM private key (PKCS#8) that proves the client id, for client-credentials"),
    auth(Auth::Scope, "--oauth-scope", "SCOPES", "ask for these scopes, separated by blanks, instead of those that the server names"),
    auth(Auth::CallbackPort, "--oauth-callback-port", "PORT", "wait for the browser on this port of the loopback address (default: any free one)"),
    auth(Auth::Store, "--token-store", "STORE", "where to keep tokens: auto (default: the system's keychain if there is one), keychain or file").choices(&["auto", "keychain", "file"]),
    shared(Shared::ConnectTimeout, Group::Limits, "--connect-timeout", "TIME", "give up connecting after TIME (default 30s)"),
    shared(Shared::FirstByteTimeout, Group::Limits, "--first-byte-timeout", "TIME", "give up a response that has not begun after TIME (default 0 = never)"),
    shared(Shared::EndpointTimeout, Group::Limits, "--endpoint-timeout", "TIME", "give up an HTTP+SSE server that names no endpoint within TIME (default 10s)"),
    shared(Shared::RequestTimeout, Group::Limits, "--request-timeout", "TIME", "give up a silent request after TIME (default 300s, 0 = never)"),
    shared(Shared::TotalTimeout, Group::Limits, "--total-timeout", "TIME", "give up any request after TIME, silent or not (default 0 = never)"),
    shared(Shared::Retries, Group::Limits, "--retries", "N", "try a failed connection N more times (default 3)"),
    shared(Shared::MaxMessageBytes, Group::Limits, "--max-message-bytes", "SIZE", "largest message, each way (default 64MiB)"),
    shared(Shared::DrainTimeout, Group::Limits, "--drain-timeout", "TIME", "wait for open requests after stdin ends (default 5s)"),
    native(Native::AllowHost, Group::Network, "--allow-host", "HOST[:PORT]", "also allow requests to HOST, without credentials; repeatable"),
    native(Native::CaCert, Group::Network, "--ca-cert", "FILE", "also trust the PEM certificates in FILE: a CA's, or the server's own; repeatable"),
    native(Native::ClientCert, Group::Network, "--client-cert", "FILE", "PEM client certificate chain; only the URL's own origin gets it"),
    native(Native::ClientKey, Group::Network, "--client-key", "FILE", "PEM private key of the client certificate"),
    row(Kind::Debug, Group::Diagnosis, "--debug", "", "log to stderr: one line for each HTTP exchange (also DEBUG=1)").also(&["-v", "--verbose"]),
    row(Kind::LogBodies, Group::Diagnosis, "--log-bodies", "", "log the messages to stderr, both ways, without your credentials"),
    native(Native::Record, Group::Diagnosis, "--record", "FILE", "write the run to FILE for a bug report, without credentials; if FILE exists, add a number to its name"),
    native(Native::Component, Group::Diagnosis, "--component", "FILE", "run another build of the component (.wasm or .cwasm)"),
    own(Own::Deep, "--deep", "", "also measure what takes minutes, such as when idle streams are cut"),
    own(Own::Json, "--json", "", "print JSON, for programs"),
    own(Own::Name, "--name", "NAME", "what the client calls the server (default: from the URL)"),
    own(Own::Write, "--write", "", "add the entry to the client's file, after showing the change; keep a backup"),
    own(Own::Yes, "--yes", "", "write without asking").also(&["-y"]),
    own(Own::Force, "--force", "", "replace an entry of this name that is different"),
    row(Kind::Inner, Group::General, RECORD, "", ""),
    row(Kind::Show(Show::Version), Group::General, "--version", "", "print the version").also(&["-V"]),
    row(Kind::Show(Show::Help), Group::General, "--help", "", "print this help").also(&["-h"]),
];

pub(crate) fn find(text: &str) -> Option<&'static Spec> {
    TABLE.iter().find(|spec| spec.spelled(text))
}

/// The closest of `names` to `text`, if it is close enough for a suggestion.
pub(crate) fn nearest(names: impl Iterator<Item = &'static str>, text: &str, most: usize) -> Option<&'static str> {
    let close = names.map(|name| (closeness(name, text), name)).filter(|(distance, _)| *distance <= most);
    close.min().map(|(_, name)| name)
}

/// Edit distance, except that a prefix (`--head`) counts as very close.
fn closeness(name: &str, text: &str) -> usize {
    if text.len() > 3 && name.starts_with(text) {
        return 1;
    }
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (i, a) in text.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (b, cell) in name.bytes().zip(row.iter_mut().skip(1)) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *cell;
            left = replaced.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}
