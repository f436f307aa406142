//! `mcp-proxy.wasm`: parses the command line, then drives the core with one
//! `wasi:io/poll` loop over stdin, stdout, the calls and a timer. Nothing here looks into
//! JSON or SSE, names an MCP method or decides a retry.

mod call;
#[cfg(feature = "crash")]
mod crash;
mod journal;
mod limits;
mod log;
mod output;
mod replay;
mod shell;
mod tape;

use log::Level;
use mcp_proxy_core::{Config, Snapshot};
use mcp_proxy_options::{Command, Era, KeepAlive, Options, Quirk, Replay, Shell, Transport, parse};
use std::process::ExitCode;
use wasip2::cli::environment;

/// Set by a host that replaces a crashed component: write the journal.
const JOURNAL: &str = "MCP_PROXY_JOURNAL";
/// Set by the same host: it talks through a second stdin, whose end means stop.
const STOP: &str = "MCP_PROXY_STOP";
/// Set by the same host: the session from the last component's journal.
const SESSION: &str = "MCP_PROXY_SESSION";

fn main() -> ExitCode {
    let variables = environment::get_environment();
    let lookup = |name: &str| variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let arguments = environment::get_arguments().into_iter().skip(1);
    match parse(Shell::Component, arguments, &lookup) {
        Ok(Command::Print(text)) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Ok(Command::Run(options)) => run(&options, &lookup),
        Ok(Command::Replay(options)) => replay(&options),
        Ok(
            Command::Help(_)
            | Command::Login(_)
            | Command::Logout(_)
            | Command::AuthStatus { .. }
            | Command::AuthToken(_)
            | Command::Doctor(_)
            | Command::Config(_)
            | Command::Completions(_)
            | Command::Man(_),
        ) => refuse("only the native mcp-proxy can do it"),
        Err(error) => refuse(&error.to_string()),
    }
}

fn run(options: &Options, lookup: &dyn Fn(&str) -> Option<String>) -> ExitCode {
    let config = match config(options) {
        Ok(config) => config,
        Err(reason) => return refuse(&reason),
    };
    let mut shell = shell::Shell::new(&config, options);
    if lookup(JOURNAL).is_some() {
        shell.keep_journal();
    }
    if lookup(STOP).is_some() {
        shell.listen_for_stop();
    }
    if let Some(known) = lookup(SESSION).as_deref().and_then(Snapshot::from_line) {
        shell.resume(&known);
    }
    shell.run()
}

fn replay(options: &Replay) -> ExitCode {
    match replay::run(if options.debug { Level::All } else { Level::Faults }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            log::line(&format!("mcp-proxy: the recording cannot be read: {reason}"));
            ExitCode::FAILURE
        }
    }
}

fn transport_of(transport: Transport) -> mcp_proxy_core::Transport {
    match transport {
        Transport::Auto => mcp_proxy_core::Transport::Auto,
        Transport::StreamableHttp => mcp_proxy_core::Transport::StreamableHttp,
        Transport::Sse => mcp_proxy_core::Transport::Sse,
    }
}

fn era_of(era: Era) -> mcp_proxy_core::Era {
    match era {
        Era::Auto => mcp_proxy_core::Era::Auto,
        Era::Legacy => mcp_proxy_core::Era::Legacy,
        Era::Modern => mcp_proxy_core::Era::Modern,
    }
}

fn config(options: &Options) -> Result<Config, String> {
    // Every option by its name: one that is forgotten does not compile. The last
    // ones are the shell's own.
    let Options {
        url,
        transport,
        era,
        headers,
        first_byte_timeout,
        endpoint_timeout,
        request_timeout,
        total_timeout,
        retries,
        max_message_bytes,
        drain_timeout,
        keep_alive,
        quirks,
        debug,
        connect_timeout: _,
        log_bodies: _,
        record: _,
        host: _,
    } = options;
    let mut config = Config::new(url).map_err(|error| error.to_string())?;
    config.transport = transport_of(*transport);
    config.era = era_of(*era);
    config.first_byte_timeout = *first_byte_timeout;
    config.endpoint_timeout = *endpoint_timeout;
    config.request_timeout = *request_timeout;
    config.total_timeout = *total_timeout;
    config.retries = *retries;
    config.max_message = *max_message_bytes;
    config.drain_timeout = *drain_timeout;
    config.trace = *debug;
    config.keep_alive = match *keep_alive {
        KeepAlive::Auto => mcp_proxy_core::KeepAlive::Auto,
        KeepAlive::Off => mcp_proxy_core::KeepAlive::Off,
        KeepAlive::Every(time) => mcp_proxy_core::KeepAlive::Every(time),
    };
    quirks.iter().for_each(|(quirk, on)| *switch(&mut config.quirks, *quirk) = *on);
    let agent = http::HeaderValue::from_static(concat!("mcp-proxy/", env!("CARGO_PKG_VERSION")));
    config.headers.insert(http::header::USER_AGENT, agent);
    for (name, value) in headers {
        let bad = |_| format!("header {name}: not a valid HTTP header");
        let header = http::HeaderName::try_from(name).map_err(|_| bad(()))?;
        let mut value = http::HeaderValue::try_from(value).map_err(|_| bad(()))?;
        value.set_sensitive(true);
        config.headers.append(header, value);
    }
    Ok(config)
}

fn switch(quirks: &mut mcp_proxy_core::Quirks, quirk: Quirk) -> &mut bool {
    match quirk {
        Quirk::AnySuccess => &mut quirks.any_success,
        Quirk::NullId => &mut quirks.null_id,
        Quirk::BlankLines => &mut quirks.blank_lines,
        Quirk::ByteOrderMark => &mut quirks.byte_order_mark,
        Quirk::PrettyJson => &mut quirks.pretty_json,
        Quirk::LineSeparators => &mut quirks.line_separators,
        Quirk::LateAnswers => &mut quirks.late_answers,
        Quirk::Cookies => &mut quirks.cookies,
        Quirk::SessionGone => &mut quirks.session_gone,
        Quirk::StrippedPrefix => &mut quirks.stripped_prefix,
    }
}

/// Prints a usage error on one line. WASI 0.2 has no exit codes except success and
/// failure; a host that distinguishes more checks the options itself.
fn refuse(reason: &str) -> ExitCode {
    log::line(&format!("mcp-proxy: {reason}"));
    ExitCode::from(2)
}
