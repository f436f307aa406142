//! Headers as text: name, value, name, value…, one per line. So all of them cross between
//! WebAssembly and JavaScript in one string.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Parses headers and skips invalid ones.
pub(crate) fn read(lines: &str) -> HeaderMap {
    let mut lines = lines.split('\n');
    let pairs = std::iter::from_fn(|| Some((lines.next()?, lines.next()?)));
    let known = |(name, value): (&str, &str)| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    };
    pairs.filter_map(known).collect()
}

/// Writes headers. No name may occur twice.
pub(crate) fn write(headers: &HeaderMap) -> String {
    headers.iter().fold(String::new(), |lines, (name, value)| {
        lines + name.as_str() + "\n" + &String::from_utf8_lossy(value.as_bytes()) + "\n"
    })
}
