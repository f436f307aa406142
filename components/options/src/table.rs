//! The table of options: name, other spellings, value, help line, and who may use it. It
//! drives parsing, `--help`, and the suggestion for an unknown option.

use crate::{Quirk, Shell};

/// The kind of an option: whether it has a value, and who may use it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Print(fn(Shell) -> String),
    Debug,
    LogBodies,
    Shared(Shared),
    Native(Native),
    /// Passed by the native host to the component only.
    Inner,
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

/// Options with a value that only the native host supports.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Native {
    AllowHost,
    HeaderFile,
    CaCert,
    ClientCert,
    ClientKey,
    Component,
    Record,
}

pub(crate) struct Spec {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    aliases: &'static [&'static str],
    /// The value's name in the help; empty if the kind has none.
    pub(crate) value: &'static str,
    help: &'static str,
}

impl Spec {
    fn spelled(&self, text: &str) -> bool {
        self.name == text || self.aliases.contains(&text)
    }

    fn offered_in(&self, shell: Shell) -> bool {
        match self.kind {
            Kind::Print(_) | Kind::Debug | Kind::LogBodies | Kind::Shared(_) => true,
            Kind::Native(_) => shell == Shell::Native,
            Kind::Inner => false,
        }
    }

    fn usage(&self) -> String {
        let mut text = String::from("  ");
        for alias in self.aliases {
            text.extend([alias, ", "]);
        }
        text.extend([self.name, " ", self.value]);
        text
    }
}

const fn option(
    kind: Kind,
    name: &'static str,
    aliases: &'static [&'static str],
    value: &'static str,
    help: &'static str,
) -> Spec {
    Spec { kind, name, aliases, value, help }
}

#[rustfmt::skip]
const TABLE: &[Spec] = &[
    option(Kind::Shared(Shared::Header), "--header", &["-H"], "NAME:VALUE", "send this header; also NAME=VALUE; repeatable"),
    option(Kind::Shared(Shared::BearerTokenEnv), "--bearer-token-env", &[], "VAR", "send `Authorization: Bearer` with the token in VAR"),
    option(Kind::Shared(Shared::Transport), "--transport", &[], "KIND", "auto (default), streamable-http or sse"),
    option(Kind::Shared(Shared::Era), "--era", &[], "ERA", "auto (default), legacy (sessions) or modern (2026-07-28)"),
    option(Kind::Shared(Shared::ConnectTimeout), "--connect-timeout", &[], "TIME", "give up connecting after TIME (default 30s)"),
    option(Kind::Shared(Shared::FirstByteTimeout), "--first-byte-timeout", &[], "TIME", "give up a response that has not begun after TIME (default 0 = never)"),
    option(Kind::Shared(Shared::EndpointTimeout), "--endpoint-timeout", &[], "TIME", "give up an HTTP+SSE server that names no endpoint within TIME (default 10s)"),
    option(Kind::Shared(Shared::RequestTimeout), "--request-timeout", &[], "TIME", "give up a silent request after TIME (default 300s, 0 = never)"),
    option(Kind::Shared(Shared::TotalTimeout), "--total-timeout", &[], "TIME", "give up any request after TIME, silent or not (default 0 = never)"),
    option(Kind::Shared(Shared::Retries), "--retries", &[], "N", "try a failed connection N more times (default 3)"),
    option(Kind::Shared(Shared::MaxMessageBytes), "--max-message-bytes", &[], "SIZE", "largest message, each way (default 64MiB)"),
    option(Kind::Shared(Shared::DrainTimeout), "--drain-timeout", &[], "TIME", "wait for open requests after stdin ends (default 5s)"),
    option(Kind::Shared(Shared::KeepAlive), "--keep-alive", &[], "WHEN", "ping an idle server: auto (default: once idle streams were cut), off, or after TIME"),
    option(Kind::Shared(Shared::Quirk), "--quirk", &[], "NAME=on|off", "switch a tolerance for a known fault of peers (all on); repeatable"),
    option(Kind::Native(Native::AllowHost), "--allow-host", &[], "HOST[:PORT]", "also allow requests to HOST, without credentials; repeatable"),
    option(Kind::Native(Native::HeaderFile), "--header-file", &[], "FILE", "headers, one `Name: value` a line, # comments; repeatable"),
    option(Kind::Native(Native::CaCert), "--ca-cert", &[], "FILE", "also trust the PEM certificates in FILE: a CA's, or the server's own; repeatable"),
    option(Kind::Native(Native::ClientCert), "--client-cert", &[], "FILE", "PEM client certificate chain; only the URL's own origin gets it"),
    option(Kind::Native(Native::ClientKey), "--client-key", &[], "FILE", "PEM private key of the client certificate"),
    option(Kind::Native(Native::Component), "--component", &[], "FILE", "run another build of the component (.wasm or .cwasm)"),
    option(Kind::Native(Native::Record), "--record", &[], "FILE", "write the run to FILE for a bug report, without credentials; if FILE exists, add a number to its name"),
    option(Kind::Inner, RECORD, &[], "", ""),
    option(Kind::Debug, "--debug", &["-v", "--verbose"], "", "log to stderr: one line for each HTTP exchange (also DEBUG=1)"),
    option(Kind::LogBodies, "--log-bodies", &[], "", "log the messages to stderr, both ways, without your credentials"),
    option(Kind::Print(version), "--version", &["-V"], "", "print the version"),
    option(Kind::Print(help), "--help", &["-h"], "", "print this help"),
];

pub(crate) fn find(text: &str) -> Option<&'static Spec> {
    TABLE.iter().find(|spec| spec.spelled(text))
}

/// The option that the user probably meant by `text`.
pub(crate) fn nearest(shell: Shell, text: &str) -> Option<&'static str> {
    let specs = TABLE.iter().filter(|spec| spec.offered_in(shell));
    let names = specs.flat_map(|spec| spec.aliases.iter().copied().chain([spec.name]));
    names
        .filter(|name| name.starts_with("--"))
        .map(|name| (closeness(name, text), name))
        .filter(|(distance, _)| *distance <= 3)
        .min()
        .map(|(_, name)| name)
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

fn version(_shell: Shell) -> String {
    format!("mcp-proxy {}\n", env!("CARGO_PKG_VERSION"))
}

fn help(shell: Shell) -> String {
    let (command, replay) = match shell {
        Shell::Component => {
            ("wasmtime run -S http mcp-proxy.wasm", "wasmtime run -S http mcp-proxy.wasm replay < FILE")
        }
        Shell::Native => ("mcp-proxy", "mcp-proxy replay FILE"),
    };
    let mut text = format!(
        "Connects an MCP client on stdin and stdout to the MCP server at URL.\n\n\
         Usage: {command} [OPTIONS] URL\n       \
         {replay}    (plays a recording of --record again)\n\nOptions:\n"
    );
    for spec in TABLE.iter().filter(|spec| spec.offered_in(shell)) {
        text.push_str(&format!("{:<34}{}\n", spec.usage(), spec.help));
    }
    text.push_str("\nQuirks:\n");
    for (_, name, reason) in Quirk::TABLE {
        text.push_str(&format!("  {name:<18}{reason}\n"));
    }
    text.push_str(NOTES);
    text.push_str(match shell {
        Shell::Component => COMPONENT_NOTES,
        Shell::Native => NATIVE_NOTES,
    });
    text
}

const NOTES: &str = "
TIME is 30, 30s, 500ms, 2m or 1h; SIZE is 1048576, 512k, 16MiB or 10MB.

Environment:
  MCP_PROXY_HEADERS               more headers, one NAME:VALUE a line
  DEBUG=1                         the same as --debug
A header from --header or --bearer-token-env wins over one of the same name from elsewhere.
";

const COMPONENT_NOTES: &str =
    "wasmtime passes a variable to the component only with --env: `wasmtime run --env MCP_PROXY_HEADERS …`.
";

const NATIVE_NOTES: &str =
    "  HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY   the proxy to use (a wrong value is an error)
${NAME} in a header's value becomes the variable NAME (write $${ for a plain ${).
";
