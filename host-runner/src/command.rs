//! The commands besides running and replaying. Each returns the exit code of the program.

use mcp_proxy_options::{ClientConfig, CommandSpec, Doctor, Options, UsageError};
use tokio::runtime;

use crate::{
    auth::{self, Authorizer},
    http::Http,
    note,
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
        Ok(text) => print(&format!("{text}\n")),
        Err(text) => failed(&text, FAILED),
    }
}

fn usage(error: &UsageError) -> i32 {
    failed(&error.to_string(), USAGE)
}

pub fn doctor(_doctor: &Doctor) -> i32 {
    failed("not built yet", USAGE)
}

pub fn config(_config: &ClientConfig) -> i32 {
    failed("not built yet", USAGE)
}

pub fn completions(_shell: &str) -> i32 {
    failed("not built yet", USAGE)
}

pub fn man(_spec: &CommandSpec) -> i32 {
    failed("not built yet", USAGE)
}

pub fn help(_spec: &CommandSpec) -> i32 {
    failed("not built yet", USAGE)
}

/// Writes a text to stdout.
pub fn print(text: &str) -> i32 {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// Prints one line, even if the cause has several.
pub fn failed(text: &str, code: i32) -> i32 {
    let words: Vec<&str> = text.split_whitespace().collect();
    note::line(&format!("mcp-proxy: {}", words.join(" ")));
    code
}
