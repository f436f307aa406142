//! The commands besides running and replaying. Each returns the exit code of the program.

use mcp_proxy_options::{ClientConfig, CommandSpec, Doctor, Options};

use crate::note;

/// The command line, or what it names, is wrong.
pub const USAGE: i32 = 2;

pub fn login(_options: &Options) -> i32 {
    failed("not built yet", USAGE)
}

pub fn logout(_options: &Options) -> i32 {
    failed("not built yet", USAGE)
}

pub fn status(_json: bool) -> i32 {
    failed("not built yet", USAGE)
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
