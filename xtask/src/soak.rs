//! `cargo xtask soak`: long loads on the built artefacts, one process each. It builds the
//! artefacts and the harness and passes on all other arguments. `bench/` decides what
//! runs, how long, and what counts as flat.

use crate::bench::Places;
use crate::step::{cargo, dist, root, run as step};
use crate::{build, tools, worker};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "bench/SOAK.md";

/// The arguments that this command handles; the rest goes to the harness.
#[derive(Default)]
struct Wishes {
    names: Vec<String>,
    options: Vec<String>,
    /// Measure the artefacts in this folder without building them.
    dist: Option<PathBuf>,
    write: bool,
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let wishes = Wishes::parse(arguments)?;
    let places = Places::new()?;
    let built = wishes.built()?;
    let mut harness = cargo(&["build", "--release", "--locked"]);
    harness.current_dir(root().join("bench")).env("CARGO_TARGET_DIR", &places.target);
    step("build the harness", &mut harness)?;
    let mut soak = Command::new(places.target.join("release/soak"));
    soak.arg("--dist").arg(&built).arg("--logs").arg(places.work.join("soak"));
    if wishes.runs("wasmtime") {
        soak.arg("--wasmtime").arg(tools::wasmtime(tools::Speed::ToRun)?);
    }
    if wishes.runs("worker") {
        soak.arg("--worker").arg(prepare_worker(&built, &places.work)?);
    }
    if wishes.write {
        soak.arg("--write").arg(root().join(PAGE));
    }
    step("soak", soak.args(&wishes.options).args(&wishes.names))
}

impl Wishes {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut wishes = Self::default();
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "--write" => wishes.write = true,
                "--dist" => wishes.dist = Some(std::path::absolute(rest.next().context("--dist needs a folder")?)?),
                option if option.starts_with('-') => {
                    let value = rest.next().with_context(|| format!("{option} needs a value"))?;
                    wishes.options.extend([word.clone(), value.clone()]);
                }
                _ => wishes.names.push(word.clone()),
            }
        }
        Ok(wishes)
    }

    /// Whether a soak of this shell is among those that run.
    fn runs(&self, shell: &str) -> bool {
        let means = |name: &String| name.starts_with(shell) || (name == "open-calls" && shell == "wasmtime");
        self.names.is_empty() || self.names.iter().any(means)
    }

    /// The folder of the artefacts. Builds them unless the user named a folder.
    fn built(&self) -> Result<PathBuf> {
        if let Some(folder) = &self.dist {
            return if folder.is_dir() { Ok(folder.clone()) } else { bail!("no folder {}", folder.display()) };
        }
        build::local()?;
        if self.runs("worker") {
            worker::build()?;
        }
        Ok(dist())
    }
}

/// Prepares what workerd needs to serve the Worker.
fn prepare_worker(built: &Path, work: &Path) -> Result<PathBuf> {
    tools::npm_packages("tests/e2e")?;
    let folder = work.join("soak-worker");
    let mut prepare = Command::new("node");
    prepare.arg(root().join("bench/worker.mjs")).arg(built.join("worker")).arg("-o").arg(&folder);
    step("prepare workerd", &mut prepare)?;
    Ok(folder)
}
