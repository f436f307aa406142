//! The Cloudflare Worker: `dist/worker/`, as worker-build writes it. The tools
//! that worker-build would fetch from the internet are found here instead: the
//! npm packages of the repository bring two, cargo the third.

use crate::step::{self, compressed, dist, root, say, target};
use crate::tools;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Fits the crate `worker` that `worker/Cargo.toml` names.
const WORKER_BUILD: &str = "0.8.7";
/// What may be uploaded is three times as much; below this nobody has to think.
const MAX_COMPRESSED: usize = 1_000_000;

/// Builds `dist/worker/`.
pub(crate) fn build() -> Result<()> {
    // A developer who waits for `wrangler dev` gains nothing from fewer bytes.
    let is_tried = std::env::var_os("WRANGLER_COMMAND").is_some_and(|command| command == "dev");
    build_into("worker", if is_tried { &["--no-opt"] } else { &[] }, &[])?;
    check_size(&dist().join("worker"))
}

/// Builds `dist/worker-crash/`, which panics when a test tells it to.
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
    // On Windows scripts cannot be started; worker-build then helps itself.
    if !cfg!(windows) {
        command.env("ESBUILD_BIN", node_program("esbuild")).env("WASM_OPT_BIN", node_program("wasm-opt"));
    }
    step::run("build the Worker", &mut command)
}

/// The npm packages of the repository. Wrangler, which is one of them, may be
/// what runs us: then they stay as they are.
fn node_packages() -> Result<()> {
    if std::env::var_os("WRANGLER_COMMAND").is_none() {
        return tools::npm_packages("");
    }
    let is_there = ["esbuild", "wasm-opt"].iter().all(|name| node_program(name).exists());
    ensure!(is_there, "esbuild or wasm-opt is missing: npm ci");
    Ok(())
}

fn node_program(name: &str) -> std::path::PathBuf {
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

/// Says what is uploaded, and insists that it stays small.
fn check_size(folder: &Path) -> Result<()> {
    let (mut size, mut packed) = (0, 0);
    for name in ["index.js", "index_bg.wasm"] {
        let bytes = std::fs::read(folder.join(name)).with_context(|| format!("no dist/worker/{name}"))?;
        size += bytes.len();
        packed += compressed(&bytes)?;
    }
    say(&format!("dist/worker: {} KB, {} KB compressed", size / 1000, packed / 1000));
    ensure!(packed <= MAX_COMPRESSED, "the Worker is too big: {packed} bytes compressed");
    Ok(())
}
