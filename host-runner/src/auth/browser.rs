//! Shows a URL to the person: in the browser, by a command of the user's, or as a line on
//! stderr.

use std::{
    ffi::OsString,
    process::{Child, Command, Stdio},
};

use mcp_proxy_options::Browser;

use crate::{note, record::Mask};

/// Opens a URL. The line on stderr helps where the browser is on another machine.
pub(crate) fn open(how: &Browser, url: &str, server: &str, mask: &Mask) {
    let opened = match how {
        Browser::Print => None,
        Browser::Open => open_system(url, mask),
        Browser::Command(words) => run(words, url, mask).map_err(|text| note::line(&text)).ok(),
    };
    let text = match opened {
        Some(()) => format!("{server} wants you to log in: a browser opens. If it does not, open {url}"),
        None => format!("{server} wants you to log in: open {url}"),
    };
    note::line(&format!("mcp-proxy: {text}"));
}

/// The desktop's own program; `opener` knows others, but hands down the whole environment.
fn open_system(url: &str, mask: &Mask) -> Option<()> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = if cfg!(unix) { run(&[program.to_owned()], url, mask).ok() } else { None };
    started.or_else(|| opener::open_browser(url).ok())
}

/// Starts a program. It must not write to the client's stdout, nor keep the client's stderr
/// open after we have ended, nor see a credential in its environment.
fn run(words: &[String], url: &str, mask: &Mask) -> Result<(), String> {
    let [program, args @ ..] = words else { return Err("mcp-proxy: no program".to_owned()) };
    let mut command = Command::new(program);
    command.args(args).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    for name in revealing(std::env::vars_os(), mask) {
        command.env_remove(name);
    }
    // Ctrl-C in our terminal must not end the person's browser.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command.spawn().map_err(|error| format!("mcp-proxy: {program}: {error}"))?;
    let program = program.clone();
    drop(std::thread::Builder::new().name("browser".into()).spawn(move || collect(child, &program)));
    Ok(())
}

/// Waits for a child. One that ends well says nothing: a browser may have been open already.
fn collect(mut child: Child, program: &str) {
    match child.wait() {
        Ok(status) if status.success() => {}
        Ok(status) => note::line(&format!("mcp-proxy: {program} did not open the URL ({status})")),
        Err(error) => note::line(&format!("mcp-proxy: {program}: {error}")),
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
