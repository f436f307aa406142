//! Soaks: one long load on one real process each, to see whether it stays as it
//! was. At every tenth of the way the process is measured from outside, and a
//! Worker's isolate also from inside. At the end its memory may be a tenth more
//! than at the first of these readings, and every answer must have come, once and
//! right. The harness keeps no history of calls, so that it does not grow either,
//! and its own memory stands beside the process's.
//!
//! * `lines`  – a proxy on stdio, line by line, with bounded buffers
//! * `ledger` – which ids are open, and whether an answer is right
//! * `gauge`  – the readings and the verdict on memory
//! * `inspector` – the live memory of a Worker
//! * `server` – the mock as a child
//! * `page`   – the report as Markdown
//! * `calls`, `events`, `reconnects`, `sessions`, `open`, `worker` – the loads
pub mod calls;
pub mod events;
pub mod gauge;
pub mod inspector;
pub mod ledger;
pub mod lines;
pub mod open;
pub mod page;
pub mod reconnects;
pub mod server;
pub mod sessions;
pub mod worker;

use page::Report;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

/// What can be run: name, units at full size, what a unit is.
pub const SOAKS: [(&str, u64, &str); 13] = [
    ("native-calls", 10_000_000, "call"),
    ("wasmtime-calls", 2_000_000, "call"),
    ("native-events", 10_000_000, "event"),
    ("wasmtime-events", 2_000_000, "event"),
    ("native-listening", 10_000_000, "event"),
    ("native-reconnects", 100_000, "reconnect"),
    ("wasmtime-reconnects", 20_000, "reconnect"),
    ("native-sessions", 100_000, "session"),
    ("worker-calls", 200_000, "call"),
    ("worker-sessions", 20_000, "session"),
    ("native-open", 1_000, "call"),
    ("wasmtime-open", 1_000, "call"),
    ("bare-open", 1_000, "call"),
];

/// Names that stand for several.
pub const GROUPS: [(&str, &[&str]); 1] = [("open-calls", &["native-open", "wasmtime-open", "bare-open"])];

/// Nothing that a soak waits for takes this long, unless something hangs.
pub const STALL: Duration = Duration::from_secs(60);

/// Where everything is, and how much of it is wanted.
#[derive(Clone)]
pub struct Setup {
    /// Holds `mcp-proxy` and `mcp-proxy.wasm`.
    pub dist: PathBuf,
    pub wasmtime: PathBuf,
    /// What `worker.mjs` has written.
    pub worker: PathBuf,
    pub logs: PathBuf,
    pub scale: f64,
    /// Instead of the full size times the scale.
    pub units: Option<u64>,
    pub inflight: Option<usize>,
    /// How many calls are open in `open-calls`.
    pub open: Vec<usize>,
    pub limit: Duration,
}

/// The proxy on stdio, in two shells, and a bare bridge to compare it with.
#[derive(Clone, Copy, PartialEq)]
pub enum Shell {
    Native,
    Wasmtime,
    /// `base-reqwest`, which does nothing but relay.
    Bare,
}

impl Setup {
    /// How many units of a soak of this full size to run: at least ten, one for each reading.
    pub fn size(&self, full: u64) -> u64 {
        self.units.unwrap_or((full as f64 * self.scale) as u64).max(10)
    }

    pub fn command(&self, shell: Shell, url: &str) -> Vec<String> {
        let component = self.dist.join("mcp-proxy.wasm").display().to_string();
        match shell {
            Shell::Native => vec![self.dist.join("mcp-proxy").display().to_string(), url.into()],
            Shell::Wasmtime => {
                let wasmtime = self.wasmtime.display().to_string();
                [&wasmtime, "run", "-S", "http", &component, url].map(str::to_owned).to_vec()
            }
            Shell::Bare => vec![beside_us("base-reqwest").display().to_string(), url.into()],
        }
    }

    /// Lets wasmtime compile the component into its cache, so that no soak has a compiler's memory in it.
    async fn prepare(&self, shell: Shell) -> Result<(), String> {
        if shell != Shell::Wasmtime {
            return Ok(());
        }
        let command = self.command(shell, "--version");
        let mut once = tokio::process::Command::new(&command[0]);
        once.args(&command[1..]).stdout(Stdio::null()).kill_on_drop(true);
        match once.status().await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{} {status}", command.join(" "))),
            Err(error) => Err(format!("{}: {error}", command[0])),
        }
    }

    pub fn log(&self, name: &str) -> String {
        self.logs.join(format!("{name}.err")).display().to_string()
    }
}

/// What a soak has to find out, and how much of it.
pub struct Task<'a> {
    pub setup: &'a Setup,
    pub name: &'static str,
    pub units: u64,
    pub unit: &'static str,
}

impl Task<'_> {
    fn shell(&self) -> Shell {
        match self.name.split('-').next() {
            Some("wasmtime") => Shell::Wasmtime,
            Some("bare") => Shell::Bare,
            _ => Shell::Native,
        }
    }

    /// How many of the units belong to the tenth with this number (from 0).
    pub fn tenth(&self, number: u64) -> u64 {
        self.units * (number + 1) / 10 - self.units * number / 10
    }
}

/// A program of the harness, in the folder of this one.
fn beside_us(name: &str) -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name(name)
}

/// Runs one soak within the limit of time. What it started ends with it.
pub async fn run(setup: &Setup, name: &'static str) -> Report {
    let Some((_, full, unit)) = SOAKS.iter().find(|(soak, ..)| *soak == name) else {
        return Report::failed(name, "no such soak");
    };
    let task = Task { setup, name, units: setup.size(*full), unit };
    match tokio::time::timeout(setup.limit, load(&task)).await {
        Ok(Ok(report)) => report,
        Ok(Err(why)) => Report::failed(name, &why),
        Err(_) => Report::failed(name, &format!("not over within {} minutes", setup.limit.as_secs() / 60)),
    }
}

async fn load(task: &Task<'_>) -> Result<Report, String> {
    task.setup.prepare(task.shell()).await?;
    match task.name {
        "native-calls" | "wasmtime-calls" => calls::run(task, task.shell()).await,
        "native-events" | "wasmtime-events" => events::run(task, task.shell(), events::On::Call).await,
        "native-listening" => events::run(task, task.shell(), events::On::Listening).await,
        "native-reconnects" | "wasmtime-reconnects" => reconnects::run(task, task.shell()).await,
        "native-sessions" => sessions::run(task).await,
        "worker-calls" => worker::calls(task).await,
        "worker-sessions" => worker::sessions(task).await,
        _ => open::run(task, task.shell()).await,
    }
}
