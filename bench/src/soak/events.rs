//! Events without end on one stream: that of one call, or the one on which the
//! client listens. Each is checked: its text, and that it is the next.
use super::calls::end;
use super::gauge::{grouped, Gauge};
use super::ledger::clip;
use super::lines::Lines;
use super::page::Report;
use super::server::Server;
use super::{Shell, Task, STALL};

/// The stream that carries the events.
#[derive(Clone, Copy, PartialEq)]
pub enum On {
    Call,
    Listening,
}

const ID: &str = "\"soak\"";

pub async fn run(task: &Task<'_>, shell: Shell, on: On) -> Result<Report, String> {
    let server = Server::start().await?;
    let mut command = task.setup.command(shell, &server.url("/mcp"));
    if on == On::Listening {
        // The one open call is silent to the end, however long that takes.
        command.extend(["--request-timeout".into(), "0".into()]);
    }
    let mut lines = Lines::start(&command, &task.setup.log(task.name)).await?;
    if on == On::Listening {
        lines.say(br#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#);
        lines.next().await?;
        server.reaches("streams_live", 1, STALL).await?;
    }
    lines.say(call(task.units, on).as_bytes());
    let mut gauge = Gauge::start(task, lines.sid(), &server);
    let read = read_all(task, &mut lines, &mut gauge, on).await;
    let what = match on {
        On::Call => "progress notifications on the stream of one call.",
        On::Listening => "log messages on the listening stream, while one call is open.",
    };
    let report = Report::new(task, what).gauge(task, &gauge);
    let broken = read.as_ref().map(|_| ()).map_err(String::clone);
    let said = format!("{} events and then the answer, each once and in order", grouped(task.units));
    Ok(end(report.judge(read.map(|()| said)), lines, broken).await)
}

fn call(events: u64, on: On) -> String {
    let via = match on {
        On::Call => r#""reply":"sse""#,
        On::Listening => r#""reply":"json","via":"get","kind":"log""#,
    };
    format!(
        r#"{{"jsonrpc":"2.0","id":{ID},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"done","progress":{events},{via}}},"_meta":{{"progressToken":{ID}}}}}}}"#
    )
}

async fn read_all(task: &Task<'_>, lines: &mut Lines, gauge: &mut Gauge, on: On) -> Result<(), String> {
    let (mut done, mut tenth, mut next_reading) = (0, 0, task.tenth(0));
    let mut answer = None;
    while done < task.units {
        let line = lines.next().await?;
        if on == On::Listening && line.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\"") {
            answer = Some(line); // it has a connection of its own, and may overtake
            continue;
        }
        done += 1;
        if line != expected(done, task.units, on).as_bytes() {
            return Err(format!("instead of event {done}: {}", clip(&line)));
        }
        if done == next_reading {
            gauge.read(done);
            tenth += 1;
            next_reading += task.tenth(tenth);
        }
    }
    let answer = match answer {
        Some(answer) => answer,
        None => lines.next().await?,
    };
    let wanted = format!(r#"{{"jsonrpc":"2.0","id":{ID},"result":{{"content":[{{"type":"text","text":"done"}}]}}}}"#);
    if answer != wanted.as_bytes() {
        return Err(format!("instead of the answer: {}", clip(&answer)));
    }
    Ok(())
}

fn expected(number: u64, of: u64, on: On) -> String {
    match on {
        On::Call => format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{ID},"progress":{number},"total":{of},"message":"step {number}"}}}}"#
        ),
        On::Listening => format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","logger":"bench","data":{{"n":{number}}}}}}}"#
        ),
    }
}
