//! Headers as text: name, value, name, value…, a line each. So they cross
//! between WebAssembly and JavaScript all at once.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Headers, of lines. What cannot be one is left out.
pub(crate) fn read(lines: &str) -> HeaderMap {
    let mut lines = lines.split('\n');
    let pairs = std::iter::from_fn(|| Some((lines.next()?, lines.next()?)));
    let known = |(name, value): (&str, &str)| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    };
    pairs.filter_map(known).collect()
}

/// The same the other way round. No name stands there twice.
pub(crate) fn write(headers: &HeaderMap) -> String {
    headers.iter().fold(String::new(), |lines, (name, value)| {
        lines + name.as_str() + "\n" + &String::from_utf8_lossy(value.as_bytes()) + "\n"
    })
}
