//! `cargo xtask bench`: builds the harness of `bench/` and the Worker, installs the
//! available peers, measures, and writes `bench/RESULTS.md`.
//!
//! Everything but the report is in the cache, outside the clone. A peer that cannot be
//! installed is skipped without an error: this is a benchmark, not a test. `bench/`
//! decides how to measure and what to print.

use crate::step::{cache, cargo, dist, output, root, run as step, say};
use crate::{tools, worker};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The peers from npm, all in one folder.
const NPM: [(&str, &str); 3] = [("mcp-remote", "0.15.1"), ("supergateway", "4.0.0"), ("mcp-proxy", "6.7.19")];
const PYTHON_MCP_PROXY: &str = "0.13.0";
/// The default for `--kind`: a bridge for stdio clients, and fronts for servers that
/// speak HTTP+SSE.
const KINDS: &str = "stdio-http,front-sse";

/// Measures in quick mode, or with `--full` all phases and peers. Passes further
/// arguments to `matrix.py run` and then only shows the report, because the run is
/// partial.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let full = arguments.iter().any(|argument| argument == "--full");
    let mode = if full { "full" } else { "quick" };
    let further: Vec<_> = arguments.iter().filter(|argument| *argument != "--full").collect();
    for artefact in ["mcp-proxy", "mcp-proxy.wasm"] {
        if !dist().join(artefact).exists() {
            bail!("dist/{artefact} is not there: run `cargo xtask build` first");
        }
    }
    let kinds = further.iter().skip_while(|argument| **argument != "--kind").nth(1);
    let kinds = kinds.map_or(KINDS, |kinds| kinds.as_str());
    if kinds.contains("front") {
        worker::build()?;
        tools::npm_packages("tests/e2e")?;
    }
    let places = Places::new()?;
    let python = python()?;
    step("build the harness", &mut places.harness())?;
    npm_peers(&places.peers);
    python_mcp_proxy(&python, &places.peers);
    let results = places.work.join(format!("{mode}.jsonl"));
    std::fs::remove_file(&results).ok();
    let mut measure = places.matrix(&python, &results)?;
    step(&format!("measure ({mode})"), measure.args(["--mode", mode, "--kind", kinds]).args(&further))?;
    if further.is_empty() { report(&python, &results) } else { step("report", &mut matrix_report(&python, &results)) }
}

/// Folders in the cache.
pub(crate) struct Places {
    pub(crate) target: PathBuf,
    peers: PathBuf,
    pub(crate) work: PathBuf,
}

impl Places {
    pub(crate) fn new() -> Result<Self> {
        let cache = cache()?;
        let places =
            Self { target: cache.join("bench-target"), peers: cache.join("peers"), work: cache.join("bench-work") };
        for folder in [&places.peers, &places.work] {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(places)
    }

    fn harness(&self) -> Command {
        let mut build = cargo(&["build", "--release", "--locked"]);
        build.current_dir(root().join("bench")).env("CARGO_TARGET_DIR", &self.target);
        build
    }

    /// `matrix.py run` with all paths.
    fn matrix(&self, python: &str, results: &Path) -> Result<Command> {
        let mut measure = Command::new(python);
        measure.arg(root().join("bench/matrix.py")).arg("run").arg("--out").arg(results);
        measure.arg("--bin").arg(self.target.join("release")).arg("--dist").arg(dist());
        measure.arg("--peers-dir").arg(&self.peers).arg("--work").arg(&self.work);
        measure.env("WASMTIME", wasmtime()?).env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(measure)
    }
}

/// The stock wasmtime, or a name that does not exist, so that the report skips its rows.
fn wasmtime() -> Result<OsString> {
    match tools::wasmtime(tools::Speed::ToRun) {
        Ok(path) => Ok(path.into_os_string()),
        Err(error) => {
            say(&format!("no stock wasmtime, going on without: {error:#}"));
            Ok(cache()?.join("tools/none").into_os_string())
        }
    }
}

fn python() -> Result<String> {
    let found = ["python3", "python"].into_iter().find(|name| {
        output(Command::new(name).args(["-c", "import sys; print(sys.version_info[0])"])).as_deref() == Some("3")
    });
    found.map(str::to_owned).context("Python 3 is missing: bench/matrix.py needs it (standard library only)")
}

fn npm_peers(peers: &Path) {
    let folder = peers.join("npm");
    let is_there = |(name, version): &(&str, &str)| {
        let manifest = std::fs::read_to_string(folder.join("node_modules").join(name).join("package.json"));
        manifest.is_ok_and(|manifest| manifest.contains(&format!("\"version\": \"{version}\"")))
    };
    if NPM.iter().all(is_there) {
        return;
    }
    let mut install = Command::new("npm");
    install.args(["install", "--save-exact", "--ignore-scripts", "--no-fund", "--no-audit", "--no-progress"]);
    install.args(["--fetch-retries", "1", "--fetch-timeout", "30000", "--prefix"]).arg(&folder);
    let names = NPM.map(|(name, _)| name).join(", ");
    best_effort(&names, &mut [install.args(NPM.map(|(name, version)| format!("{name}@{version}")))]);
}

fn python_mcp_proxy(python: &str, peers: &Path) {
    let folder = peers.join("py");
    let version = output(Command::new(folder.join("bin/mcp-proxy")).arg("--version")).unwrap_or_default();
    if version.split_whitespace().last() == Some(PYTHON_MCP_PROXY) {
        return;
    }
    let mut environment = Command::new(python);
    let mut install = Command::new(folder.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "30"]);
    best_effort(
        "Python mcp-proxy",
        &mut [environment.args(["-m", "venv"]).arg(&folder), install.arg(format!("mcp-proxy=={PYTHON_MCP_PROXY}"))],
    );
}

/// Installs a peer. On failure, says so and continues without it.
fn best_effort(peer: &str, commands: &mut [&mut Command]) {
    for command in commands {
        if let Err(error) = step(&format!("install {peer}"), command) {
            return say(&format!("{peer} cannot be installed, going on without: {error:#}"));
        }
    }
}

fn matrix_report(python: &str, results: &Path) -> Command {
    let mut write = Command::new(python);
    write.arg(root().join("bench/matrix.py")).arg("report").arg(results).env("PYTHONDONTWRITEBYTECODE", "1");
    write
}

/// Writes the page and shows its verdicts.
fn report(python: &str, results: &Path) -> Result<()> {
    let page = root().join("bench/RESULTS.md");
    step("write bench/RESULTS.md", matrix_report(python, results).arg("--out").arg(&page))?;
    let text = std::fs::read_to_string(&page)?;
    for line in text.lines().filter(|line| line.ends_with("pass |") || line.ends_with("fail** |")) {
        say(line.trim_matches(['|', ' ']));
    }
    Ok(())
}
