//! Streams that end after an event with an id and are taken up again with GET:
//! many calls at once, each of them several times, because the proxy waits before
//! each reconnect. The listening stream ends in the same way all the while, as
//! often as the proxy opens it.
use super::calls::{end, TEXT};
use super::gauge::{grouped, Gauge};
use super::ledger::{clip, Ledger};
use super::lines::Lines;
use super::page::Report;
use super::server::Server;
use super::{Shell, Task};
use std::collections::HashMap;

const IN_FLIGHT: usize = 256;
/// So many reconnects for each call.
const PIECES: u64 = 10;

pub async fn run(task: &Task<'_>, shell: Shell) -> Result<Report, String> {
    let server = Server::start().await?;
    let command = task.setup.command(shell, &server.url("/mcp?cut"));
    let mut lines = Lines::start(&command, &task.setup.log(task.name)).await?;
    let mut books = Books { ledger: Ledger::new(1, TEXT), seen: HashMap::new(), heard: 0 };
    let in_flight = task.setup.inflight.unwrap_or(IN_FLIGHT);
    let mut gauge = Gauge::start(task, lines.sid(), &server);
    let mut broken = Ok(());
    for number in 0..10 {
        let calls = task.tenth(number).div_ceil(PIECES);
        broken = books.window(&mut lines, calls, in_flight).await;
        gauge.read(server.count("resumed").await);
        if broken.is_err() {
            break;
        }
    }
    let cuts = server.count("listen_cut").await;
    let what = format!("calls whose stream ends {PIECES} times after an event with an id, {in_flight} at once.");
    let heard = format!(
        "The listening stream was opened {} times meanwhile and ended by the server after one event each time; {} of these events arrived.",
        grouped(cuts),
        grouped(books.heard)
    );
    let report = Report::new(task, &what).gauge(task, &gauge).say(&heard).judge(books.ledger.balance());
    Ok(end(report, lines, broken).await)
}

struct Books {
    ledger: Ledger,
    /// The last piece of each open call.
    seen: HashMap<u64, u64>,
    /// Events of the listening stream.
    heard: u64,
}

impl Books {
    async fn window(&mut self, lines: &mut Lines, calls: u64, in_flight: usize) -> Result<(), String> {
        let mut unsent = calls;
        let further = format!(r#","pieces":{PIECES}"#);
        loop {
            while unsent > 0 && self.ledger.open() < in_flight {
                lines.say(self.ledger.call(&further).as_bytes());
                unsent -= 1;
            }
            if self.ledger.open() == 0 {
                return Ok(());
            }
            self.book(&lines.next().await?)?;
        }
    }

    fn book(&mut self, line: &[u8]) -> Result<(), String> {
        if let Some((id, piece)) = progress(line) {
            let last = self.seen.remove(&id).unwrap_or(0);
            if piece != last + 1 {
                self.ledger.complain(format!("piece {piece} of call {id} after {last}"));
            }
            if piece < PIECES {
                self.seen.insert(id, piece);
            }
            return Ok(());
        }
        if memchr::memmem::find(line, b"\"notifications/message\"").is_some() {
            self.heard += 1;
            return Ok(());
        }
        self.ledger.answer(line).map_err(|why| format!("{why}; last: {}", clip(line)))
    }
}

/// The call and the number of a progress notification.
fn progress(line: &[u8]) -> Option<(u64, u64)> {
    let number = |key: &str| {
        let at = memchr::memmem::find(line, key.as_bytes())? + key.len();
        let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&line[at..at + digits]).ok()?.parse().ok()
    };
    Some((number("\"progressToken\":")?, number("\"progress\":")?))
}
