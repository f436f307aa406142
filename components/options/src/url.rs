//! The server's URL and allowed hosts: which forms the proxy accepts, and their canonical
//! spelling.

use http::{Uri, uri::Authority};

use crate::{AllowedHost, UsageError};

/// Parses an absolute http(s) URL with a host, without credentials. Drops the fragment,
/// which is never sent to a server.
pub(crate) fn parse(text: &str) -> Result<String, UsageError> {
    let uri: Uri = text.parse().map_err(|_invalid| not_a_url(text))?;
    let authority = uri.authority().ok_or_else(|| not_a_url(text))?;
    if authority.as_str().contains('@') {
        return Err(UsageError::new(
            "the URL contains credentials: send them with --header or --bearer-token-env instead",
        ));
    }
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(other) => {
            return Err(UsageError::new(format!("URL scheme {other} is not supported: use http or https")));
        }
        None => return Err(not_a_url(text)),
    }
    if authority.host().is_empty() {
        return Err(not_a_url(text));
    }
    match port(authority) {
        Ok(_) => Ok(uri.to_string()),
        Err("") => Err(not_a_url(text)),
        Err(port) => Err(UsageError::new(format!("the URL's port {port} is not a number between 1 and 65535"))),
    }
}

/// The port, if there is one. The error is the text in its place, since `http` accepts
/// any text there.
fn port(authority: &Authority) -> Result<Option<u16>, &str> {
    let after_host = authority.as_str().strip_prefix(authority.host());
    let Some(text) = after_host.and_then(|rest| rest.strip_prefix(':')) else { return Ok(None) };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port @ 1..) if digits => Ok(Some(port)),
        _ => Err(text),
    }
}

/// Quotes the text only if it cannot contain a credential.
fn not_a_url(text: &str) -> UsageError {
    if text.contains('@') {
        return UsageError::new("the argument is not a URL: write it as https://host/path");
    }
    if text.contains("://") || text.starts_with('-') {
        return UsageError::new(format!("`{text}` is not a URL: write it as https://host/path"));
    }
    UsageError::new(format!("`{text}` is not an absolute URL: write it as https://{}", text.trim_start_matches('/')))
}

/// Parses `HOST` or `HOST:PORT`.
pub(crate) fn allowed_host(text: &str) -> Result<AllowedHost, UsageError> {
    let wrong = || UsageError::new(format!("--allow-host `{text}` is not a host: write HOST or HOST:PORT"));
    let authority: Authority = text.parse().map_err(|_invalid| wrong())?;
    if text.contains(['@', '*']) || authority.host().is_empty() {
        return Err(wrong());
    }
    let port = port(&authority).map_err(|_invalid| wrong())?;
    Ok(AllowedHost { host: authority.host().to_ascii_lowercase(), port })
}
