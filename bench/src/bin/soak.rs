//! Runs soaks one after the other, prints their figures as they come and their
//! verdicts at the end. Exit 0 if all passed, 1 if not, 2 for wrong usage.
//!
//!   soak --dist DIR [options] NAME…
//!
//!   --wasmtime FILE   stock wasmtime            --worker DIR   what worker.mjs has written
//!   --scale F         of the full size          --calls N      so many calls, events or sessions instead
//!   --inflight N      calls at once             --open a,b,c   open calls of open-calls
//!   --minutes M       most for one soak (60)    --logs DIR     stderr of what is measured
//!   --write FILE      put the reports into this page
use mcpbench::soak::{self, page, Setup, GROUPS, SOAKS};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{signal, SignalKind};

const VALUES: [&str; 10] = ["--dist", "--wasmtime", "--worker", "--scale", "--calls", "--inflight", "--open", "--minutes", "--logs", "--write"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = parse(&arguments).and_then(|(values, names)| Ok((setup(&values)?, soaks(&names)?, values)));
    let (setup, names, values) = match usage {
        Ok(usage) => usage,
        Err(why) => {
            eprintln!("soak: {why}");
            return ExitCode::from(2);
        }
    };
    limits();
    let page = values.get("--write").map(PathBuf::from);
    let done = std::fs::create_dir_all(&setup.logs).and_then(|()| runtime()).map(|runtime| {
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, run(&setup, &names, page))
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Runs all until one is interrupted; whether all passed.
async fn run(setup: &Setup, names: &[&'static str], page: Option<PathBuf>) -> bool {
    let mut reports = vec![];
    for name in names {
        println!("\n{name}");
        // What a soak has started ends when the soak is dropped.
        let report = tokio::select! {
            report = soak::run(setup, name) => report,
            () = interrupted() => return false,
        };
        println!("{}", report.verdicts());
        reports.push(report);
        if let Some(Err(error)) = page.as_ref().map(|page| page::write(page, &reports)) {
            eprintln!("soak: cannot write the page: {error}");
            return false;
        }
    }
    reports.iter().all(|report| report.passed)
}

async fn interrupted() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Ends with what started us, and lets children have as many files as may be.
fn limits() {
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        let mut files: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut files) == 0 {
            files.rlim_cur = files.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &files);
        }
    }
}

type Values = HashMap<String, String>;

fn parse(arguments: &[String]) -> Result<(Values, Vec<String>), String> {
    let (mut values, mut names) = (Values::new(), vec![]);
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        if VALUES.contains(&word.as_str()) {
            let value = rest.next().ok_or_else(|| format!("{word} needs a value"))?;
            values.insert(word.clone(), value.clone());
        } else if word.starts_with('-') {
            return Err(format!("no such option: {word}"));
        } else {
            names.push(word.clone());
        }
    }
    Ok((values, names))
}

fn setup(values: &Values) -> Result<Setup, String> {
    let path = |key: &str, default: &str| PathBuf::from(values.get(key).map_or(default, String::as_str));
    let open = values.get("--open").map_or("0,100,1000,5000", String::as_str);
    let open: Result<Vec<usize>, _> = open.split(',').map(str::parse).collect();
    Ok(Setup {
        dist: path("--dist", "dist"),
        wasmtime: path("--wasmtime", "wasmtime"),
        worker: path("--worker", "worker"),
        logs: path("--logs", "logs"),
        scale: number(values, "--scale")?.unwrap_or(1.0),
        units: number(values, "--calls")?,
        inflight: number(values, "--inflight")?,
        open: open.ok().filter(|open| open.is_sorted()).ok_or("--open: numbers that grow, like 0,100,1000")?,
        limit: Duration::from_secs(60 * number(values, "--minutes")?.unwrap_or(60)),
    })
}

fn number<T: std::str::FromStr>(values: &Values, key: &str) -> Result<Option<T>, String> {
    values.get(key).map(|value| value.parse().map_err(|_| format!("{key}: {value}"))).transpose()
}

/// The soaks that these names mean; all, if there are none.
fn soaks(names: &[String]) -> Result<Vec<&'static str>, String> {
    let known: Vec<&'static str> = SOAKS.iter().map(|(name, ..)| *name).collect();
    if names.is_empty() {
        return Ok(known);
    }
    let mut found = vec![];
    for name in names {
        let group = GROUPS.iter().find(|(group, _)| group == name).map(|(_, members)| members.to_vec());
        let single = known.iter().find(|soak| *soak == name).map(|soak| vec![*soak]);
        let all = [known.as_slice(), &["open-calls"]].concat().join(", ");
        found.extend(group.or(single).ok_or_else(|| format!("no such soak: {name}; there are {all}"))?);
    }
    Ok(found)
}
