//! `mcp-proxy`: parses the command line, sets up the sandbox, runs the component in it,
//! and exits with the component's exit code.

use std::{fs, path::Path, process::exit};

use host_runner::{
    command::{self, USAGE, failed},
    component, doctor, engine,
    guest::{self, Ended, Guest, context},
    http::{Http, Offline},
    note,
    record::Recording,
    runner,
    stdio::{Output, Stderr},
};
use mcp_proxy_options::{Command, Doctor, Options, Replay, Shell, UsageError, parse};
use tokio::runtime;
use wasmtime::component::Component;
use wasmtime_wasi::cli::InputFile;

/// A message causes many small, short-lived allocations; the system's allocator would
/// take a seventh of the runner's time. Huge pages are off, since they would double its
/// memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let code = match command_line() {
        Ok(Command::Print(text)) => command::print(text.as_bytes()),
        Ok(Command::Run(options)) => start(&options),
        Ok(Command::Replay(options)) => replay(&options),
        Ok(Command::Help(spec)) => command::help(spec),
        Ok(Command::Login(options)) => command::login(&options, &variable),
        Ok(Command::Logout(options)) => command::logout(&options, &variable),
        Ok(Command::AuthStatus { json }) => command::status(json, &variable),
        Ok(Command::AuthToken(options)) => command::token(&options, &variable),
        Ok(Command::Doctor(doctor)) => examine(&doctor),
        Ok(Command::Config(config)) => command::config(&config),
        Ok(Command::Completions(shell)) => command::completions(shell),
        Ok(Command::Man(spec)) => command::man(spec),
        Err(error) => failed(&error.to_string(), USAGE),
    };
    note::drain();
    // Exits at once, even while a thread is blocked reading stdin.
    exit(code)
}

fn command_line() -> Result<Command, UsageError> {
    let args: Result<Vec<String>, _> = std::env::args_os().skip(1).map(|arg| arg.into_string()).collect();
    let args = args.map_err(|arg| {
        let arg = arg.to_string_lossy();
        UsageError::new(format!("`{arg}` is not valid UTF-8: write it in UTF-8"))
    })?;
    let mut command = parse(Shell::Native, args, &variable)?;
    options_of(&mut command).map_or(Ok(()), read_header_files)?;
    Ok(command)
}

/// The options of a command that speaks to the server.
fn options_of(command: &mut Command) -> Option<&mut Options> {
    match command {
        Command::Run(options) | Command::Login(options) | Command::Logout(options) | Command::AuthToken(options) => {
            Some(options)
        }
        Command::Doctor(doctor) => Some(&mut doctor.options),
        Command::Replay(_)
        | Command::Print(_)
        | Command::Help(_)
        | Command::AuthStatus { .. }
        | Command::Config(_)
        | Command::Completions(_)
        | Command::Man(_) => None,
    }
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
    let recording = match options.host.record.as_deref().map(|path| record(path, &http)).transpose() {
        Ok(recording) => recording,
        Err(error) => return failed(&error.to_string(), USAGE),
    };
    enter(options.host.component.as_deref(), |component| runner::run(component, options, http, recording))
}

fn examine(doctor: &Doctor) -> i32 {
    let given = doctor.options.host.component.as_deref();
    enter(given, |component| doctor::run(doctor, component, &variable))
}

fn record(path: &Path, http: &Http) -> Result<Recording, UsageError> {
    Recording::new(path, http.mask()).map_err(|error| UsageError::new(format!("--record {}: {error}", path.display())))
}

/// Replays a recording: the component alone, with the file as its stdin.
fn replay(options: &Replay) -> i32 {
    let path = options.file.clone().unwrap_or_default();
    let file = match fs::File::open(&path) {
        Ok(file) => file,
        Err(error) => return failed(&format!("replay {}: {error}", path.display()), USAGE),
    };
    enter(options.component.as_deref(), |component| async {
        let output = Output::new(|| ());
        let stderr = Stderr::new(None, None, None);
        let wasi = context(&options.guest_args(), &[], InputFile::new(file), output.clone(), stderr);
        let finished = Guest::new(component, wasi, Box::new(Offline)).run().await;
        output.drain().await;
        match finished.ended {
            Ended::Exited(code) => code,
            Ended::Broke(cause) => failed(&format!("the component broke: {cause}"), guest::BROKEN),
        }
    })
}

/// Loads the component and runs `task` with it inside the runtime.
fn enter<F: Future<Output = i32>>(given: Option<&Path>, task: impl FnOnce(Component) -> F) -> i32 {
    let component = match engine::engine().map_err(|error| format!("{error:#}")) {
        Ok(engine) => component::load(&engine, given),
        Err(text) => Err(text),
    };
    let component = match component {
        Ok(component) => component,
        // A broken embedded component is our fault; a broken named one is the user's.
        Err(text) => return failed(&text, if given.is_some() { USAGE } else { guest::BROKEN }),
    };
    match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(task(component)),
        Err(error) => failed(&error.to_string(), guest::BROKEN),
    }
}
