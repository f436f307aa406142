//! Newline framing of stdio: bytes in, lines out, bounded. A line that is contiguous in
//! the input is borrowed from it. The reader tolerates CRLF, blank lines and a leading
//! byte order mark. The meaning of a line does not belong here.

use crate::wire::message::Id;
use crate::wire::scan::Scan;
use std::borrow::Cow;

const BOM: &[u8] = b"\xEF\xBB\xBF";
/// Bytes around a line that do not count: the mark and a CR.
const AROUND: usize = BOM.len() + 1;

/// Splits a byte stream into lines.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The beginning of a line whose end has not arrived. At most `max` + `AROUND` bytes.
    partial: Vec<u8>,
    /// Set while the reader skips the rest of a line over the limit.
    over: Option<Scan>,
    first: bool,
    max: usize,
    /// Ignores blank lines and a CR before the line end.
    lenient: bool,
    /// Ignores a byte order mark before the first line.
    marked: bool,
}

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A line that is not blank.
    Whole(Cow<'a, [u8]>),
    /// A line over the limit, whose bytes were dropped, and the requests in it.
    TooLong(Vec<Id>),
}

impl Lines {
    pub(crate) fn new(max: usize, lenient: bool, marked: bool) -> Self {
        Self { partial: Vec::new(), over: None, first: true, max, lenient, marked }
    }

    /// Bytes held until a line ends.
    pub(crate) fn held(&self) -> usize {
        self.partial.len()
    }

    /// Reads the next line of `input` and advances `input` past it. Returns `None` if the
    /// rest of `input` ends no line; the reader then keeps the rest.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<Line<'a>> {
        while let Some(end) = memchr::memchr(b'\n', input) {
            let (piece, rest) = input.split_at(end);
            *input = rest.get(1..).unwrap_or_default();
            if let Some(line) = self.finish_with(piece, false) {
                return Some(line);
            }
        }
        self.keep(input);
        *input = &[];
        None
    }

    /// The text after the last line end, once no more bytes will come.
    pub(crate) fn last(&mut self) -> Option<Line<'static>> {
        self.finish_with(&[], true)
    }

    fn keep(&mut self, piece: &[u8]) {
        if let Some(scan) = &mut self.over {
            scan.feed(piece);
        } else if self.partial.len() + piece.len() > self.max + AROUND {
            let mut scan = Scan::of(&std::mem::take(&mut self.partial));
            scan.feed(piece);
            self.over = Some(scan);
        } else {
            self.partial.extend_from_slice(piece);
        }
    }

    fn finish_with<'a>(&mut self, piece: &'a [u8], last: bool) -> Option<Line<'a>> {
        let first = std::mem::replace(&mut self.first, false);
        if self.over.is_some() || !self.partial.is_empty() {
            self.keep(piece);
        }
        if let Some(scan) = self.over.take() {
            return Some(Line::TooLong(scan.request_ids()));
        }
        let mut line = match std::mem::take(&mut self.partial) {
            kept if kept.is_empty() => Cow::Borrowed(piece),
            kept => Cow::Owned(kept),
        };
        trim(&mut line, first && self.marked, self.lenient);
        if line.len() > self.max {
            return Some(Line::TooLong(Scan::of(&line).request_ids()));
        }
        let blank = line.trim_ascii().is_empty();
        (!blank || !(self.lenient || last)).then_some(Line::Whole(line))
    }
}

fn trim(line: &mut Cow<'_, [u8]>, mark: bool, end: bool) {
    let start = if mark && line.starts_with(BOM) { BOM.len() } else { 0 };
    let end = line.len() - usize::from(end && line.ends_with(b"\r"));
    match line {
        Cow::Borrowed(bytes) => *bytes = bytes.get(start..end).unwrap_or_default(),
        Cow::Owned(bytes) => {
            bytes.truncate(end);
            bytes.drain(..start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::cuts::cuts;

    /// Lines as text; a line over the limit as `!` and its id.
    fn read(pieces: &[&[u8]], max: usize) -> Vec<String> {
        let mut lines = Lines::new(max, true, true);
        let mut out = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(line) = lines.next(&mut input) {
                out.push(show(line));
            }
            assert!(input.is_empty());
            assert!(lines.held() <= max + AROUND);
        }
        out.extend(lines.last().map(show));
        out
    }

    fn show(line: Line<'_>) -> String {
        match line {
            Line::Whole(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Line::TooLong(ids) => format!("!{}", ids.iter().map(Id::text).collect::<Vec<_>>().join(",")),
        }
    }

    #[test]
    fn lines_come_out_the_same_however_the_bytes_are_cut() {
        let cases: &[(&str, &[&str])] = &[
            ("a\nb\n", &["a", "b"]),
            ("a\r\nb\r\n\r\n", &["a", "b"]),
            ("\n\n \n\t\r\na\n", &["a"]),
            ("a", &["a"]),
            ("\u{feff}a\n\u{feff}b\n", &["a", "\u{feff}b"]),
            ("é漢x\n", &["é漢x"]),
            ("12345678\n123456789\nx\n", &["12345678", "!", "x"]),
            ("12345678\r\n", &["12345678"]),
            ("\u{feff}12345678\r\n", &["12345678"]),
            ("{\"id\":4,\"method\":\"x\"}\nok\n", &["!4", "ok"]),
            ("{\"params\":\"0123456789\",\"method\":0,\"id\":5}\n{}\n", &["!5", "{}"]),
        ];
        for (text, want) in cases {
            for pieces in cuts(text.as_bytes()) {
                assert_eq!(read(&pieces, 8), *want, "{text:?} as {pieces:?}");
            }
        }
    }
}
