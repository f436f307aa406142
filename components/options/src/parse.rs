//! Parses arguments and variables into a [`Command`]: finds the command, splits the rest
//! with the table, then reads the values and checks combinations.

use std::{path::PathBuf, time::Duration};

use crate::{
    ClientIdentity, Command, Era, Grant, HostOptions, KeepAlive, Options, Quirk, Shell, Transport, UsageError, client,
    command::{self, Doctor, Key, SHELLS},
    header,
    line::{self, Given, Line, Words},
    replay,
    table::{Kind, Native, Own, Shared},
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
    let spec = command::begin(shell, &mut args)?;
    let line = match line::read(shell, spec, &mut args)? {
        Words::Show(show) => return Ok(command::show(shell, spec, show)),
        Words::Line(line) => line,
    };
    spec.check_operands(shell, &line.operands)?;
    let options = |line: &Line| options(shell, line, env).map(Box::new);
    match spec.key {
        Key::Run => options(&line).map(Command::Run),
        Key::Login => options(&line).and_then(able_to_log_in).map(Command::Login),
        Key::Logout => options(&line).map(Command::Logout),
        Key::Doctor => options(&line).map(|options| Command::Doctor(doctor(options, &line))),
        Key::AuthToken => options(&line).map(Command::AuthToken),
        Key::AuthStatus => Ok(Command::AuthStatus { json: line.has(Own::Json) }),
        Key::Config => client::parse(&line).map(Command::Config),
        Key::Completions => completions(&line).map(Command::Completions),
        Key::Man => command::described(&line.operands).map(Command::Man),
        Key::Help => command::described(&line.operands).map(Command::Help),
        Key::Replay => Ok(Command::Replay(replay::parse(line, env))),
    }
}

/// The options of a command with a URL.
fn options(shell: Shell, line: &Line, env: Env<'_>) -> Result<Options, UsageError> {
    let url = line.operands.first().map_or("", String::as_str);
    Draft::read(shell, env, line)?.finish(url)
}

fn doctor(options: Box<Options>, line: &Line) -> Doctor {
    let entry = client::generic(line, &options.url);
    Doctor { options, entry, json: line.has(Own::Json), deep: line.has(Own::Deep) }
}

fn able_to_log_in(options: Box<Options>) -> Result<Box<Options>, UsageError> {
    if options.host.auth.grant == Grant::Off {
        return Err(UsageError::new("login and --oauth-grant off exclude each other: drop one"));
    }
    Ok(options)
}

fn completions(line: &Line) -> Result<&'static str, UsageError> {
    let text = line.operands.first().map_or("", String::as_str);
    let known = SHELLS.into_iter().find(|shell| *shell == text);
    known.ok_or_else(|| UsageError::new(format!("`{text}`: expected one of {}", SHELLS.join(", "))))
}

/// The options read so far.
pub(crate) struct Draft<'a> {
    shell: Shell,
    env: Env<'a>,
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
        Self { shell, env, client_cert: None, client_key: None, options }
    }

    /// Reads the values of the options that every run has.
    pub(crate) fn read(shell: Shell, env: Env<'a>, line: &Line) -> Result<Self, UsageError> {
        let mut draft = Self::new(shell, env);
        line.options.iter().try_for_each(|given| draft.take(given))?;
        Ok(draft)
    }

    fn take(&mut self, given: &Given) -> Result<(), UsageError> {
        match given.spec.kind {
            Kind::Debug => self.options.debug = true,
            Kind::LogBodies => self.options.log_bodies = true,
            Kind::Inner => self.options.record = true,
            Kind::Shared(key) => self.set(given, key)?,
            Kind::Native(key) => self.set_native(given, key)?,
            // Each command reads its own.
            Kind::Own(_) | Kind::Show(_) => {}
        }
        Ok(())
    }

    fn set(&mut self, given: &Given, key: Shared) -> Result<(), UsageError> {
        let (shell, env, text) = (self.shell, self.env, given.value.as_str());
        let options = &mut self.options;
        match key {
            Shared::Header => options.headers.push(header::parse(shell, text, env)?),
            Shared::BearerTokenEnv => options.headers.push(header::bearer(shell, text, env)?),
            Shared::Transport => {
                let transport = Transport::parse(text);
                options.transport = transport.ok_or_else(|| wrong(given, "auto, streamable-http or sse"))?;
            }
            Shared::Era => {
                options.era = Era::parse(text).ok_or_else(|| wrong(given, "auto, legacy or modern"))?;
            }
            Shared::ConnectTimeout => options.connect_timeout = limited(given)?,
            Shared::FirstByteTimeout => options.first_byte_timeout = above_zero(duration(given)?),
            Shared::EndpointTimeout => options.endpoint_timeout = limited(given)?,
            Shared::RequestTimeout => options.request_timeout = above_zero(duration(given)?),
            Shared::TotalTimeout => options.total_timeout = above_zero(duration(given)?),
            Shared::Retries => {
                let count = text.parse();
                options.retries = count.map_err(|_invalid| wrong(given, "a number"))?;
            }
            Shared::MaxMessageBytes => options.max_message_bytes = message_bytes(given)?,
            Shared::DrainTimeout => options.drain_timeout = duration(given)?,
            Shared::KeepAlive => options.keep_alive = keep_alive(given)?,
            Shared::Quirk => {
                let quirk = Quirk::parse(text);
                options.quirks.push(quirk.ok_or_else(|| wrong(given, &quirk_names()))?);
            }
        }
        Ok(())
    }

    fn set_native(&mut self, given: &Given, key: Native) -> Result<(), UsageError> {
        let (host, text) = (&mut self.options.host, given.value.as_str());
        match key {
            Native::AllowHost => host.allow_hosts.push(url::allowed_host(text)?),
            Native::HeaderFile => host.header_files.push(text.into()),
            Native::CaCert => host.ca_certs.push(text.into()),
            Native::ClientCert => self.client_cert = Some(text.into()),
            Native::ClientKey => self.client_key = Some(text.into()),
            Native::Component => host.component = Some(text.into()),
            Native::Record => host.record = Some(text.into()),
            Native::Auth(key) => host.auth.set(key, given, self.env)?,
        }
        Ok(())
    }

    /// Checks combinations, and adds the headers from the environment.
    pub(crate) fn finish(self, url: &str) -> Result<Options, UsageError> {
        let mut options = self.options;
        options.url = url::parse(url)?;
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
        options.host.auth.check()?;
        options.host.auth.check_headers(&options.headers)?;
        Ok(options)
    }
}

pub(crate) fn debug(env: Env<'_>) -> bool {
    matches!(env("DEBUG").as_deref(), Some("1" | "true"))
}

fn one_authorization(headers: &[(String, String)]) -> Result<(), UsageError> {
    let count = headers.iter().filter(|(name, _)| header::is_authorization(name)).count();
    if count < 2 {
        return Ok(());
    }
    Err(UsageError::new("Authorization is given twice: use one of --bearer-token-env and --header, once"))
}

fn duration(given: &Given) -> Result<Duration, UsageError> {
    value::duration(&given.value).ok_or_else(|| wrong(given, "a time like 30s, 500ms or 2m"))
}

fn keep_alive(given: &Given) -> Result<KeepAlive, UsageError> {
    match given.value.as_str() {
        "auto" => Ok(KeepAlive::Auto),
        "off" => Ok(KeepAlive::Off),
        _ => {
            let time = value::duration(&given.value).and_then(above_zero);
            time.map(KeepAlive::Every).ok_or_else(|| wrong(given, "auto, off or a time like 25s"))
        }
    }
}

fn quirk_names() -> String {
    let names: Vec<&str> = Quirk::TABLE.into_iter().map(|(_, name, _)| name).collect();
    format!("NAME=on or NAME=off with one of {}", names.join(", "))
}

fn limited(given: &Given) -> Result<Duration, UsageError> {
    above_zero(duration(given)?).ok_or_else(|| wrong(given, "a time above zero, like 30s"))
}

fn message_bytes(given: &Given) -> Result<usize, UsageError> {
    value::size(&given.value)
        .filter(|size| (SMALLEST_MESSAGE_BYTES..=LARGEST_MESSAGE_BYTES).contains(size))
        .and_then(|size| usize::try_from(size).ok())
        .ok_or_else(|| wrong(given, "a size from 1KiB to 1GiB, like 16MiB"))
}

pub(crate) fn wrong(given: &Given, expected: &str) -> UsageError {
    UsageError::new(format!("{} `{}`: expected {expected}", given.spec.name, given.value))
}

fn above_zero(time: Duration) -> Option<Duration> {
    Some(time).filter(|time| !time.is_zero())
}

fn lonely(given: &str, other: &str) -> UsageError {
    UsageError::new(format!("{given} needs {other} too: give both"))
}
