//! `cargo xtask test`: runs everything, or the named parts. The runners' output stays
//! visible; the first failure ends the run.

use crate::step::{self, cargo, dist, root, say, target};
use crate::tools::{self, Speed};
use crate::{build, cases, component, security, worker};
use anyhow::{Result, bail};
use std::process::Command;

type Part = (&'static str, fn() -> Result<()>);

const PARTS: [Part; 12] = [
    ("lint", lint),
    ("core", core),
    ("sim", sim),
    ("fuzz", fuzz),
    ("host", host),
    ("wasm", wasm),
    ("component", built_component),
    ("engine", engine),
    ("e2e", e2e),
    ("worker", built_worker),
    ("chaos", chaos),
    ("examples", examples),
];

pub(crate) fn run(names: &[String]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        let known: Vec<_> = PARTS.iter().map(|(name, _)| *name).collect();
        bail!("no such part of the tests: {unknown}; there are {}", known.join(", "));
    }
    tools::targets()?;
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let parts: Vec<_> = PARTS.iter().filter(|(name, _)| wanted(name)).collect();
    if names.is_empty() {
        say("12 parts: about 20 minutes, and 40 the first time, when the tools are built");
    }
    for (at, (name, part)) in parts.iter().enumerate() {
        say(&format!("part {} of {}: test {name}", at + 1, parts.len()));
        part()?;
    }
    say("all passed");
    Ok(())
}

fn lint() -> Result<()> {
    cases::check()?;
    security::check()?;
    step::run("rustfmt", &mut cargo(&["fmt", "--all", "--check"]))?;
    let native = [
        "clippy",
        "--locked",
        "--workspace",
        "--exclude",
        "mcp-proxy-stdio",
        "--exclude",
        "mcp-proxy-engine",
        "--exclude",
        "host-runner",
        "--exclude",
        "embed-rust",
        "--exclude",
        "mcp-proxy-engine-tests",
        "--exclude",
        "mcp-proxy-worker",
        "--all-targets",
    ];
    step::run("clippy", cargo(&native).args(["--", "-D", "warnings"]))?;
    let guest = ["clippy", "--locked", "--target", "wasm32-wasip2", "--package", "mcp-proxy-stdio"];
    step::run("clippy for the component", cargo(&guest).args(["--", "-D", "warnings"]))?;
    let engine = ["clippy", "--locked", "--target", "wasm32-unknown-unknown", "--package", "mcp-proxy-engine"];
    step::run("clippy for the engine", cargo(&engine).args(["--", "-D", "warnings"]))?;
    let mut deny = Command::new(tools::cargo_deny()?);
    let checks = ["--locked", "check", "--show-stats", "bans", "licenses", "sources"];
    step::run("cargo deny", deny.args(checks).current_dir(root()))
}

fn core() -> Result<()> {
    let packages = ["--package", "mcp-proxy-core", "--package", "mcp-proxy-edge", "--package", "mcp-proxy-options"];
    step::run("core: tables, laws and paths", cargo(&["test", "--locked"]).args(packages))
}

fn sim() -> Result<()> {
    let arguments = ["test", "--locked", "--package", "mcp-proxy-sim", "--", "--nocapture"];
    step::run("simulator", &mut cargo(&arguments))
}

/// Runs the corpora of the fuzz targets, and inputs near them.
fn fuzz() -> Result<()> {
    let arguments = ["test", "--locked", "--package", "mcp-proxy-fuzz", "--", "--nocapture"];
    step::run("fuzz targets, without a fuzzer", &mut cargo(&arguments))
}

/// Runs the runner's own tests, built like the tool that compiles for it.
fn host() -> Result<()> {
    build::local()?;
    let features = ["--profile", "tool", "--features", "compile", "--locked", "--package", "host-runner"];
    step::run("native runner", cargo(&["test"]).args(features))?;
    let lint = ["--all-targets", "--", "-D", "warnings"];
    step::run("clippy for the runner", cargo(&["clippy"]).args(features).args(lint))
}

/// Runs the core's tests again, inside a wasm runtime.
fn wasm() -> Result<()> {
    let wasmtime = tools::wasmtime(Speed::ToBuild)?;
    let arguments = ["test", "--locked", "--package", "mcp-proxy-core", "--target", "wasm32-wasip2"];
    let runner = format!("{} run --dir .", wasmtime.display());
    step::run("core inside wasmtime", cargo(&arguments).env("CARGO_TARGET_WASM32_WASIP2_RUNNER", runner))
}

/// Checks what the artefacts may access.
fn built_component() -> Result<()> {
    if !dist().join("mcp-proxy.wasm").exists() {
        build::component()?;
    }
    component::check_stdio()?;
    build::engine()?;
    component::check_engine()?;
    let arguments = ["build", "--profile", "guest", "--locked", "--package", "mcp-proxy-core", "--example", "module"];
    step::run("the core as a module", cargo(&arguments).args(["--target", "wasm32-unknown-unknown"]))?;
    component::check_no_imports(&target().join("wasm32-unknown-unknown/guest/examples/module.wasm"))
}

/// Tests the engine in foreign hosts: against the native core, with absurd facts, and in
/// the examples. Builds it like the runner's compiler, which needs the same parts of
/// wasmtime.
fn engine() -> Result<()> {
    build::engine()?;
    component::check_engine()?;
    tools::npm_packages("tests/e2e")?;
    let packages = ["--profile", "tool", "--locked", "--package", "mcp-proxy-engine-tests", "--package", "embed-rust"];
    let visible = ["--", "--nocapture", "--test-threads", "1"];
    step::run("the engine and its Rust host", cargo(&["test"]).args(packages).args(visible))?;
    if let Some(python) = tools::python_packages("python-wasmtime", "examples/embed-python/requirements.txt")? {
        let host = format!("{}\n{}", python.display(), root().join("examples/embed-python/host.py").display());
        let session = ["--test", "session"];
        let mut test = cargo(&["test"]);
        step::run("the Python host", test.args(packages).args(session).args(visible).env("EMBED_HOST", host))?;
    }
    let lint = ["--all-targets", "--", "-D", "warnings"];
    step::run("clippy for the engine's hosts", cargo(&["clippy"]).args(packages).args(lint))
}

/// Tests both shells with real clients, servers and browsers; the tests with a browser
/// skip themselves without one.
fn e2e() -> Result<()> {
    build::local()?;
    build::crash()?;
    tools::chromium()?;
    let wasmtime = tools::wasmtime(Speed::ToBuild)?;
    step::run("end to end", suite()?.env("WASMTIME", wasmtime))
}

/// Tests the Worker on a real workerd with the same peers, and its page in a browser; the
/// page tests skip themselves without one.
fn built_worker() -> Result<()> {
    worker::build()?;
    tools::chromium()?;
    worker::build_crash()?;
    let lint = ["clippy", "--locked", "--target", "wasm32-unknown-unknown", "--package", "mcp-proxy-worker"];
    step::run("clippy for the Worker", cargo(&lint).args(["--", "-D", "warnings"]))?;
    step::run("the Worker end to end", suite()?.arg("worker"))
}

/// Runs seeded faults on real processes, of the shells and of the Worker.
fn chaos() -> Result<()> {
    build::local()?;
    worker::build()?;
    worker::build_crash()?;
    let wasmtime = tools::wasmtime(Speed::ToBuild)?;
    step::run("chaos", suite()?.arg("chaos").env("WASMTIME", wasmtime))
}

/// The runner of `tests/e2e`, with everything it needs.
fn suite() -> Result<Command> {
    tools::npm_packages("tests/e2e")?;
    let mut command = Command::new("node");
    command.arg("run.mjs").current_dir(root().join("tests/e2e")).env("MCP_PROXY_DIST", dist());
    if let Some(python) = tools::python_packages("python-mcp", "tests/fixtures/python/requirements.txt")? {
        command.env("MCP_PROXY_PYTHON", python);
    }
    if let Some(python) = tools::python_packages("python-mcp-2", "tests/fixtures/python2/requirements.txt")? {
        command.env("MCP_PROXY_PYTHON2", python);
    }
    Ok(command)
}

/// Tests hosts that embed the engine, with real peers.
fn examples() -> Result<()> {
    build::engine()?;
    let folders = ["examples/embed-js", "examples/embed-browser"];
    for folder in ["tests/e2e"].iter().chain(&folders) {
        tools::npm_packages(folder)?;
    }
    let [node, browser] = folders.map(|folder| root().join(folder));
    step::run("transpile the engine", npm("transpile").current_dir(&node))?;
    step::run("the engine in Node.js", npm("test").current_dir(&node))?;
    if !tools::chromium()? {
        return Ok(());
    }
    step::run("the engine in a browser", npm("test").current_dir(&browser))
}

fn npm(script: &str) -> Command {
    let mut command = Command::new("npm");
    command.args(["run", "--silent", script]);
    command
}
