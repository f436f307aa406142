//! The event stream format of the HTML standard (server-sent events), read incrementally
//! and within limits. Bytes in, events out. A value of `data` goes from the chunk
//! straight into the event, so a big message is copied once. The meaning of events in MCP
//! does not belong here.

use crate::wire::message::Id;
use crate::wire::scan::Scan;

/// Longest value of `event`, `id` or `retry` to read.
const LONGEST_VALUE: usize = 4096;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Reads one stream.
#[derive(Debug)]
pub(crate) struct Sse {
    line: Line,
    /// How many bytes of a leading byte order mark have arrived.
    bom: Option<usize>,
    /// The last byte was CR: an LF after it belongs to the same line end.
    after_cr: bool,
    /// `None` until the block has a `data` field.
    data: Option<Vec<u8>>,
    /// Set while the block's data is over the limit and not kept.
    over: Option<Box<Scan>>,
    kind: Vec<u8>,
    next_id: Vec<u8>,
    id: Vec<u8>,
    retry: Option<u64>,
    max: usize,
}

/// The state of the current line.
#[derive(Debug)]
enum Line {
    /// The field name so far.
    Name(Vec<u8>),
    /// The value of a small field so far.
    Small(Field, Vec<u8>),
    /// In the value of `data`; `start`: a leading space is still to be dropped.
    Data { start: bool },
    /// A comment or an unknown field.
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Event,
    Id,
    Retry,
}

/// A dispatched event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The event type; empty for the default, `message`.
    pub(crate) kind: Vec<u8>,
    /// The data, or the id from data over the limit.
    pub(crate) data: Result<Vec<u8>, TooLong>,
}

/// The data of an event was over the limit. Holds the id if it was an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong(pub(crate) Option<Id>);

impl Event {
    /// Of the default type, with data.
    pub(crate) fn is_message(&self) -> bool {
        let kind = self.kind.is_empty() || self.kind == b"message";
        kind && !matches!(&self.data, Ok(data) if data.is_empty())
    }
}

impl Sse {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            line: Line::Name(Vec::new()),
            bom: Some(0),
            after_cr: false,
            data: None,
            over: None,
            kind: Vec::new(),
            next_id: Vec::new(),
            id: Vec::new(),
            retry: None,
            max,
        }
    }

    /// The last event id from a complete block; empty if none.
    pub(crate) fn last_event_id(&self) -> &[u8] {
        &self.id
    }

    /// The reconnection time that the server asked for, in milliseconds.
    pub(crate) fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Bytes held until an event is complete.
    pub(crate) fn held(&self) -> usize {
        self.data.as_ref().map_or(0, Vec::len)
    }

    /// Reads the next event of `input` and advances `input` past it. Returns `None` when
    /// `input` is used up.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Option<Event> {
        self.skip_bom(input);
        while let Some(&byte) = input.first() {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                advance(input, 1);
                continue;
            }
            match memchr::memchr2(b'\n', b'\r', input) {
                None => {
                    self.feed(input);
                    *input = &[];
                }
                Some(end) => {
                    self.feed(input.get(..end).unwrap_or_default());
                    self.after_cr = input.get(end) == Some(&b'\r');
                    advance(input, end + 1);
                    if let Some(event) = self.end_line() {
                        return Some(event);
                    }
                }
            }
        }
        None
    }

    fn skip_bom(&mut self, input: &mut &[u8]) {
        while let (Some(seen), Some(byte)) = (self.bom, input.first()) {
            if BOM.get(seen) == Some(byte) {
                advance(input, 1);
                self.bom = (seen + 1 < BOM.len()).then_some(seen + 1);
            } else {
                self.bom = None;
                self.feed(BOM.get(..seen).unwrap_or_default());
            }
        }
    }

    /// Reads a piece of a line without a line end.
    fn feed(&mut self, piece: &[u8]) {
        match &mut self.line {
            Line::Skip => {}
            Line::Small(_, value) => keep(value, piece),
            Line::Data { start } => {
                let piece = if *start { unspaced(piece) } else { piece };
                *start = false;
                self.feed_data(piece);
            }
            Line::Name(name) => match memchr::memchr(b':', piece) {
                None => keep(name, piece),
                Some(colon) => {
                    let (head, value) = piece.split_at(colon);
                    keep(name, head);
                    self.begin_value();
                    if let Some(value) = value.get(1..).filter(|value| !value.is_empty()) {
                        self.feed(value);
                    }
                }
            },
        }
    }

    fn begin_value(&mut self) {
        let Line::Name(name) = &self.line else { return };
        self.line = match name.as_slice() {
            b"data" => Line::Data { start: true },
            b"event" => Line::Small(Field::Event, Vec::new()),
            b"id" => Line::Small(Field::Id, Vec::new()),
            b"retry" => Line::Small(Field::Retry, Vec::new()),
            _ => Line::Skip,
        };
        if matches!(self.line, Line::Data { .. }) {
            self.begin_data();
        }
    }

    fn begin_data(&mut self) {
        if self.data.is_some() {
            self.feed_data(b"\n");
        } else {
            self.data = Some(Vec::new());
        }
    }

    fn feed_data(&mut self, piece: &[u8]) {
        let Some(data) = &mut self.data else { return };
        if let Some(scan) = &mut self.over {
            scan.feed(piece);
        } else if data.len() + piece.len() > self.max {
            let mut scan = Scan::of(&std::mem::take(data));
            scan.feed(piece);
            self.over = Some(Box::new(scan));
        } else {
            data.extend_from_slice(piece);
        }
    }

    fn end_line(&mut self) -> Option<Event> {
        if matches!(&self.line, Line::Name(name) if name.is_empty()) {
            return self.dispatch();
        }
        self.begin_value();
        if let Line::Small(field, value) = std::mem::replace(&mut self.line, Line::Name(Vec::new())) {
            self.end_field(field, value);
        }
        None
    }

    fn end_field(&mut self, field: Field, mut value: Vec<u8>) {
        if value.first() == Some(&b' ') {
            value.remove(0);
        }
        match field {
            Field::Event => self.kind = value,
            Field::Id if value.contains(&0) => {}
            Field::Id => self.next_id = value,
            Field::Retry => self.retry = number(&value).or(self.retry),
        }
    }

    /// A blank line: commits the id even if there is nothing to dispatch.
    fn dispatch(&mut self) -> Option<Event> {
        self.id.clone_from(&self.next_id);
        let kind = std::mem::take(&mut self.kind);
        let data = self.data.take()?;
        let data = self.over.take().map_or(Ok(data), |scan| Err(TooLong(scan.answer_id())));
        Some(Event { kind, data })
    }
}

fn advance(input: &mut &[u8], count: usize) {
    *input = input.get(count..).unwrap_or_default();
}

fn keep(place: &mut Vec<u8>, piece: &[u8]) {
    let room = (LONGEST_VALUE + 1).saturating_sub(place.len());
    place.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
}

fn unspaced(piece: &[u8]) -> &[u8] {
    piece.strip_prefix(b" ").unwrap_or(piece)
}

/// Accepts ASCII digits only; saturates on overflow.
fn number(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::cuts::cuts;

    /// Events as `kind|data`, then the last id and the retry time.
    fn read(pieces: &[&[u8]]) -> String {
        let mut sse = Sse::new(40);
        let mut out = String::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(event) = sse.next(&mut input) {
                let over = |TooLong(id)| format!("!{}", id.as_ref().map_or("", Id::text));
                let data = event.data.map_or_else(over, |data| String::from_utf8(data).unwrap());
                out += &format!("{}|{data};", String::from_utf8_lossy(&event.kind));
            }
            assert!(sse.held() <= 40);
        }
        let retry = sse.retry().map_or(String::new(), |retry| retry.to_string());
        format!("{out} id={} retry={retry}", String::from_utf8_lossy(sse.last_event_id()))
    }

    #[test]
    fn events_come_out_the_same_however_the_bytes_are_cut() {
        let cases: &[(&str, &str)] = &[
            ("data: a\n\n", "|a; id= retry="),
            ("event: message\ndata: {\"a\":1}\n\n", "message|{\"a\":1}; id= retry="),
            ("data: a\r\rdata: b\r\n\r\ndata: c\n\r", "|a;|b;|c; id= retry="),
            ("data: {\"id\":1,\r\ndata: \"x\":2}\r\n\r\n", "|{\"id\":1,\n\"x\":2}; id= retry="),
            ("\u{feff}data: a\n\n", "|a; id= retry="),
            ("\u{feff}\u{feff}data: a\n\n", " id= retry="),
            (": ping\n\n: ping\ndata: a\n: in between\ndata:b\n\n", "|a\nb; id= retry="),
            ("data:  two\n\ndata:\ttab\n\n", "| two;|\ttab; id= retry="),
            ("data\n\ndata:\n\ndata\ndata\n\n", "|;|;|\n; id= retry="),
            ("Data: x\n data: y\ndata : z\n\n", " id= retry="),
            ("event: a\nevent: b\ndata: x\n\ndata: y\n\n", "b|x;|y; id= retry="),
            ("event: a\n\ndata: x\n\n", "|x; id= retry="),
            ("id: 7\n\n", " id=7 retry="),
            ("id: 7\ndata: x\n\ndata: y\n\n", "|x;|y; id=7 retry="),
            ("id: 7\n\nid\n\n", " id= retry="),
            ("id: a\0b\ndata: x\n\n", "|x; id= retry="),
            ("id: 1\n\nid: 2\ndata: x", " id=1 retry="),
            ("retry: 500\nretry: 1.5\nretry: -1\nretry:\nretry:  9\n", " id= retry=500"),
            ("retry: 99999999999999999999999\n", " id= retry=18446744073709551615"),
            ("id: e1\nretry: 700\ndata: \n\n", "|; id=e1 retry=700"),
            (
                "data: 0123456789012345678901234567890123456789\n\n",
                "|0123456789012345678901234567890123456789; id= retry=",
            ),
            ("data: 01234567890123456789012345678901234567890\n\ndata: x\n\n", "|!;|x; id= retry="),
            ("data: 0123456789012345678901234567890123456789\ndata: 1\ndata: 2\n\ndata: x\n\n", "|!;|x; id= retry="),
            (&format!("{}\n", "data\n".repeat(42)), "|!; id= retry="),
            ("data: {\"id\":7,\"result\":\"0123456789012345678901234567890123456789\"}\n\n", "|!7; id= retry="),
            ("data: {\"method\":\"0123456789012345678901234567890123456789\",\ndata:\"id\":7}\n\n", "|!; id= retry="),
            ("data: 😀é\n\n", "|😀é; id= retry="),
            ("data: cut", " id= retry="),
            ("data: cut\n", " id= retry="),
            ("nonsense\n\n:\n\n", " id= retry="),
        ];
        for (text, want) in cases {
            for pieces in cuts(text.as_bytes()) {
                assert_eq!(read(&pieces), *want, "{text:?} as {pieces:?}");
            }
        }
    }

    #[test]
    fn a_carriage_return_at_the_end_of_a_chunk_dispatches_at_once() {
        let mut sse = Sse::new(100);
        let mut input: &[u8] = b"data: x\r\r";
        assert!(sse.next(&mut input).is_some());
    }
}
