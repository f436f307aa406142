//! The commands besides running and replaying. Each returns the exit code of the program.

use mcp_proxy_options::{ClientConfig, CommandSpec, Options, UsageError};
use tokio::runtime;

use crate::{
    auth::{self, Authorizer},
    config,
    http::Http,
    manual, note,
};

/// The command line, or what it names, is wrong.
pub const USAGE: i32 = 2;

/// The command did not do what it should.
const FAILED: i32 = 1;

type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

pub fn login(options: &Options, env: Variables<'_>) -> i32 {
    with_authorizer(options, env, async |mut http, authorizer| {
        let challenge = http.challenge(&options.url).await?;
        auth::command::login(&authorizer, challenge.as_ref()).await
    })
}

pub fn logout(options: &Options, env: Variables<'_>) -> i32 {
    with_authorizer(options, env, async |_, authorizer| auth::command::logout(&authorizer).await)
}

pub fn token(options: &Options, env: Variables<'_>) -> i32 {
    with_authorizer(options, env, async |_, authorizer| auth::command::token(&authorizer).await)
}

pub fn status(json: bool, env: Variables<'_>) -> i32 {
    finish(async { auth::command::status(json, env) })
}

fn with_authorizer(
    options: &Options,
    env: Variables<'_>,
    command: impl AsyncFnOnce(Http, Authorizer) -> Result<String, String>,
) -> i32 {
    let http = match Http::new(options, env) {
        Ok(http) => http,
        Err(error) => return usage(&error),
    };
    match http.authorizer().cloned() {
        Some(authorizer) => finish(command(http, authorizer)),
        None => failed("there is nothing to log in for: the options say how requests are authorized", USAGE),
    }
}

/// Runs a command to its end, and prints what it found.
fn finish(command: impl Future<Output = Result<String, String>>) -> i32 {
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string(), FAILED),
    };
    match runtime.block_on(command) {
        Ok(text) => print(format!("{text}\n").as_bytes()),
        Err(text) => failed(&text, FAILED),
    }
}

fn usage(error: &UsageError) -> i32 {
    failed(&error.to_string(), USAGE)
}

pub fn config(config: &ClientConfig) -> i32 {
    finish(async { config::run(config) })
}

pub fn completions(shell: &str) -> i32 {
    match manual::completions(shell) {
        Some(script) => print(&script),
        None => failed(&format!("there are no completions for {shell}"), USAGE),
    }
}

pub fn man(spec: &CommandSpec) -> i32 {
    match manual::page(spec) {
        Ok(page) => print(&page),
        Err(error) => failed(&format!("cannot render the manual page: {error}"), FAILED),
    }
}

pub fn help(spec: &CommandSpec) -> i32 {
    match manual::print_help(spec) {
        Ok(()) => 0,
        Err(_) => FAILED,
    }
}

/// Writes a text to stdout.
pub fn print(text: &[u8]) -> i32 {
    use std::io::Write as _;
    match std::io::stdout().write_all(text) {
        Ok(()) => 0,
        Err(_) => FAILED,
    }
}

/// Prints one line, even if the cause has several.
pub fn failed(text: &str, code: i32) -> i32 {
    let words: Vec<&str> = text.split_whitespace().collect();
    note::line(&format!("mcp-proxy: {}", words.join(" ")));
    code
}
