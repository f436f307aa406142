//! Parses arguments and variables into [`Options`]: walks the arguments once, looks each
//! up in the table, then checks combinations.

use std::{path::PathBuf, time::Duration};

use crate::{
    ClientIdentity, Command, Era, HostOptions, KeepAlive, Options, Quirk, Shell, Transport, UsageError, header, replay,
    table::{self, Kind, Native, Shared, Spec},
    url, value,
};

const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// A component has a 32-bit address space; a message of this size still fits.
const LARGEST_MESSAGE_BYTES: u64 = 1 << 30;
const SMALLEST_MESSAGE_BYTES: u64 = 1 << 10;

pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Parses `args` (without the program's own name) and the variables.
pub fn parse(shell: Shell, args: impl IntoIterator<Item = String>, env: Env<'_>) -> Result<Command, UsageError> {
    let mut args = args.into_iter().peekable();
    if args.next_if(|arg| arg == replay::WORD).is_some() {
        return replay::parse(shell, &mut args, env);
    }
    let mut draft = Draft::new(shell, env);
    let mut only_urls = false;
    while let Some(arg) = args.next() {
        if only_urls || arg == "-" || !arg.starts_with('-') {
            draft.take_url(&arg)?;
        } else if arg == "--" {
            only_urls = true;
        } else if let Some(text) = draft.take_option(&arg, &mut args)? {
            return Ok(Command::Print(text));
        }
    }
    draft.finish().map(|options| Command::Run(Box::new(options)))
}

/// The options read so far.
struct Draft<'a> {
    shell: Shell,
    env: Env<'a>,
    url: Option<String>,
    client_cert: Option<PathBuf>,
    client_key: Option<PathBuf>,
    options: Options,
}

impl<'a> Draft<'a> {
    fn new(shell: Shell, env: Env<'a>) -> Self {
        let options = Options {
            url: String::new(),
            transport: Transport::Auto,
            era: Era::Auto,
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(30),
            first_byte_timeout: None,
            endpoint_timeout: Duration::from_secs(10),
            request_timeout: Some(Duration::from_secs(300)),
            total_timeout: None,
            retries: 3,
            max_message_bytes: MAX_MESSAGE_BYTES,
            drain_timeout: Duration::from_secs(5),
            keep_alive: KeepAlive::Auto,
            quirks: Vec::new(),
            debug: debug(env),
            log_bodies: false,
            record: false,
            host: HostOptions::default(),
        };
        let (url, client_cert, client_key) = (None, None, None);
        Self { shell, env, url, client_cert, client_key, options }
    }

    fn take_url(&mut self, text: &str) -> Result<(), UsageError> {
        let url = url::parse(text)?;
        match self.url.replace(url) {
            None => Ok(()),
            Some(_) => Err(UsageError::new("more than one URL was given: give exactly one")),
        }
    }

    /// Handles one option and its value. `Some`: a text to print instead of running.
    fn take_option(
        &mut self,
        arg: &str,
        args: &mut std::iter::Peekable<impl Iterator<Item = String>>,
    ) -> Result<Option<String>, UsageError> {
        let (spec, inline) = named(self.shell, arg)?;
        match (spec.kind, self.shell) {
            (Kind::Print(text), shell) => return Ok(Some(text(shell))),
            (Kind::Debug, _) => self.options.debug = true,
            (Kind::LogBodies, _) => self.options.log_bodies = true,
            (Kind::Inner, _) => self.options.record = true,
            (Kind::Shared(key), _) => self.set(spec, key, &value_of(spec, inline, args)?)?,
            (Kind::Native(key), Shell::Native) => self.set_native(key, &value_of(spec, inline, args)?)?,
            (Kind::Native(_), Shell::Component) => return Err(native_only(spec)),
        }
        Ok(None)
    }

    fn set(&mut self, spec: &Spec, key: Shared, text: &str) -> Result<(), UsageError> {
        let (shell, env) = (self.shell, self.env);
        let options = &mut self.options;
        match key {
            Shared::Header => options.headers.push(header::parse(shell, text, env)?),
            Shared::BearerTokenEnv => options.headers.push(header::bearer(shell, text, env)?),
            Shared::Transport => {
                let transport = Transport::parse(text);
                options.transport = transport.ok_or_else(|| wrong(spec, text, "auto, streamable-http or sse"))?;
            }
            Shared::Era => {
                options.era = Era::parse(text).ok_or_else(|| wrong(spec, text, "auto, legacy or modern"))?;
            }
            Shared::ConnectTimeout => options.connect_timeout = limited(spec, text)?,
            Shared::FirstByteTimeout => options.first_byte_timeout = above_zero(duration(spec, text)?),
            Shared::EndpointTimeout => options.endpoint_timeout = limited(spec, text)?,
            Shared::RequestTimeout => options.request_timeout = above_zero(duration(spec, text)?),
            Shared::TotalTimeout => options.total_timeout = above_zero(duration(spec, text)?),
            Shared::Retries => {
                let count = text.parse();
                options.retries = count.map_err(|_invalid| wrong(spec, text, "a number"))?;
            }
            Shared::MaxMessageBytes => options.max_message_bytes = message_bytes(spec, text)?,
            Shared::DrainTimeout => options.drain_timeout = duration(spec, text)?,
            Shared::KeepAlive => options.keep_alive = keep_alive(spec, text)?,
            Shared::Quirk => {
                let quirk = Quirk::parse(text);
                options.quirks.push(quirk.ok_or_else(|| wrong(spec, text, &quirk_names()))?);
            }
        }
        Ok(())
    }

    fn set_native(&mut self, key: Native, text: &str) -> Result<(), UsageError> {
        let host = &mut self.options.host;
        match key {
            Native::AllowHost => host.allow_hosts.push(url::allowed_host(text)?),
            Native::HeaderFile => host.header_files.push(text.into()),
            Native::CaCert => host.ca_certs.push(text.into()),
            Native::ClientCert => self.client_cert = Some(text.into()),
            Native::ClientKey => self.client_key = Some(text.into()),
            Native::Component => host.component = Some(text.into()),
            Native::Record => host.record = Some(text.into()),
        }
        Ok(())
    }

    fn finish(self) -> Result<Options, UsageError> {
        let mut options = self.options;
        options.url = self
            .url
            .ok_or_else(|| UsageError::new("no URL was given: say which server, like https://host/mcp (see --help)"))?;
        options.host.client_identity = match (self.client_cert, self.client_key) {
            (Some(cert), Some(key)) => Some(ClientIdentity { cert, key }),
            (None, None) => None,
            (Some(_), None) => return Err(lonely("--client-cert", "--client-key")),
            (None, Some(_)) => return Err(lonely("--client-key", "--client-cert")),
        };
        if options.transport == Transport::Sse && options.era == Era::Modern {
            return Err(UsageError::new("--transport sse and --era modern exclude each other: drop one"));
        }
        one_authorization(&options.headers)?;
        if let Some(text) = (self.env)("MCP_PROXY_HEADERS") {
            let weaker = header::parse_lines(self.shell, &text, self.env)
                .map_err(|error| UsageError::new(format!("MCP_PROXY_HEADERS: {error}")))?;
            header::fill(&mut options.headers, weaker);
        }
        Ok(options)
    }
}

pub(crate) fn debug(env: Env<'_>) -> bool {
    matches!(env("DEBUG").as_deref(), Some("1" | "true"))
}

/// The option that an argument names, and its inline value.
pub(crate) fn named(shell: Shell, arg: &str) -> Result<(&'static Spec, Option<String>), UsageError> {
    let (name, inline) = match arg.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (arg, None),
    };
    let spec = table::find(name).ok_or_else(|| unknown(shell, name))?;
    match (spec.kind, shell) {
        (Kind::Inner, Shell::Native) => Err(unknown(shell, name)),
        (Kind::Print(_) | Kind::Debug | Kind::LogBodies | Kind::Inner, _) if inline.is_some() => {
            Err(takes_no_value(spec))
        }
        (Kind::Print(_) | Kind::Debug | Kind::LogBodies | Kind::Inner | Kind::Shared(_) | Kind::Native(_), _) => {
            Ok((spec, inline))
        }
    }
}

/// An option's value: inline, or the next argument.
pub(crate) fn value_of(
    spec: &Spec,
    inline: Option<String>,
    args: &mut std::iter::Peekable<impl Iterator<Item = String>>,
) -> Result<String, UsageError> {
    given(spec, inline.or_else(|| args.next_if(|next| table::find(next).is_none())))
}

fn one_authorization(headers: &[(String, String)]) -> Result<(), UsageError> {
    let names = headers.iter().map(|(name, _)| name);
    let count = names.filter(|name| name.eq_ignore_ascii_case("authorization")).count();
    if count < 2 {
        return Ok(());
    }
    Err(UsageError::new("Authorization is given twice: use one of --bearer-token-env and --header, once"))
}

fn duration(spec: &Spec, text: &str) -> Result<Duration, UsageError> {
    value::duration(text).ok_or_else(|| wrong(spec, text, "a time like 30s, 500ms or 2m"))
}

fn keep_alive(spec: &Spec, text: &str) -> Result<KeepAlive, UsageError> {
    match text {
        "auto" => Ok(KeepAlive::Auto),
        "off" => Ok(KeepAlive::Off),
        _ => {
            let time = value::duration(text).and_then(above_zero);
            time.map(KeepAlive::Every).ok_or_else(|| wrong(spec, text, "auto, off or a time like 25s"))
        }
    }
}

fn quirk_names() -> String {
    let names: Vec<&str> = Quirk::TABLE.into_iter().map(|(_, name, _)| name).collect();
    format!("NAME=on or NAME=off with one of {}", names.join(", "))
}

fn limited(spec: &Spec, text: &str) -> Result<Duration, UsageError> {
    above_zero(duration(spec, text)?).ok_or_else(|| wrong(spec, text, "a time above zero, like 30s"))
}

fn message_bytes(spec: &Spec, text: &str) -> Result<usize, UsageError> {
    value::size(text)
        .filter(|size| (SMALLEST_MESSAGE_BYTES..=LARGEST_MESSAGE_BYTES).contains(size))
        .and_then(|size| usize::try_from(size).ok())
        .ok_or_else(|| wrong(spec, text, "a size from 1KiB to 1GiB, like 16MiB"))
}

fn wrong(spec: &Spec, text: &str, expected: &str) -> UsageError {
    UsageError::new(format!("{} `{text}`: expected {expected}", spec.name))
}

fn above_zero(time: Duration) -> Option<Duration> {
    Some(time).filter(|time| !time.is_zero())
}

fn given(spec: &Spec, value: Option<String>) -> Result<String, UsageError> {
    let Spec { name, value: what, .. } = spec;
    value
        .filter(|text| !text.is_empty())
        .ok_or_else(|| UsageError::new(format!("{name} has no value: write {name} {what}")))
}

fn takes_no_value(spec: &Spec) -> UsageError {
    UsageError::new(format!("{} takes no value: remove `=…`", spec.name))
}

fn native_only(spec: &Spec) -> UsageError {
    let name = spec.name;
    UsageError::new(format!("{name} does not work inside wasmtime: only the native mcp-proxy can do it"))
}

fn lonely(given: &str, other: &str) -> UsageError {
    UsageError::new(format!("{given} needs {other} too: give both"))
}

fn unknown(shell: Shell, name: &str) -> UsageError {
    let hint = match table::nearest(shell, name) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "see --help".to_owned(),
    };
    UsageError::new(format!("unknown option {name}: {hint}"))
}
