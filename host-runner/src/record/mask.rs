//! Masks credentials that a peer repeats: a server may quote a token in the error that
//! rejects it. The mask replaces each byte with a star, so that lengths stay correct. It
//! misses a credential that arrives in two pieces or is shorter than any good one. If an
//! ellipsis shows that a text was cut, it also masks the beginning of a credential before
//! it.

use memchr::memmem::Finder;

/// A shorter word is often part of other text.
const SHORTEST: usize = 8;
/// The same for the beginning of a credential.
const SHORTEST_BEGINNING: usize = 4;
const ELLIPSIS: &[u8] = "…".as_bytes();

pub struct Mask(Vec<Secret>);

struct Secret {
    finder: Finder<'static>,
    /// The length in bytes before JSON escaping.
    length: usize,
}

impl Mask {
    /// Masks each word of a secret: in `Bearer TOKEN`, the second one matters.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let words = secrets.into_iter().flat_map(|secret| secret.split(|byte| b" \t,;=".contains(byte)));
        let words = words.filter(|word| word.len() >= SHORTEST);
        // As text in the recording, and as JSON text within that.
        Self(words.flat_map(|word| [Secret::new(word), Secret::new(&escaped(word))]).collect())
    }

    /// Masks every secret in a line.
    pub fn cover(&self, line: &mut Vec<u8>) {
        for Secret { finder, length } in &self.0 {
            let found: Vec<usize> = finder.find_iter(line).collect();
            for at in found.into_iter().rev() {
                line.splice(at..at + finder.needle().len(), std::iter::repeat_n(b'*', *length));
            }
        }
        let cuts: Vec<usize> = memchr::memmem::find_iter(line, ELLIPSIS).collect();
        for cut in cuts {
            self.cover_beginning(line.get_mut(..cut).unwrap_or_default());
        }
    }

    /// Masks the beginning of a secret at the end of a text.
    fn cover_beginning(&self, text: &mut [u8]) {
        let beginnings = self.0.iter().flat_map(|secret| {
            let needle = secret.finder.needle();
            (SHORTEST_BEGINNING..needle.len()).filter_map(|length| needle.get(..length))
        });
        let covered = beginnings.filter(|beginning| text.ends_with(beginning)).map(<[u8]>::len).max().unwrap_or(0);
        text.iter_mut().rev().take(covered).for_each(|byte| *byte = b'*');
    }
}

impl Secret {
    fn new(bytes: &[u8]) -> Self {
        Self { finder: Finder::new(&escaped(bytes)).into_owned(), length: bytes.len() }
    }
}

/// Escapes bytes for a JSON string. Headers have no control characters.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| matches!(byte, b'"' | b'\\').then_some(b'\\');
    bytes.iter().flat_map(|byte| escape(byte).into_iter().chain([*byte])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(secret: &str, line: &str) -> String {
        let mut line = line.as_bytes().to_vec();
        Mask::new([secret.as_bytes()]).cover(&mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_secret_is_covered_wherever_it_stands() {
        let cases = [
            ("Bearer abcdefgh", "no abcdefgh, Bearer abcdefghi", "no ********, Bearer ********i"),
            ("abcdefgh", "abcdefghabcdefgh", "****************"),
            ("short", "short", "short"),
            ("a=12345678; b=23456789", "b=23456789", "b=********"),
            ("Basic MTIzNDU2Nzg=", "MTIzNDU2Nzg", "***********"),
            (r#"abcd"efgh"#, r#"x abcd\"efgh"#, "x *********"),
            (r#"abcd"efgh"#, r#"x abcd\\\"efgh"#, "x **********"),
            ("abcdefgh", "", ""),
            ("********", "*********", "*********"),
            ("abcdefgh", "x abcd… abcdefg…", "x ****… *******…"),
            ("abcdefgh", "abc… abcd", "abc… abcd"),
        ];
        for (secret, line, expected) in cases {
            assert_eq!(covered(secret, line), expected);
        }
    }
}
