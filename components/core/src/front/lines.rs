//! The client on stdio: one message per line, in both directions. A line that is not a
//! message becomes a refusal here, with its id if that is readable.

use crate::failure::{Failure, INVALID_REQUEST, PARSE_ERROR};
use crate::quirks::Quirks;
use crate::wire::batch::Batch;
use crate::wire::lines::{Line, Lines};
use crate::wire::message::{self, Fault, Id, Kind, Malformed, Message, Parsed};
use bytes::Bytes;
use std::borrow::Cow;

/// How many members of a batch the proxy handles. It refuses the requests among the rest,
/// many in one write: a separate message for each would take ten times the memory of the
/// batch.
const MOST_MEMBERS: usize = 1000;
/// The size of such a write.
const REFUSALS: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct LineFront {
    lines: Lines,
    batch: Option<Open>,
    max: usize,
    quirks: Quirks,
}

#[derive(Debug)]
struct Open {
    batch: Batch,
    /// How many members were read, and how many of them were not messages.
    read: usize,
    bad: usize,
}

/// What the client sent.
#[derive(Debug)]
pub(crate) enum Read {
    Message(Message),
    /// Not a message, but its sender waits for an answer.
    Refused(Id, Failure),
    /// Lines that refuse the requests of a batch with too many members.
    Refusals(Vec<u8>),
    /// Not a message, and no id to answer.
    Noise(Fault),
    /// A batch is over; this many of its members were not messages.
    BadMembers(usize),
}

impl LineFront {
    pub(crate) fn new(max: usize, quirks: Quirks) -> Self {
        let lines = Lines::new(max, quirks.blank_lines, quirks.byte_order_mark);
        Self { lines, batch: None, max, quirks }
    }

    pub(crate) fn held(&self) -> usize {
        self.lines.held()
    }

    /// Reads the next item from `input` and advances `input` past it.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Option<Read> {
        loop {
            if let Some(read) = self.member() {
                return Some(read);
            }
            let line = self.lines.next(input)?;
            if let Some(read) = self.take(line) {
                return Some(read);
            }
        }
    }

    /// Reads the client's last line, which has no line end.
    pub(crate) fn last(&mut self) -> Option<Read> {
        if let Some(read) = self.member() {
            return Some(read);
        }
        let line = self.lines.last()?;
        self.take(line).or_else(|| self.member())
    }

    /// Parses a line. Returns `None` if it begins a batch.
    fn take(&mut self, line: Line<'_>) -> Option<Read> {
        let parsed = match line {
            Line::Whole(bytes) => message::parse(Cow::into_owned(bytes)),
            Line::TooLong(ids) => return Some(self.too_long(ids)),
        };
        match parsed {
            Ok(Parsed::One(message)) => Some(Read::Message(message)),
            Ok(Parsed::Batch(batch)) => {
                self.batch = Some(Open { batch, read: 0, bad: 0 });
                None
            }
            Err(bad) => Some(self.refuse(bad)),
        }
    }

    /// Reads the next member of the batch, or the summary at its end.
    fn member(&mut self) -> Option<Read> {
        let mut open = self.batch.take()?;
        while open.read < MOST_MEMBERS {
            let Some(member) = open.batch.next() else { return open.end() };
            open.read += 1;
            match member {
                Err(Malformed { id: None, .. }) => open.bad += 1,
                Err(bad) => return Some(self.keep(open, |front| front.refuse(bad))),
                Ok(message) => return Some(self.keep(open, |_| Read::Message(message))),
            }
        }
        match self.refusals(&mut open) {
            refused if refused.is_empty() => open.end(),
            refused => Some(self.keep(open, |_| Read::Refusals(refused))),
        }
    }

    fn keep(&mut self, open: Open, read: impl FnOnce(&Self) -> Read) -> Read {
        self.batch = Some(open);
        read(self)
    }

    /// Refuses the next requests of a batch with too many members.
    fn refusals(&self, open: &mut Open) -> Vec<u8> {
        let mut lines = Vec::new();
        while lines.len() < REFUSALS {
            let Some(member) = open.batch.next() else { break };
            let id = match member {
                Ok(Message { kind: Kind::Request { id, .. }, .. }) => Some(id),
                Ok(_) => None,
                Err(bad) => bad.id,
            };
            let Some(id) = id else {
                open.bad += 1;
                continue;
            };
            let why = format!("the batch has more than {MOST_MEMBERS} members");
            lines.extend(self.line(message::write_error::<()>(&id, INVALID_REQUEST, &why, None)));
        }
        lines
    }

    /// Writes a message as a line for the client.
    pub(crate) fn line(&self, message: Vec<u8>) -> Bytes {
        Bytes::from(message::to_line(message, self.quirks.line_separators))
    }

    /// Refuses the requests in a line over the limit.
    fn too_long(&self, mut ids: Vec<Id>) -> Read {
        let fault = Fault::TooLong;
        if ids.len() < 2 {
            return self.refuse(Malformed { id: ids.pop(), fault });
        }
        let failure = self.failure(fault);
        Read::Refusals(ids.iter().flat_map(|id| self.line(failure.answer_with_hint(id))).collect())
    }

    fn refuse(&self, bad: Malformed) -> Read {
        let Some(id) = bad.id else { return Read::Noise(bad.fault) };
        Read::Refused(id, self.failure(bad.fault))
    }

    fn failure(&self, fault: Fault) -> Failure {
        match fault {
            Fault::Encoding => Failure::refused(PARSE_ERROR, "the message is not UTF-8"),
            Fault::Syntax => Failure::refused(PARSE_ERROR, "the message is not valid JSON"),
            Fault::Shape => Failure::refused(INVALID_REQUEST, "the message is not a JSON-RPC request"),
            Fault::EmptyBatch => Failure::refused(INVALID_REQUEST, "the batch is empty"),
            Fault::TooLong => {
                let text = format!("the message is over the limit of {} bytes (--max-message-bytes)", self.max);
                Failure::refused(INVALID_REQUEST, text)
            }
        }
    }
}

impl Open {
    fn end(self) -> Option<Read> {
        (self.bad > 0).then_some(Read::BadMembers(self.bad))
    }
}
