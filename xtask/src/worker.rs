//! The Cloudflare Worker: `dist/worker/`, as worker-build writes it, plus the platform's
//! entry point. worker-build would download three tools; this module provides them
//! instead: two from the repository's npm packages, the third through cargo. `cargo xtask
//! worker dev` runs the Worker in front of the demo's server.

#![expect(clippy::print_stdout, reason = "what wrangler says is passed on")]

use crate::demo::{Server, Transcript};
use crate::step::{self, compressed, dist, root, say, target};
use crate::tools;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};

/// Must match the crate `worker` in `worker/Cargo.toml`.
const WORKER_BUILD: &str = "0.8.7";
/// The entry point, and the file that it needs besides the output of worker-build.
const OWN: [&str; 2] = ["main.js", "client.js"];
/// The upload limit is three times as much; below this size it needs no attention.
const MAX_COMPRESSED: usize = 1_000_000;

/// Keeps wrangler from using the internet and the terminal without need.
const QUIET: [(&str, &str); 5] = [
    ("CI", "1"),
    ("CLOUDFLARE_CF_FETCH_ENABLED", "false"),
    ("WRANGLER_HIDE_BANNER", "true"),
    ("WRANGLER_SEND_ERROR_REPORTS", "false"),
    ("WRANGLER_SEND_METRICS", "false"),
];
/// Wrangler's default port.
const USUAL_PORT: u16 = 8787;

/// Builds `dist/worker/`.
pub(crate) fn build() -> Result<()> {
    // A developer who waits for `wrangler dev` gains nothing from a smaller build.
    let is_tried = std::env::var_os("WRANGLER_COMMAND").is_some_and(|command| command == "dev");
    build_into("worker", if is_tried { &["--no-opt"] } else { &[] }, &[])?;
    check_size(&dist().join("worker"))
}

/// Builds `dist/worker-crash/`, which panics on a test's command.
pub(crate) fn build_crash() -> Result<()> {
    build_into("worker-crash", &["--no-opt"], &["--features", "crash"])
}

fn build_into(folder: &str, options: &[&str], features: &[&str]) -> Result<()> {
    tools::targets()?;
    node_packages()?;
    let mut command = Command::new(tools::worker_build(WORKER_BUILD)?);
    command.arg("worker").args(["--profile", "worker", "--out-dir"]).arg(dist().join(folder)).args(options);
    command.args(["--", "--locked"]).args(features).current_dir(root());
    command.env("CARGO_TARGET_DIR", root().join(target()));
    command.env("WASM_BINDGEN_BIN", tools::wasm_bindgen(&locked_version("wasm-bindgen")?)?);
    // Windows cannot start scripts; worker-build then finds the tools itself.
    if !cfg!(windows) {
        command.env("ESBUILD_BIN", node_program("esbuild")).env("WASM_OPT_BIN", node_program("wasm-opt"));
    }
    step::run("build the Worker", &mut command)?;
    for name in OWN {
        let source = root().join("worker/src").join(name);
        let copied = std::fs::copy(&source, dist().join(folder).join(name));
        copied.with_context(|| format!("cannot copy {}", source.display()))?;
    }
    Ok(())
}

/// Installs the repository's npm packages. If wrangler, which is one of them, started
/// this build, they stay unchanged.
fn node_packages() -> Result<()> {
    if std::env::var_os("WRANGLER_COMMAND").is_none() {
        return tools::npm_packages("");
    }
    let is_there = ["esbuild", "wasm-opt"].iter().all(|name| node_program(name).exists());
    ensure!(is_there, "esbuild or wasm-opt is missing: npm ci");
    Ok(())
}

fn node_program(name: &str) -> PathBuf {
    root().join("node_modules/.bin").join(name)
}

/// The version of a package in `Cargo.lock`.
fn locked_version(package: &str) -> Result<String> {
    let lock = std::fs::read_to_string(root().join("Cargo.lock"))?;
    let name = format!("name = \"{package}\"");
    let line = lock.lines().skip_while(|line| *line != name).nth(1);
    let version = line.and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    Ok(version.with_context(|| format!("no {package} in Cargo.lock"))?.to_owned())
}

/// Reports the upload size and requires that it stays small.
fn check_size(folder: &Path) -> Result<()> {
    let (mut size, mut packed) = (0, 0);
    for name in OWN.into_iter().chain(["index.js", "index_bg.wasm"]) {
        let bytes = std::fs::read(folder.join(name)).with_context(|| format!("no dist/worker/{name}"))?;
        size += bytes.len();
        packed += compressed(&bytes)?;
    }
    say(&format!("dist/worker: {} KB, {} KB compressed", size / 1000, packed / 1000));
    ensure!(packed <= MAX_COMPRESSED, "the Worker is too big: {packed} bytes compressed");
    Ok(())
}

/// `cargo xtask worker dev`.
pub(crate) fn run(words: &[String]) -> Result<()> {
    match words {
        [word] if word == "dev" => dev(),
        _ => bail!("there is one thing to do with the Worker: cargo xtask worker dev"),
    }
}

/// Why the Worker stops.
enum Over {
    Asked,
    Ended,
}

/// Runs the Worker in front of the demo's server until Ctrl-C. Wrangler builds it, and
/// rebuilds it when its sources change.
fn dev() -> Result<()> {
    tools::npm_packages("")?;
    let (sender, over) = channel();
    let asked = sender.clone();
    ctrlc::set_handler(move || drop(asked.send(Over::Asked)))?;
    let (transcript, printer) = Transcript::start();
    let server = Server::start(transcript)?;
    let mut wrangler = wrangler(&server.sse_url(), sender)?;
    let over = over.recv()?;
    if matches!(over, Over::Asked) {
        ask_to_stop(&wrangler)?;
    }
    let status = wrangler.wait()?;
    server.stop();
    drop((server, printer));
    ensure!(matches!(over, Over::Asked), "wrangler ended by itself ({status})");
    Ok(())
}

/// Starts wrangler; reports when it is ready, and when it has ended.
fn wrangler(server: &str, sender: Sender<Over>) -> Result<Child> {
    let port = free_port(USUAL_PORT).or_else(|_| free_port(0))?.to_string();
    // The state of an earlier run belongs to servers that are gone.
    let state = target().join("worker-dev");
    std::fs::remove_dir_all(&state).ok();
    let mut command = Command::new("node");
    command.arg("node_modules/wrangler/bin/wrangler.js");
    command.args(["dev", "--ip", "127.0.0.1", "--port", &port, "--inspector-port", "0", "--persist-to"]).arg(state);
    command.args([
        "--var",
        "ALLOW_HTTP:1",
        "--var",
        "ALLOWED_HOSTS:localhost,127.0.0.1",
        "--var",
        "PUBLIC:1",
        "--var",
        &format!("UPSTREAM_URL:{server}"),
    ]);
    say(&format!("wrangler dev, in front of {server}"));
    let mut wrangler = command.envs(QUIET).current_dir(root()).stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(wrangler.stdout.take().context("no stdout")?).lines();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            println!("{line}");
            if line.contains("Ready on ") {
                say(&format!("the Worker: http://127.0.0.1:{port}/mcp (Ctrl-C ends it)"));
            }
        }
        drop(sender.send(Over::Ended));
    });
    Ok(wrangler)
}

/// Asks wrangler and its children to stop.
fn ask_to_stop(wrangler: &Child) -> Result<()> {
    let id = wrangler.id().to_string();
    let (program, words) = if cfg!(windows) { ("taskkill", "/T /F /PID") } else { ("kill", "-TERM") };
    let mut command = Command::new(program);
    command.args(words.split(' ')).arg(id);
    // After Ctrl-C, wrangler may already be gone.
    command.stderr(Stdio::null()).stdout(Stdio::null()).status()?;
    Ok(())
}

fn free_port(wanted: u16) -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", wanted))?.local_addr()?.port())
}
