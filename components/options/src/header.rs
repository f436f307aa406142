//! The user's headers: `NAME:VALUE` and `NAME=VALUE`, lists of them, and `${NAME}` in
//! values. Errors name the header, never its value, since a wrong value is often a
//! credential.

use http::{HeaderName, HeaderValue};

use crate::{Shell, UsageError};

type Header = (String, String);
type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Headers that describe one connection or one body. Setting them by hand can only break
/// the exchange.
const CONNECTION_HEADERS: [&str; 10] = [
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers that tell how to read a message, or to which session it belongs. Only the
/// machine knows these, so a user's header would be wrong. `Mcp-Method`, `Mcp-Name` and
/// `Mcp-Param-…` mirror the message from MCP 2026-07-28 on. Other names that begin with
/// `mcp-` belong to servers.
const PROTOCOL_HEADERS: [&str; 7] =
    ["accept", "content-type", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"];

fn is_protocol(lower: &str) -> bool {
    PROTOCOL_HEADERS.contains(&lower) || lower.starts_with("mcp-param-")
}

/// Parses one header; the name ends at the first `:` or `=`.
pub(crate) fn parse(shell: Shell, text: &str, env: Env<'_>) -> Result<Header, UsageError> {
    let (name, value) = text
        .split_once([':', '='])
        .ok_or_else(|| UsageError::new("a header has no `:`: write it as NAME:VALUE or NAME=VALUE"))?;
    let name = name.trim();
    checked_name(shell, name)?;
    let value = expand(shell, name, value.trim(), env)?;
    checked_value(name, value)
}

/// Parses one header per line; skips empty lines and lines that begin with `#`.
pub(crate) fn parse_lines(shell: Shell, text: &str, env: Env<'_>) -> Result<Vec<Header>, UsageError> {
    text.trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| parse(shell, line, env))
        .collect()
}

/// Reads the token from the variable `var`.
pub(crate) fn bearer(shell: Shell, var: &str, env: Env<'_>) -> Result<Header, UsageError> {
    let token = env(var).unwrap_or_default();
    if !token.trim().is_empty() {
        return checked_value("Authorization", format!("Bearer {}", token.trim()));
    }
    let hint = match shell {
        Shell::Component => format!("set it and run `wasmtime run --env {var} …`"),
        Shell::Native => "set it to the token".to_owned(),
    };
    Err(UsageError::new(format!("--bearer-token-env: the variable {var} is not set or empty: {hint}")))
}

/// Adds the headers of `weaker` whose names `headers` does not have.
pub(crate) fn fill(headers: &mut Vec<Header>, weaker: Vec<Header>) {
    let own = headers.len();
    for (name, value) in weaker {
        let mut stronger = headers.iter().take(own);
        if !stronger.any(|(other, _)| other.eq_ignore_ascii_case(&name)) {
            headers.push((name, value));
        }
    }
}

pub(crate) fn is_authorization(name: &str) -> bool {
    name.eq_ignore_ascii_case("authorization")
}

fn checked_name(shell: Shell, name: &str) -> Result<(), UsageError> {
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(UsageError::new(
            "a header's name is empty or has characters that names cannot have: write it as NAME:VALUE",
        ));
    }
    let lower = name.to_ascii_lowercase();
    if CONNECTION_HEADERS.contains(&lower.as_str()) {
        return Err(UsageError::new(format!("header {name} belongs to the connection and cannot be set: remove it")));
    }
    if is_protocol(&lower) {
        return Err(UsageError::new(format!("header {name} belongs to the protocol and cannot be set: remove it")));
    }
    if lower == "host" && shell == Shell::Component {
        return Err(UsageError::new("header Host cannot be set here: only the native mcp-proxy can do it"));
    }
    Ok(())
}

fn checked_value(name: &str, value: String) -> Result<Header, UsageError> {
    match HeaderValue::from_str(&value) {
        Ok(_) => Ok((name.to_owned(), value)),
        Err(_) => Err(UsageError::new(format!(
            "the value of header {name} has control characters: remove line breaks and the like"
        ))),
    }
}

/// Replaces each `${NAME}`; `$${` escapes a literal `${`.
fn expand(shell: Shell, header: &str, value: &str, env: Env<'_>) -> Result<String, UsageError> {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(plain) = before.strip_suffix('$') {
            out.extend([plain, "${"]);
            rest = after;
            continue;
        }
        let (variable, tail) = after.split_once('}').ok_or_else(|| {
            UsageError::new(format!("the value of header {header} has `${{` without `}}`: close it, or write `$${{`"))
        })?;
        out.push_str(before);
        out.push_str(&variable_value(shell, header, variable, env)?);
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

fn variable_value(shell: Shell, header: &str, variable: &str, env: Env<'_>) -> Result<String, UsageError> {
    if shell == Shell::Component {
        return Err(UsageError::new(format!(
            "header {header} uses ${{{variable}}}: only the native mcp-proxy can do it; \
             use MCP_PROXY_HEADERS or --bearer-token-env"
        )));
    }
    env(variable).ok_or_else(|| {
        UsageError::new(format!("header {header} uses ${{{variable}}}, but the variable {variable} is not set: set it"))
    })
}
