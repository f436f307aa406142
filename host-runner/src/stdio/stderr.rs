//! Stderr of a component: what begins with a record separator (RFC 7464) is a
//! line of the recording, every other line is for people.

use std::{
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
use crate::{note, record::Recording};

const SEPARATOR: u8 = 0x1e;
/// The most that one write may bring.
const PERMIT: usize = 64 * 1024;

/// A handle on stderr; clones share the one stream.
#[derive(Clone)]
pub struct Stderr(Arc<Mutex<Splitter>>);

impl Stderr {
    pub fn new(mut recording: Option<Recording>) -> Self {
        let record = move |line| {
            if let Some(recording) = &mut recording {
                recording.write(line);
            }
        };
        Self(Arc::new(Mutex::new(Splitter::new(Notes, record))))
    }
}

/// Lines for people.
struct Notes;

impl Write for Notes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        note::write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Splitter {
    place: Place,
    notes: Box<dyn Write + Send>,
    record: Box<dyn FnMut(Vec<u8>) + Send>,
}

/// Where the next byte belongs.
enum Place {
    LineStart,
    Note,
    /// In a line of the recording, of which this has come.
    Record(Vec<u8>),
}

impl Splitter {
    fn new(notes: impl Write + Send + 'static, record: impl FnMut(Vec<u8>) + Send + 'static) -> Self {
        Self { place: Place::LineStart, notes: Box::new(notes), record: Box::new(record) }
    }

    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.place = self.piece(piece);
        }
    }

    /// Takes what belongs to one line; says where the next byte belongs.
    fn piece(&mut self, piece: &[u8]) -> Place {
        let whole = piece.ends_with(b"\n");
        match (std::mem::replace(&mut self.place, Place::LineStart), piece) {
            (Place::LineStart, [SEPARATOR, rest @ ..]) => self.recorded(rest.to_vec(), whole),
            (Place::LineStart | Place::Note, _) => {
                // A closed stderr is nobody's problem.
                let _ = self.notes.write_all(piece);
                if whole { Place::LineStart } else { Place::Note }
            }
            (Place::Record(mut line), _) => {
                line.extend_from_slice(piece);
                self.recorded(line, whole)
            }
        }
    }

    fn recorded(&mut self, line: Vec<u8>, whole: bool) -> Place {
        if !whole {
            return Place::Record(line);
        }
        (self.record)(line);
        Place::LineStart
    }
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
        let bytes = b"one\n\x1efirst\n\x1esecond\n\ntwo \x1e too\n\x1ethird\nlast";
        for size in 1..=bytes.len() {
            let (notes, record) = (Heard::default(), Heard::default());
            let mut taken = record.clone();
            let mut splitter = Splitter::new(notes.clone(), move |line| taken.write_all(&line).unwrap());
            bytes.chunks(size).for_each(|chunk| splitter.write(chunk));
            assert_eq!(text(&notes), "one\n\ntwo \x1e too\nlast", "{size}");
            assert_eq!(text(&record), "first\nsecond\nthird\n", "{size}");
        }
    }
}
