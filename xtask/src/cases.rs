//! `tests/CASES.md` lists which test shows which case. This check looks up every name in
//! it by plain search, so that the table cannot outlive the tests. Whether a test shows
//! what its row says is for a reader to judge.

use crate::step::{root, say};
use anyhow::{Context, Result, ensure};

const TABLE: &str = "tests/CASES.md";

/// Checks that every case names a test, and that every named test exists.
pub(crate) fn check() -> Result<()> {
    let table = read(TABLE)?;
    let mut faults = Vec::new();
    let (mut cases, mut names) = (0, 0);
    for (number, tests) in table.lines().filter_map(case) {
        let tests: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() {
            faults.push(format!("case {number} names no test"));
        }
        faults.extend(tests.iter().filter_map(|test| fault(test)).map(|fault| format!("case {number}: {fault}")));
        (cases, names) = (cases + 1, names + tests.len());
    }
    ensure!(cases > 0, "{TABLE} has no case in it");
    ensure!(faults.is_empty(), "{TABLE} names what is not there:\n  {}", faults.join("\n  "));
    say(&format!("{TABLE}: {cases} cases, {names} names, all there"));
    Ok(())
}

/// The number and the last cell of a row; headings have no number.
fn case(row: &str) -> Option<(u32, &str)> {
    let (number, rest) = row.strip_prefix('|')?.split_once('|')?;
    let (_, tests) = rest.trim_end().strip_suffix('|')?.rsplit_once('|')?;
    Some((number.trim().parse().ok()?, tests))
}

/// The fault of a name, if any: `path::function` for Rust, `path: beginning of a title`
/// for a script, `path: words` for a document.
pub(crate) fn fault(name: &str) -> Option<String> {
    let (path, forms) = if let Some((path, function)) = name.split_once(".rs::") {
        (format!("{path}.rs"), vec![format!("fn {function}(")])
    } else if let Some((path, title)) = name.split_once(".mjs: ") {
        (format!("{path}.mjs"), ["\"", "'", "`"].map(|quote| format!("{quote}{title}")).to_vec())
    } else if let Some((path, words)) = name.split_once(".md: ") {
        (format!("{path}.md"), vec![words.to_owned()])
    } else {
        return Some(format!("`{name}` is neither path::function nor path: title"));
    };
    match read(&path) {
        Err(error) => Some(format!("{error:#}")),
        Ok(text) if forms.iter().any(|form| text.contains(form)) => None,
        Ok(_) => Some(format!("no such test: {name}")),
    }
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
}
