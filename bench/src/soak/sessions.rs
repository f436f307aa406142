//! HTTP+SSE sessions that are lost and opened again: a call ends the stream
//! which is the session, and is answered with an error, for it may have run; the
//! next call has its answer in a new session.
use super::calls::{end, TEXT};
use super::gauge::{grouped, Gauge};
use super::ledger::Ledger;
use super::lines::Lines;
use super::page::Report;
use super::server::Server;
use super::{Shell, Task};

pub async fn run(task: &Task<'_>) -> Result<Report, String> {
    let server = Server::start().await?;
    let command = task.setup.command(Shell::Native, &server.url("/sse"));
    let mut lines = Lines::start(&command, &task.setup.log(task.name)).await?;
    let mut ledger = Ledger::new(1, TEXT);
    let mut gauge = Gauge::start(task, lines.sid(), &server);
    let mut broken = Ok(());
    let mut lost = 0;
    'all: for number in 0..10 {
        for _ in 0..task.tenth(number) {
            broken = lose(&mut lines, &mut ledger).await;
            if broken.is_err() {
                gauge.read(lost);
                break 'all;
            }
            lost += 1;
        }
        gauge.read(lost);
    }
    let opened = server.count("sse_opened").await;
    let said = format!("The server saw {} sessions.", grouped(opened));
    let report = Report::new(task, "HTTP+SSE, each ended by the server during a call; the next call opens another.");
    let report = report.gauge(task, &gauge).say(&said).judge(ledger.balance());
    Ok(end(report, lines, broken).await)
}

async fn lose(lines: &mut Lines, ledger: &mut Ledger) -> Result<(), String> {
    lines.say(ledger.call(r#","fault":"cut""#).as_bytes());
    let error = lines.next().await?;
    ledger.refusal(&error);
    lines.say(ledger.call("").as_bytes());
    let answer = lines.next().await?;
    ledger.answer(&answer)
}
