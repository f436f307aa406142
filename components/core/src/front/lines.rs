//! The client on stdio: one message a line, both ways. Lines that are no
//! message become refusals here, with the id where it can be made out.

use crate::failure::{Failure, INVALID_REQUEST, PARSE_ERROR};
use crate::quirks::Quirks;
use crate::wire::lines::{Line, Lines};
use crate::wire::message::{self, Fault, Id, Malformed, Message, Parsed};
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::VecDeque;

/// The front for a stdio client.
#[derive(Debug)]
pub(crate) struct LineFront {
    lines: Lines,
    read: VecDeque<Read>,
    max: usize,
    quirks: Quirks,
}

/// What the client said.
#[derive(Debug)]
pub(crate) enum Read {
    Message(Message),
    /// No message, but its sender waits for an answer.
    Refused(Id, Failure),
    /// No message, and nobody to tell.
    Noise(Fault),
}

impl LineFront {
    pub(crate) fn new(max: usize, quirks: Quirks) -> Self {
        let lines = Lines::new(max, quirks.blank_lines, quirks.byte_order_mark);
        Self { lines, read: VecDeque::new(), max, quirks }
    }

    pub(crate) fn held(&self) -> usize {
        self.lines.held()
    }

    /// The next thing the client said in `input`, which is advanced past it.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Option<Read> {
        while self.read.is_empty() {
            let line = self.lines.next(input)?;
            self.take(line);
        }
        self.read.pop_front()
    }

    /// What the client said last, without ending the line.
    pub(crate) fn last(&mut self) -> Option<Read> {
        if self.read.is_empty() {
            let line = self.lines.last()?;
            self.take(line);
        }
        self.read.pop_front()
    }

    fn take(&mut self, line: Line<'_>) {
        let parsed = match line {
            Line::Whole(bytes) => message::parse(Cow::into_owned(bytes)),
            Line::TooLong(id) => Err(Malformed { id, fault: Fault::TooLong }),
        };
        match parsed {
            Ok(Parsed::One(message)) => self.read.push_back(Read::Message(message)),
            Ok(Parsed::Batch(members)) => {
                for member in members {
                    let read = member.map_or_else(|bad| self.refuse(bad), Read::Message);
                    self.read.push_back(read);
                }
            }
            Err(bad) => {
                let read = self.refuse(bad);
                self.read.push_back(read);
            }
        }
    }

    /// A message as a line for the client.
    pub(crate) fn line(&self, message: Vec<u8>) -> Bytes {
        Bytes::from(message::to_line(message, self.quirks.line_separators))
    }

    fn refuse(&self, bad: Malformed) -> Read {
        let Some(id) = bad.id else { return Read::Noise(bad.fault) };
        let failure = match bad.fault {
            Fault::Encoding => Failure::refused(PARSE_ERROR, "the message is not UTF-8"),
            Fault::Syntax => Failure::refused(PARSE_ERROR, "the message is not valid JSON"),
            Fault::Shape => Failure::refused(INVALID_REQUEST, "the message is not a JSON-RPC request"),
            Fault::EmptyBatch => Failure::refused(INVALID_REQUEST, "the batch is empty"),
            Fault::TooLong => {
                let text = format!("the message is over the limit of {} bytes (--max-message-bytes)", self.max);
                Failure::refused(INVALID_REQUEST, text)
            }
        };
        Read::Refused(id, failure)
    }
}
