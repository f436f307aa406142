//! `config`: an entry for the configuration of a client. The parser checks the options that
//! become part of it, but reads none of the variables that they name: only the client sets
//! them.

use http::Uri;

use crate::{
    Shell, UsageError,
    line::{Given, Line},
    parse::{Draft, Env},
    table::{Kind, Own},
    url,
};

/// Prints or writes the configuration of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    pub client: ClientName,
    /// As the user wrote it.
    pub url: String,
    /// What the client calls the server: letters, digits, `-` and `_`.
    pub name: String,
    pub write: bool,
    /// Write without asking.
    pub yes: bool,
    /// Replace a different entry of that name.
    pub force: bool,
    /// The options for the entry.
    pub args: Vec<Argument>,
    /// The variables that they name. The client has to set them.
    pub variables: Vec<String>,
}

/// An option of the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    pub name: &'static str,
    /// Empty if the option has none.
    pub value: String,
    /// Whether the value is a path.
    pub file: bool,
}

/// The clients with a configuration of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientName {
    ClaudeDesktop,
    ClaudeCode,
    VsCode,
    Cursor,
    Zed,
    /// Any other.
    Generic,
}

pub(crate) const NAMES: [&str; 6] = ["claude-desktop", "claude-code", "vscode", "cursor", "zed", "generic"];

impl ClientName {
    pub const ALL: [Self; 6] =
        [Self::ClaudeDesktop, Self::ClaudeCode, Self::VsCode, Self::Cursor, Self::Zed, Self::Generic];

    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::VsCode => "vscode",
            Self::Cursor => "cursor",
            Self::Zed => "zed",
            Self::Generic => "generic",
        }
    }

    fn parse(text: &str) -> Result<Self, UsageError> {
        let found = Self::ALL.into_iter().find(|client| client.name() == text);
        found.ok_or_else(|| UsageError::new(format!("`{text}` is no known client: expected {}", NAMES.join(", "))))
    }
}

pub(crate) fn parse(line: &Line) -> Result<ClientConfig, UsageError> {
    let [client, url] = line.operands.as_slice() else {
        return Err(UsageError::new("write mcp-proxy config CLIENT URL"));
    };
    check(line, url)?;
    let name = match line.value(Own::Name) {
        Some(name) => checked_name(name)?,
        None => default_name(url),
    };
    let (write, yes, force) = (line.has(Own::Write), line.has(Own::Yes), line.has(Own::Force));
    if !write && (yes || force) {
        return Err(UsageError::new("--yes and --force need --write too: add it, or drop them"));
    }
    let client = ClientName::parse(client)?;
    if write && client == ClientName::Generic {
        return Err(UsageError::new("generic has no file to write: drop --write, and copy the entry"));
    }
    Ok(ClientConfig { client, name, write, yes, force, ..generic(line, url) })
}

/// The entry for any client, with the options of this command line.
pub(crate) fn generic(line: &Line, url: &str) -> ClientConfig {
    let options = line.options.iter().filter(|given| !matches!(given.spec.kind, Kind::Own(_)));
    ClientConfig {
        client: ClientName::Generic,
        url: url.to_owned(),
        name: default_name(url),
        write: false,
        yes: false,
        force: false,
        args: options.map(argument).collect(),
        variables: line.options.iter().flat_map(variables).collect(),
    }
}

/// The entry would start: every variable that an option may name has some value here.
fn check(line: &Line, url: &str) -> Result<(), UsageError> {
    let ours = |name: &str| name.starts_with("MCP_PROXY_") || name == "DEBUG";
    let env: Env<'_> = &|name| (!ours(name)).then(|| "value".to_owned());
    Draft::read(Shell::Native, env, line)?.finish(url).map(drop)
}

fn argument(given: &Given) -> Argument {
    Argument { name: given.spec.name, value: given.value.clone(), file: given.spec.takes_file() }
}

/// The variables that an option names.
fn variables(given: &Given) -> Vec<String> {
    if given.spec.value == "VAR" {
        return vec![given.value.clone()];
    }
    let parts = given.value.split("${").zip(given.value.split("${").skip(1));
    let named = parts.filter(|(before, _)| given.spec.name == "--header" && !before.ends_with('$'));
    named.filter_map(|(_, after)| after.split_once('}').map(|(name, _)| name.to_owned())).collect()
}

fn checked_name(name: &str) -> Result<String, UsageError> {
    match name.chars().all(is_plain) {
        true => Ok(name.to_owned()),
        false => Err(UsageError::new(format!("--name `{name}`: expected letters, digits, - and _"))),
    }
}

/// The host's name, spelled with characters that every client accepts.
fn default_name(url: &str) -> String {
    let uri: Uri = url::parse(url).ok().and_then(|url| url.parse().ok()).unwrap_or_default();
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect()
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}
