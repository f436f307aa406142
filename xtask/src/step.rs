//! Runs commands: announces each one, keeps its output visible, and names it on failure.
//! Also knows the folders of the repository. The choice of commands does not belong here.

#![expect(clippy::print_stderr, reason = "a command-line tool talks to its user")]

use anyhow::{Context, Result, bail};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The repository. Cargo sets its path at run time; a path from compile time would name
/// another clone if clones share a target folder.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("xtask"), PathBuf::from);
    package.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// The folder for finished artefacts.
pub(crate) fn dist() -> PathBuf {
    root().join("dist")
}

/// The folder for tools that outlive a clone.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let home = || {
        std::env::var_os("HOME")
            .or_else(|| std::env::var_os("USERPROFILE"))
            .map(|home| PathBuf::from(home).join(".cache"))
    };
    Ok(base.or_else(home).context("neither XDG_CACHE_HOME nor HOME is set")?.join("mcp-proxy"))
}

/// Cargo's build folder.
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

/// Announces a command, runs it and fails unless it succeeds.
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

/// The output of a command, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The size of the bytes after gzip.
pub(crate) fn compressed(bytes: &[u8]) -> Result<usize> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes)?;
    Ok(packed.finish()?.len())
}

/// Reports why the run failed.
pub(crate) fn complain(error: &anyhow::Error) {
    eprintln!("\x1b[1mxtask: {error:#}\x1b[0m");
}
