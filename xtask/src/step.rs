//! Running commands: each is announced, its output stays visible, and its
//! failure names it.

#![expect(clippy::print_stderr, reason = "a command-line tool talks to its user")]

use anyhow::{Context, Result, bail};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The repository. Cargo tells at run time; a path from compile time would name
/// another clone when clones share a target folder.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("xtask"), PathBuf::from);
    package.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Where finished artefacts go.
pub(crate) fn dist() -> PathBuf {
    root().join("dist")
}

/// Where tools live that outlast a clone.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let home = || {
        std::env::var_os("HOME")
            .or_else(|| std::env::var_os("USERPROFILE"))
            .map(|home| PathBuf::from(home).join(".cache"))
    };
    Ok(base.or_else(home).context("neither XDG_CACHE_HOME nor HOME is set")?.join("mcp-proxy"))
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Cargo, in the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Announces a step.
pub(crate) fn say(text: &str) {
    eprintln!("\x1b[1m▸ {text}\x1b[0m");
}

/// Announces a command, runs it and insists on its success.
pub(crate) fn run(title: &str, command: &mut Command) -> Result<()> {
    say(title);
    let start = Instant::now();
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{title}: cannot start {name}"))?;
    if !status.success() {
        bail!("{title}: {name} failed ({status})");
    }
    eprintln!("  {title}: done in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// What a command prints, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// How many bytes this takes with gzip.
pub(crate) fn compressed(bytes: &[u8]) -> Result<usize> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes)?;
    Ok(packed.finish()?.len())
}

/// Reports why the run ends.
pub(crate) fn complain(error: &anyhow::Error) {
    eprintln!("\x1b[1mxtask: {error:#}\x1b[0m");
}
