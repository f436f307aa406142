//! `lines`: newline framing gives the same lines however the bytes are cut, the
//! lines that a slow and obvious reader gives, and holds no more than it may.

use crate::cut::cuts;
use crate::wire::lines::{Line, Lines};
use crate::wire::message::Id;
use serde_json::Value;

/// What may stand around a line and does not count: a mark and a CR.
const AROUND: usize = 4;

/// How lines are read; from the first byte of the input.
#[derive(Debug, Clone, Copy)]
struct Setting {
    max: usize,
    lenient: bool,
    marked: bool,
}

/// A line as text, or one over the limit and the ids of the requests in it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Read {
    Whole(Vec<u8>),
    TooLong(Vec<String>),
}

pub(crate) fn lines(data: &[u8]) {
    let Some((&first, bytes)) = data.split_first() else { return };
    let setting = Setting { max: usize::from(first >> 2), lenient: first & 1 == 0, marked: first & 2 == 0 };
    let [whole, others @ ..] = cuts(bytes).map(|pieces| read(&pieces, setting));
    for other in others {
        assert_eq!(other, whole, "{setting:?}");
    }
    let slow = slow(bytes, setting);
    assert_eq!(whole.len(), slow.len(), "{setting:?} {whole:?} {slow:?}");
    for (read, line) in whole.iter().zip(slow) {
        match read {
            Read::Whole(text) => assert_eq!(text, line),
            Read::TooLong(ids) => {
                assert!(line.len() > setting.max, "{line:?} is not too long");
                plain_ids(line).into_iter().for_each(|plain| assert_eq!(*ids, plain));
            }
        }
    }
}

fn read(pieces: &[&[u8]], setting: Setting) -> Vec<Read> {
    let mut lines = Lines::new(setting.max, setting.lenient, setting.marked);
    let mut out = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(line) = lines.next(&mut input) {
            out.push(owned(line));
        }
        assert!(input.is_empty());
        assert!(lines.held() <= setting.max + AROUND);
    }
    out.extend(lines.last().map(owned));
    out
}

fn owned(line: Line<'_>) -> Read {
    match line {
        Line::Whole(text) => Read::Whole(text.into_owned()),
        Line::TooLong(ids) => Read::TooLong(ids.iter().map(Id::text).map(str::to_owned).collect()),
    }
}

/// The lines, without their ends and without those that do not count.
fn slow(bytes: &[u8], setting: Setting) -> Vec<&[u8]> {
    let count = bytes.split(|byte| *byte == b'\n').count();
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.map(|(index, line)| {
        let mark: &[u8] = if index == 0 && setting.marked { b"\xEF\xBB\xBF" } else { b"" };
        let line = line.strip_prefix(mark).unwrap_or(line);
        let line = if setting.lenient { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        (index + 1 == count, line)
    });
    let counts = |last: bool, line: &[u8]| !line.trim_ascii().is_empty() || !(setting.lenient || last);
    lines.filter(|(last, line)| line.len() > setting.max || counts(*last, line)).map(|(_, line)| line).collect()
}

/// The ids of the requests in a line, if they are written without tricks.
fn plain_ids(line: &[u8]) -> Option<Vec<String>> {
    let text = std::str::from_utf8(line).ok().filter(|text| !text.contains('\\'))?;
    let once = |name: &str, all: usize| text.matches(name).count() == all;
    let value = serde_json::from_str::<Value>(text).ok()?;
    let members = value.as_array().map_or_else(|| std::slice::from_ref(&value), Vec::as_slice);
    let plain = |id: &Value| id.is_u64() || id.as_str().is_some_and(|id| id.len() < 2000);
    let ids =
        members.iter().filter_map(|member| member.get("id").filter(|id| plain(id) && member.get("method").is_some()));
    let ids: Vec<String> = ids.map(Value::to_string).collect();
    let all = members.len();
    (ids.len() == all && once("\"id\"", all) && once("\"method\"", all)).then_some(ids)
}
