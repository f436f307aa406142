//! Stderr of a component. A line that begins with a record separator (RFC 7464) belongs
//! to the recording, one that begins with a group separator to the journal. Every other
//! line is for people.

use std::{
    borrow::Cow,
    io::{self, Write},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamResult},
};

use super::lock;
use crate::{
    journal::{self, Journal},
    note,
    record::{Mask, Recording},
};

const RECORD: u8 = 0x1e;
/// The size limit of one write.
const PERMIT: usize = 64 * 1024;

/// A handle on stderr; clones share the stream.
#[derive(Clone)]
pub struct Stderr(Arc<Mutex<Splitter>>);

impl Stderr {
    /// With a `mask`, masks the lines for people.
    pub fn new(mut recording: Option<Recording>, journal: Option<Journal>, mask: Option<Arc<Mask>>) -> Self {
        let keep = move |kind: u8, line: Vec<u8>| match (kind, &mut recording, &journal) {
            (RECORD, Some(recording), _) => recording.write(line),
            (journal::SEPARATOR, _, Some(journal)) => journal.line(line.trim_ascii_end()),
            _ => {}
        };
        Self(Arc::new(Mutex::new(Splitter::new(Notes { mask, line: Vec::new() }, keep))))
    }
}

/// Lines for people.
struct Notes {
    mask: Option<Arc<Mask>>,
    /// The beginning of a line that the mask needs as a whole.
    line: Vec<u8>,
}

impl Write for Notes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(mask) = &self.mask else {
            note::write(bytes);
            return Ok(bytes.len());
        };
        self.line.extend_from_slice(bytes);
        if self.line.ends_with(b"\n") {
            mask.cover(&mut self.line);
            note::write(&self.line);
            self.line.clear();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Splitter {
    place: Place,
    notes: Box<dyn Write + Send>,
    /// Receives the lines that are not for people, with their first byte.
    keep: Box<dyn FnMut(u8, Vec<u8>) + Send>,
}

/// Where the next byte belongs.
enum Place {
    LineStart,
    Note,
    /// In a recording or journal line; holds its kind and beginning.
    Kept(u8, Vec<u8>),
}

impl Splitter {
    fn new(notes: impl Write + Send + 'static, keep: impl FnMut(u8, Vec<u8>) + Send + 'static) -> Self {
        Self { place: Place::LineStart, notes: Box::new(notes), keep: Box::new(keep) }
    }

    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.place = self.piece(piece);
        }
    }

    /// Handles a piece of one line. Returns where the next byte belongs.
    fn piece(&mut self, piece: &[u8]) -> Place {
        let whole = piece.ends_with(b"\n");
        match (std::mem::replace(&mut self.place, Place::LineStart), piece) {
            (Place::LineStart, [kind @ (RECORD | journal::SEPARATOR), rest @ ..]) => {
                self.kept(*kind, rest.to_vec(), whole)
            }
            (Place::LineStart | Place::Note, _) => {
                // Ignore a closed stderr.
                let _ = self.notes.write_all(&harmless(piece));
                if whole { Place::LineStart } else { Place::Note }
            }
            (Place::Kept(kind, mut line), _) => {
                line.extend_from_slice(piece);
                self.kept(kind, line, whole)
            }
        }
    }

    fn kept(&mut self, kind: u8, line: Vec<u8>, whole: bool) -> Place {
        if !whole {
            return Place::Kept(kind, line);
        }
        (self.keep)(kind, line);
        Place::LineStart
    }
}

/// Escapes control characters: a component must not control the terminal.
fn harmless(piece: &[u8]) -> Cow<'_, [u8]> {
    let steers = |byte: u8| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\t');
    if !piece.iter().any(|byte| steers(*byte)) {
        return Cow::Borrowed(piece);
    }
    let shown = |byte: &u8| if steers(*byte) { byte.escape_ascii().collect() } else { vec![*byte] };
    piece.iter().flat_map(shown).collect()
}

impl IsTerminal for Stderr {
    fn is_terminal(&self) -> bool {
        io::IsTerminal::is_terminal(&io::stderr())
    }
}

impl StdoutStream for Stderr {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    /// For WASI 0.3 only, which this host does not offer.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::empty())
    }
}

#[async_trait]
impl OutputStream for Stderr {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        lock(&self.0).write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

#[async_trait]
impl Pollable for Stderr {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<u8>>>);

    impl Write for Heard {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn text(heard: &Heard) -> String {
        String::from_utf8(lock(&heard.0).clone()).unwrap()
    }

    #[test]
    fn notes_and_records_are_told_apart_however_they_are_cut() {
        let bytes = b"one\n\x1efirst\n\x1dsecond\n\ntwo \x1e too\n\x1ethird\nlast\x1b[2J";
        for size in 1..=bytes.len() {
            let (notes, record) = (Heard::default(), Heard::default());
            let mut taken = record.clone();
            let mut splitter = Splitter::new(notes.clone(), move |_, line| taken.write_all(&line).unwrap());
            bytes.chunks(size).for_each(|chunk| splitter.write(chunk));
            assert_eq!(text(&notes), "one\n\ntwo \\x1e too\nlast\\x1b[2J", "{size}");
            assert_eq!(text(&record), "first\nsecond\nthird\n", "{size}");
        }
    }
}
