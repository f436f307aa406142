//! `cargo xtask`: the steps for building, trying, testing and measuring mcp-proxy. Each
//! step announces itself before it runs.

#![expect(clippy::print_stdout, reason = "a command-line tool talks to its user")]

mod bench;
mod build;
mod cases;
mod component;
mod demo;
mod security;
mod soak;
mod step;
mod test;
mod tools;
mod worker;

use anyhow::{Result, bail};
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask build          dist/mcp-proxy.wasm, dist/mcp-proxy and dist/worker
cargo xtask build worker   dist/worker alone
cargo xtask demo           build quickly, then run a scripted session with an embedded server
cargo xtask worker dev     the Worker in front of the demo's server of HTTP+SSE
cargo xtask test [PART…]   everything, or some of: lint core sim fuzz host wasm component engine e2e worker chaos examples
cargo xtask bench [--full] measure against other proxies; writes bench/RESULTS.md
cargo xtask soak [NAME…]   long loads on one process each: does its memory stay flat? bench/README.md has the names
                           [--scale F] [--calls N] [--inflight N] [--minutes M] [--open a,b,c] [--dist DIR] [--write]
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).and_then(|()| tools::clean()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            step::complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let (command, rest) = arguments.split_first().map_or(("help", arguments), |(first, rest)| (first.as_str(), rest));
    match command {
        "build" => build::run(rest),
        "demo" => demo::run(),
        "test" => test::run(rest),
        "worker" => worker::run(rest),
        "bench" => {
            build::local()?;
            bench::run(rest)
        }
        "soak" => soak::run(rest),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => bail!("no such command: {other}\n{USAGE}"),
    }
}
