//! Small calls without end, with so many in flight.
use super::gauge::Gauge;
use super::ledger::Ledger;
use super::lines::Lines;
use super::page::Report;
use super::server::Server;
use super::{Shell, Task};

const IN_FLIGHT: usize = 64;
/// About the size of a small call's text.
pub const TEXT: usize = 200;

pub async fn run(task: &Task<'_>, shell: Shell) -> Result<Report, String> {
    let server = Server::start().await?;
    let command = task.setup.command(shell, &server.url("/mcp"));
    let mut lines = Lines::start(&command, &task.setup.log(task.name)).await?;
    let mut ledger = Ledger::new(1, TEXT);
    let in_flight = task.setup.inflight.unwrap_or(IN_FLIGHT);
    let mut gauge = Gauge::start(task, lines.sid(), &server);
    let mut broken = Ok(());
    for number in 0..10 {
        broken = window(&mut lines, &mut ledger, task.tenth(number), in_flight, "").await;
        gauge.read(ledger.right);
        if broken.is_err() {
            break;
        }
    }
    let what = format!("`tools/call` of {TEXT} bytes in one process, {in_flight} in flight, JSON answers.");
    let report = Report::new(task, &what).gauge(task, &gauge).judge(ledger.balance());
    Ok(end(report, lines, broken).await)
}

/// Keeps so many calls in flight until `calls` more are answered.
pub async fn window(lines: &mut Lines, ledger: &mut Ledger, calls: u64, in_flight: usize, further: &str) -> Result<(), String> {
    let mut unsent = calls;
    let held = ledger.open();
    loop {
        while unsent > 0 && ledger.open() - held < in_flight {
            lines.say(ledger.call(further).as_bytes());
            unsent -= 1;
        }
        if ledger.open() == held {
            return Ok(());
        }
        ledger.answer(&lines.next().await?)?;
    }
}

/// Closes the process, if it still runs, and adds what that shows.
pub async fn end(report: Report, lines: Lines, broken: Result<(), String>) -> Report {
    let stderr = lines.stderr_bytes();
    let ended = match broken {
        Ok(()) => lines.finish().await,
        Err(why) => Err(why),
    };
    report.judge(ended.map(|()| format!("exit 0 after the end of input; {stderr} bytes on stderr")))
}
