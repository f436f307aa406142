//! `sse`: an event stream gives the same events however the bytes are cut, the
//! events that the standard's own words give, and holds no more than it may.

use crate::cut::cuts;
use crate::wire::message::Id;
use crate::wire::sse::{Sse, TooLong};

/// The longest data of an event in these runs.
const MAX: usize = 60;
/// Longer values of small fields are cut off, which the standard does not know.
const LONGEST_INPUT: usize = 4096;

/// Everything that came of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    events: Vec<(Vec<u8>, Data)>,
    id: Vec<u8>,
    retry: Option<u64>,
}

/// The data of an event; over the limit, the id of the answer that it was.
type Data = Result<Vec<u8>, Option<String>>;

pub(crate) fn sse(data: &[u8]) {
    if data.len() > LONGEST_INPUT {
        return;
    }
    let [whole, others @ ..] = cuts(data).map(|pieces| read(&pieces));
    for other in others {
        assert_eq!(other, whole);
    }
    let mut plain = whole;
    plain.events.iter_mut().for_each(|(_, data)| *data = std::mem::replace(data, Err(None)).map_err(|_| None));
    assert_eq!(plain, slow(data));
}

fn read(pieces: &[&[u8]]) -> Read {
    let mut sse = Sse::new(MAX);
    let mut events = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(event) = sse.next(&mut input) {
            let over = |TooLong(id): TooLong| id.as_ref().map(Id::text).map(str::to_owned);
            events.push((event.kind, event.data.map_err(over)));
        }
        assert!(input.is_empty());
        assert!(sse.held() <= MAX);
    }
    Read { events, id: sse.last_event_id().to_vec(), retry: sse.retry() }
}

/// HTML standard, server-sent events, interpreting an event stream. An id counts
/// once its block is over.
fn slow(bytes: &[u8]) -> Read {
    let mut read = Read::default();
    let (mut kind, mut id, mut data) = (Vec::new(), Vec::new(), None::<Vec<u8>>);
    for line in lines(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)) {
        if line.is_empty() {
            read.id.clone_from(&id);
            let kind = std::mem::take(&mut kind);
            read.events.extend(data.take().map(|data| (kind, if data.len() > MAX { Err(None) } else { Ok(data) })));
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                data = Some(data.map_or(value.to_vec(), |before| [before.as_slice(), value].join(&b"\n"[..])));
            }
            b"event" => kind = value.to_vec(),
            b"id" if !value.contains(&0) => id = value.to_vec(),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                read.retry = Some(String::from_utf8_lossy(value).parse().unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }
    read
}

/// The lines that have ended, by CR, LF or both.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut out) = (bytes, Vec::new());
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        out.push(&rest[..end]);
        let both = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + 1 + usize::from(both)..];
    }
    out
}
