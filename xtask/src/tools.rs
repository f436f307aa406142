//! The tools that the steps need, and how to install missing ones. They go to a cache
//! outside the clone, which may be deleted at any time.

use crate::step::{cache, cargo, output, root, run, say};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The wasmtime version for all builds and tests.
pub(crate) const WASMTIME: &str = "48.0.8";
/// The features in use; the default ones take twice as long to build.
const WASMTIME_FEATURES: &str =
    "run,compile,cranelift,wasi-http,component-model,cache,pooling-allocator,parallel-compilation";

/// Installs the compilation targets of the guests.
pub(crate) fn targets() -> Result<()> {
    let wanted = ["wasm32-wasip2", "wasm32-unknown-unknown"];
    let Some(installed) = output(Command::new("rustup").args(["target", "list", "--installed"]).current_dir(root()))
    else {
        bail!("rustup is missing: the guests need the Rust targets {} (https://rustup.rs)", wanted.join(" and "));
    };
    if wanted.iter().all(|target| installed.lines().any(|line| line == *target)) {
        return Ok(());
    }
    run("rustup: add the wasm targets", Command::new("rustup").args(["target", "add"]).args(wanted).current_dir(root()))
}

/// A stock wasmtime of the pinned version: from `WASMTIME`, `PATH`, the cache, or built
/// from source.
pub(crate) fn wasmtime(speed: Speed) -> Result<PathBuf> {
    let given = std::env::var_os("WASMTIME").map(PathBuf::from);
    if let Some(given) = given.filter(|given| is_version(given, WASMTIME)) {
        return Ok(given);
    }
    let features = ["--no-default-features", "--features", WASMTIME_FEATURES];
    let tool = Tool { package: "wasmtime-cli", binary: "wasmtime", version: WASMTIME, speed };
    tool.find(&features)
}

/// The wasm-bindgen of exactly this version, which must match the library.
pub(crate) fn wasm_bindgen(version: &str) -> Result<PathBuf> {
    let tool = Tool { package: "wasm-bindgen-cli", binary: "wasm-bindgen", version, speed: Speed::ToBuild };
    tool.find(&["--bin", "wasm-bindgen"])
}

/// The tool that builds a Worker from a library.
pub(crate) fn worker_build(version: &str) -> Result<PathBuf> {
    let tool = Tool { package: "worker-build", binary: "worker-build", version, speed: Speed::ToBuild };
    tool.find(&["--bin", "worker-build"])
}

/// The tool that checks dependencies.
pub(crate) fn cargo_deny() -> Result<PathBuf> {
    let tool = Tool { package: "cargo-deny", binary: "cargo-deny", version: "0.20.2", speed: Speed::ToBuild };
    tool.find(&[])
}

/// What to optimise a tool for. Tests run a tool for seconds, and optimising it takes
/// minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speed {
    /// Quick to build.
    ToBuild,
    /// Quick to run, for measurements.
    ToRun,
}

impl Speed {
    /// Settings for cargo on top of the package's own profile.
    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::ToBuild => &["lto=\"off\"", "opt-level=1", "codegen-units=16", "debug=0", "strip=true"],
            Self::ToRun => &[],
        }
    }

    /// Keeps the builds of both kinds apart.
    fn suffix(self) -> &'static str {
        match self {
            Self::ToBuild => "-quick",
            Self::ToRun => "",
        }
    }
}

/// A program that cargo can install.
struct Tool<'a> {
    package: &'a str,
    binary: &'a str,
    version: &'a str,
    speed: Speed,
}

impl Tool<'_> {
    /// Finds the tool in `PATH` or in the cache, or builds it from source with these
    /// options.
    fn find(&self, options: &[&str]) -> Result<PathBuf> {
        let Self { package, binary, version, speed } = self;
        let cached = cache()?.join("tools").join(format!("{binary}-{version}{}", speed.suffix()));
        let built = cached.join("bin").join(format!("{binary}{}", std::env::consts::EXE_SUFFIX));
        let candidates = [PathBuf::from(binary), built.clone()];
        if let Some(found) = candidates.into_iter().find(|candidate| is_version(candidate, version)) {
            return Ok(found);
        }
        say(&format!("{binary} {version} is not here; building it once, which takes minutes"));
        let mut install = cargo(&["install", package, "--version", version, "--locked"]);
        install.args(options).arg("--root").arg(&cached);
        for setting in speed.settings() {
            install.arg("--config").arg(format!("profile.release.{setting}"));
        }
        install.env("CARGO_TARGET_DIR", shared_target()?).current_dir(cache_dir()?);
        run(&format!("cargo install {package}"), &mut install)?;
        Ok(built)
    }
}

/// All tools of a run are built here, so that they share what they depend on.
fn shared_target() -> Result<PathBuf> {
    Ok(cache()?.join("tools-target"))
}

/// Removes what building the tools has left.
pub(crate) fn clean() -> Result<()> {
    std::fs::remove_dir_all(shared_target()?).ok();
    Ok(())
}

fn is_version(program: &Path, version: &str) -> bool {
    let said = output(Command::new(program).arg("--version")).unwrap_or_default();
    said.split_whitespace().any(|word| word == version)
}

/// Installs the npm packages of this folder, exactly as locked.
pub(crate) fn npm_packages(folder: &str) -> Result<()> {
    for tool in ["node", "npm"] {
        if output(Command::new(tool).arg("--version")).is_none() {
            bail!("{tool} is missing: the Worker and the end-to-end tests need Node.js and npm (https://nodejs.org)");
        }
    }
    let folder = root().join(folder);
    let lock = folder.join("package-lock.json");
    let stamp = folder.join("node_modules/.installed-lock");
    let wanted = std::fs::read(&lock)?;
    if std::fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let npm = |arguments: &[&str]| {
        run(&format!("npm {}", arguments.join(" ")), Command::new("npm").args(arguments).current_dir(&folder))
    };
    // `npm ci` refuses a lock file made where the registry lacks packages for other
    // systems; `npm install` accepts it.
    npm(&["ci", "--no-progress"]).or_else(|_| npm(&["install", "--no-save", "--no-progress"]))?;
    std::fs::write(stamp, wanted)?;
    Ok(())
}

/// If set, nothing may be skipped, not even what few machines have.
const COMPLETE: &str = "MCP_PROXY_TEST_ALL";

/// Skips what is missing, or fails if nothing may be skipped.
fn left_out(what: &str) -> Result<()> {
    if std::env::var_os(COMPLETE).is_some() {
        bail!("{what}, and {COMPLETE} is set");
    }
    say(what);
    Ok(())
}

/// Whether there is a Chromium for the page tests. Installs it on Debian if running as
/// root.
pub(crate) fn chromium() -> Result<bool> {
    let binary = std::env::var_os("CHROMIUM").map_or_else(|| PathBuf::from("/usr/bin/chromium"), PathBuf::from);
    let is_root = || output(Command::new("id").arg("-u")).as_deref() == Some("0");
    let has_apt = || output(Command::new("apt-get").arg("--version")).is_some();
    if !binary.exists() && is_root() && has_apt() {
        let apt = |arguments: &[&str]| {
            let mut command = Command::new("apt-get");
            run(
                &format!("apt-get {}", arguments.join(" ")),
                command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"),
            )
        };
        let install = ["install", "--yes", "--no-install-recommends", "chromium"];
        if let Err(error) = apt(&["update"]).and_then(|()| apt(&install)) {
            say(&format!("{error:#}"));
        }
    }
    if !binary.exists() {
        left_out(&format!("no {}: the tests in a browser are skipped", binary.display()))?;
    }
    Ok(binary.exists())
}

/// A Python with the packages that this list pins, in an environment of that name; `None`
/// without a suitable Python.
pub(crate) fn python_packages(name: &str, list: &str) -> Result<Option<PathBuf>> {
    let Some(python) = python() else {
        left_out("no Python 3.11 or later with venv: the tests with Python are skipped")?;
        return Ok(None);
    };
    let folder = cache_dir()?.join("tools").join(name);
    let binary = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let list = root().join(list);
    let stamp = folder.join(".installed-requirements");
    let wanted = std::fs::read(&list)?;
    let runs = output(Command::new(&binary).arg("--version")).is_some();
    if runs && std::fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(Some(binary));
    }
    run("python -m venv", Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run("pip install", Command::new(&binary).args(install).arg(list))?;
    std::fs::write(stamp, wanted)?;
    Ok(Some(binary))
}

fn python() -> Option<&'static str> {
    let suits = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))";
    ["python3", "python"].into_iter().find(|name| output(Command::new(name).args(["-c", suits])).is_some())
}

fn cache_dir() -> Result<PathBuf> {
    let folder = cache()?;
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
