//! What a call costs while others are open and silent: small calls one after
//! the other, with so many held by the server, once before their response has
//! begun and once on open event streams. At the end the server lets all go, and
//! all are answered.
use super::calls::{end, window, TEXT};
use super::gauge::{grouped, mb};
use super::ledger::Ledger;
use super::lines::Lines;
use super::page::Report;
use super::server::Server;
use super::{Shell, Task, STALL};
use crate::procs;

/// Calls that are opened and not yet at the server: less than a listener's backlog.
const WAVE: usize = 250;
const BLOCKS: u64 = 5;
const WARM_UP: u64 = 300;
/// What a call may cost on the runner with all of them open, in parts of what it costs with none.
const MOST: f64 = 2.0;
const HEAD: &str = "| open | held | CPU µs per call | ratio | RSS MB | KB per open call | files |\n|---:|---|---:|---:|---:|---:|---:|";
/// How the server holds them: what a reader is told, and the arguments.
const HELD: [(&str, &str); 2] =
    [("before the response", r#","hold":true,"reply":"json""#), ("on an open stream", r#","hold":true,"reply":"sse""#)];

pub async fn run(task: &Task<'_>, shell: Shell) -> Result<Report, String> {
    let what = "one after the other, while others are open and silent; CPU of the process, the median of five blocks.";
    let mut report = Report::new(task, what);
    println!("{HEAD}");
    for held in HELD {
        report = measure(task, shell, held, report).await?;
    }
    Ok(report)
}

async fn measure(task: &Task<'_>, shell: Shell, held: (&'static str, &str), report: Report) -> Result<Report, String> {
    let server = Server::start().await?;
    let command = task.setup.command(shell, &server.url("/mcp"));
    let mut lines = Lines::start(&command, &task.setup.log(task.name)).await?;
    let mut ledger = Ledger::new(1, TEXT);
    window(&mut lines, &mut ledger, WARM_UP, 1, "").await?;
    let mut table = Table { held: held.0, rows: vec![] };
    for open in &task.setup.open {
        hold(&server, &mut lines, &mut ledger, *open, held.1).await?;
        let cpu_us = cost(task, &mut lines, &mut ledger).await?;
        table.add(*open, cpu_us, &procs::usage(lines.sid()));
    }
    server.release().await?;
    let released = ledger.open();
    while ledger.open() > 0 {
        ledger.answer(&lines.next().await?)?;
    }
    let books = ledger.balance().map(|books| format!("{} held calls released; {books}", grouped(released as u64)));
    let report = report.table(&format!("{HEAD}\n{}", table.text())).judge(table.verdict(shell)).judge(books);
    Ok(end(report, lines, Ok(())).await)
}

/// Opens calls until the server holds so many.
async fn hold(server: &Server, lines: &mut Lines, ledger: &mut Ledger, open: usize, further: &str) -> Result<(), String> {
    while ledger.open() < open {
        let wave = WAVE.min(open - ledger.open());
        for _ in 0..wave {
            lines.say(ledger.call(further).as_bytes());
        }
        lines.flush().await?;
        server.reaches("held", ledger.open() as u64, STALL).await?;
    }
    Ok(())
}

/// CPU of a call in microseconds.
async fn cost(task: &Task<'_>, lines: &mut Lines, ledger: &mut Ledger) -> Result<f64, String> {
    let calls = (task.units / BLOCKS).max(1);
    window(lines, ledger, calls.min(50), 1, "").await?;
    let mut blocks = vec![];
    for _ in 0..BLOCKS {
        let before = procs::usage(lines.sid()).cpu_us;
        window(lines, ledger, calls, 1, "").await?;
        blocks.push((procs::usage(lines.sid()).cpu_us - before) as f64 / calls as f64);
    }
    blocks.sort_by(f64::total_cmp);
    Ok(blocks[blocks.len() / 2])
}

struct Table {
    held: &'static str,
    rows: Vec<Row>,
}

struct Row {
    open: usize,
    cpu_us: f64,
    usage: procs::Usage,
}

impl Table {
    fn add(&mut self, open: usize, cpu_us: f64, usage: &procs::Usage) {
        self.rows.push(Row { open, cpu_us, usage: *usage });
        println!("{}", self.line(self.rows.len() - 1));
    }

    fn line(&self, at: usize) -> String {
        let (first, Row { open, cpu_us, usage }) = (&self.rows[0], &self.rows[at]);
        let each = match open {
            0 => "–".to_owned(),
            _ => format!("{:.1}", usage.rss_kb.saturating_sub(first.usage.rss_kb) as f64 / (*open - first.open).max(1) as f64),
        };
        let ratio = cpu_us / first.cpu_us;
        let (held, files) = (self.held, usage.files);
        let open = grouped(*open as u64);
        format!("| {open} | {held} | {cpu_us:.0} | {ratio:.2} | {:.1} | {each} | {files} |", mb(usage.rss_kb))
    }

    fn text(&self) -> String {
        (0..self.rows.len()).map(|at| self.line(at) + "\n").collect()
    }

    /// Only the runner has a promise to keep.
    fn verdict(&self, shell: Shell) -> Result<String, String> {
        let (first, last) = (&self.rows[0], &self.rows[self.rows.len() - 1]);
        let ratio = last.cpu_us / first.cpu_us;
        let words = format!("a call with {} open ({}) costs {ratio:.2} × one with {}", grouped(last.open as u64), self.held, first.open);
        match shell {
            Shell::Wasmtime | Shell::Bare => Ok(format!("{words} (no limit set)")),
            Shell::Native if ratio <= MOST => Ok(format!("{words} (at most {MOST} ×)")),
            Shell::Native => Err(format!("{words} (at most {MOST} ×)")),
        }
    }
}
