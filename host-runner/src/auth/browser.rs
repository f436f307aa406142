//! Shows a URL to the person: in the browser, by a command of the user's, or as a line on
//! stderr.

use std::{
    ffi::OsString,
    process::{Command, Stdio},
};

use mcp_proxy_options::Browser;

use crate::{note, record::Mask};

/// Opens a URL. The line on stderr helps where the browser is on another machine.
pub(crate) fn open(how: &Browser, url: &str, server: &str, mask: &Mask) {
    let opened = match how {
        Browser::Print => None,
        Browser::Open => opener::open_browser(url).ok(),
        Browser::Command(words) => run(words, url, mask),
    };
    let text = match opened {
        Some(()) => format!("{server} wants you to log in: a browser opens. If it does not, open {url}"),
        None => format!("{server} wants you to log in: open {url}"),
    };
    note::line(&format!("mcp-proxy: {text}"));
}

/// Starts the user's command. It must not write to the client's stdout, nor see a
/// credential in its environment.
fn run(words: &[String], url: &str, mask: &Mask) -> Option<()> {
    let (program, args) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(args).arg(url).stdin(Stdio::null()).stdout(Stdio::null());
    for name in revealing(std::env::vars_os(), mask) {
        command.env_remove(name);
    }
    match command.spawn() {
        Ok(mut child) => {
            // Someone must collect the child when it ends.
            drop(std::thread::Builder::new().name("browser".into()).spawn(move || child.wait()));
            Some(())
        }
        Err(error) => {
            note::line(&format!("mcp-proxy: --browser-command {program}: {error}"));
            None
        }
    }
}

/// The variables that hold one of the secrets.
fn revealing(variables: impl Iterator<Item = (OsString, OsString)>, mask: &Mask) -> Vec<OsString> {
    variables.filter(|(_, value)| mask.is_in(value.as_encoded_bytes())).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_does_not_get_variables_with_secrets() {
        let variables = [("A", "x"), ("TOKEN", "s3cret-key"), ("HEADERS", "X-Key: s3cret-key\nB: c")];
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        assert_eq!(revealing(variables, &Mask::new([&b"s3cret-key"[..]])), ["TOKEN", "HEADERS"]);
    }
}
