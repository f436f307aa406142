//! `SECURITY.md` names tests and counts dependencies. This check looks up the names and
//! recounts the crates, so that neither can become outdated.

use crate::cases;
use crate::step::{cargo, output, root, say};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;

const DOCUMENT: &str = "SECURITY.md";
/// The component, the engine, the runner and the Worker.
const PROGRAMS: usize = 4;

/// Checks every test name and every crate count.
pub(crate) fn check() -> Result<()> {
    let text = std::fs::read_to_string(root().join(DOCUMENT)).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let names: Vec<&str> = text.split('`').skip(1).step_by(2).filter(|word| is_test(word)).collect();
    let missing: Vec<String> = names.iter().filter_map(|name| cases::fault(name)).collect();
    ensure!(missing.is_empty(), "{DOCUMENT} names what is not there:\n  {}", missing.join("\n  "));
    let counted: Vec<(&str, &str)> = text.lines().filter_map(counted).collect();
    ensure!(counted.len() == PROGRAMS, "{DOCUMENT} counts the crates of {} programs, not {PROGRAMS}", counted.len());
    for (selection, stated) in counted {
        let found = crates(selection)?;
        ensure!(stated == found.to_string(), "{DOCUMENT} states {stated} crates for {selection}, there are {found}");
    }
    say(&format!("{DOCUMENT}: {} names, all there; {PROGRAMS} counts, all true", names.len()));
    Ok(())
}

fn is_test(word: &str) -> bool {
    word.contains(".rs::") || word.contains(".mjs: ")
}

/// The crate selection and the stated number in a row of that table.
fn counted(row: &str) -> Option<(&str, &str)> {
    let mut cells = row.strip_prefix('|')?.split('|').skip(1);
    let selection = cells.next()?.trim().strip_prefix('`')?.strip_suffix('`')?;
    selection.starts_with("--package ").then_some((selection, cells.next()?.trim()))
}

/// How many third-party crates there are: `cargo tree` shows the project's own with a
/// path.
fn crates(selection: &str) -> Result<usize> {
    let shown = ["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let tree = output(cargo(&shown).args(selection.split_whitespace()))
        .with_context(|| format!("cargo tree {selection} failed"))?;
    let foreign = tree.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        words.all(|word| ["(*)", "(proc-macro)"].contains(&word)).then_some((name, version))
    });
    Ok(foreign.collect::<BTreeSet<_>>().len())
}
