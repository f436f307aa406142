//! A client on stdio: one message a line, and all answers in one place.

use super::super::message::{answer_to, error_to, text};
use super::super::record::{Command, Fact};
use super::{Act, Books, Client};
use mcp_proxy_core::{Side, Sink};

/// The one place where answers are due.
const STDOUT: u64 = 0;

#[derive(Debug, Default)]
pub struct LinesClient {
    books: Books,
    state: State,
    said: usize,
    unread: usize,
}

/// How far the machine still cares for the client.
#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// It sends no more, but reads.
    Closed,
    /// It cannot be reached.
    Gone,
}

impl Client for LinesClient {
    fn act(&mut self, act: &Act) -> Option<Fact> {
        match act {
            Act::Say(line) => {
                self.said += 1;
                Some(self.say(&text(line, self.said)))
            }
            Act::Read(_) => Some(Fact::Flushed(Sink::Side(Side::Client), self.unread)),
            Act::Answer(able) => {
                let id = self.books.question()?;
                Some(self.say(&if *able { answer_to(&id) } else { error_to(&id) }))
            }
            Act::Retry(which, id, twist) => {
                let text = self.books.repeat(*which, *id, *twist)?;
                Some(self.say(&text))
            }
            Act::Close => Some(Fact::Eof),
            Act::Listen | Act::Lose(_) | Act::Resume(_) => None,
        }
    }

    fn say(&mut self, text: &str) -> Fact {
        Fact::Bytes(format!("{text}\n").into_bytes())
    }

    fn attend(&mut self) -> Option<Fact> {
        if let Some(id) = self.books.question() {
            return Some(self.say(&answer_to(&id)));
        }
        (self.unread > 0).then(|| Fact::Flushed(Sink::Side(Side::Client), self.unread))
    }

    fn told(&mut self, fact: &Fact) {
        match fact {
            Fact::Bytes(line) if self.state == State::Open => {
                self.books.requested(STDOUT, &String::from_utf8_lossy(line));
            }
            Fact::Eof | Fact::Stop if self.state == State::Open => self.state = State::Closed,
            Fact::Shutdown => {
                self.state = State::Gone;
                self.books.forgive(STDOUT);
            }
            Fact::Flushed(Sink::Side(Side::Client), count) => self.unread = self.unread.saturating_sub(*count),
            _ => {}
        }
    }

    fn heard(&mut self, command: &Command) {
        match command {
            Command::Write(line) => self.wrote(line),
            Command::Respond(..) | Command::Send(..) | Command::Finish(_) | Command::Abort(_) => {
                self.books.complain(format!("to a client on stdio: {command:?}"));
            }
            Command::Call(..) | Command::Cancel(_) | Command::Snapshot | Command::Note(_) | Command::Exit => {}
        }
    }

    fn settled(&mut self, fact: &Fact) {
        if let (Fact::Bytes(line), State::Open) = (fact, &self.state) {
            self.books.read(&String::from_utf8_lossy(line));
        }
    }

    fn books(&self) -> &Books {
        &self.books
    }
}

impl LinesClient {
    fn wrote(&mut self, line: &[u8]) {
        self.unread += line.len();
        let text = String::from_utf8_lossy(line);
        if !line.ends_with(b"\n") || line.iter().filter(|byte| **byte == b'\n').count() != 1 {
            self.books.complain(format!("not a whole line: {text}"));
        }
        if self.state == State::Gone {
            self.books.complain(format!("to a client that is gone: {text}"));
        }
        self.books.got(STDOUT, &text);
    }
}
