//! `mcp-proxy`: reads the command line, sets the sandbox up, runs the component
//! in it, and exits with the component's exit code.

use std::{fs, io::Write, process::exit};

use host_runner::{
    component, engine,
    guest::{self, Guest},
    http::Http,
    note, signal,
    stdio::{Input, Output},
};
use mcp_proxy_options::{Command, Options, Shell, UsageError, parse};
use tokio::runtime;
use wasmtime::component::Component;

/// Many small, short-lived pieces per message: a seventh of the runner's time
/// with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: i32 = 2;

fn main() {
    let code = match command_line() {
        Ok(Command::Print(text)) => print(&text),
        Ok(Command::Run(options)) => start(&options),
        Err(error) => failed(&error.to_string(), USAGE),
    };
    // Leaves at once, even while a thread waits in a read of stdin.
    exit(code)
}

fn command_line() -> Result<Command, UsageError> {
    let args: Result<Vec<String>, _> = std::env::args_os().skip(1).map(|arg| arg.into_string()).collect();
    let args = args.map_err(|arg| {
        let arg = arg.to_string_lossy();
        UsageError::new(format!("`{arg}` is not valid UTF-8: write it in UTF-8"))
    })?;
    let mut command = parse(Shell::Native, args, &variable)?;
    if let Command::Run(options) = &mut command {
        read_header_files(options)?;
    }
    Ok(command)
}

fn read_header_files(options: &mut Options) -> Result<(), UsageError> {
    for path in options.host.header_files.clone() {
        let shown = path.display();
        let explain = |error: &dyn std::error::Error| UsageError::new(format!("--header-file {shown}: {error}"));
        let text = fs::read_to_string(&path).map_err(|error| explain(&error))?;
        let added = options.add_header_file(&text, &variable);
        added.map_err(|error| explain(&error))?;
    }
    Ok(())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn start(options: &Options) -> i32 {
    let http = match Http::new(options, &variable) {
        Ok(http) => http,
        Err(error) => return failed(&error.to_string(), USAGE),
    };
    let component = match engine::engine().map_err(|error| format!("{error:#}")) {
        Ok(engine) => component::load(&engine, options.host.component.as_deref()),
        Err(text) => Err(text),
    };
    let component = match component {
        Ok(component) => component,
        Err(text) => return failed(&text, guest::BROKEN),
    };
    match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run(component, options, http)),
        Err(error) => failed(&error.to_string(), guest::BROKEN),
    }
}

async fn run(component: Component, options: &Options, http: Http) -> i32 {
    let input = Input::new();
    let reader = input.clone();
    // A client that no longer reads has nothing more to ask.
    let output = Output::new(move || reader.close());
    tokio::spawn(signal::watch(input.clone(), options.drain_timeout));
    let guest = Guest::new(component, options, http, input, output.clone());
    // As a task like the others: between them and the runtime's main future
    // there is a system call at each turn.
    let code = tokio::spawn(guest.run()).await.unwrap_or(guest::BROKEN);
    output.drain().await;
    code
}

fn print(text: &str) -> i32 {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// One line, whatever the cause looks like.
fn failed(text: &str, code: i32) -> i32 {
    let words: Vec<&str> = text.split_whitespace().collect();
    note::line(&format!("mcp-proxy: {}", words.join(" ")));
    code
}
