//! Masks credentials that a peer repeats: a server may quote a token in the error that
//! rejects it. The mask replaces each byte with a star, so that lengths stay correct. It
//! misses a credential that arrives in two pieces or is shorter than any good one. If an
//! ellipsis shows that a text was cut, it also masks the beginning of a credential before
//! it.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use memchr::memmem::Finder;

/// A shorter word is often part of other text.
const SHORTEST: usize = 8;
/// The same for the beginning of a credential.
const SHORTEST_BEGINNING: usize = 4;
const ELLIPSIS: &[u8] = "…".as_bytes();

/// How many words to remember; tokens that were renewed long ago are no longer good.
const MOST_WORDS: usize = 256;

/// All secrets of the process. Some become known only later.
pub struct Mask(RwLock<Vec<Word>>);

/// A word of a secret, and how to find it.
struct Word {
    text: Vec<u8>,
    /// As text in the recording, and as JSON text within that.
    forms: [Secret; 2],
}

struct Secret {
    finder: Finder<'static>,
    /// The length in bytes before JSON escaping.
    length: usize,
}

impl Mask {
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mask = Self(RwLock::default());
        secrets.into_iter().for_each(|secret| mask.add(secret));
        mask
    }

    /// Masks each word of a secret from now on: in `Bearer TOKEN`, the second one matters.
    pub fn add(&self, secret: &[u8]) {
        let mut words = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for text in secret.split(|byte| b" \t,;=".contains(byte)).filter(|word| word.len() >= SHORTEST) {
            if words.iter().all(|word| word.text != text) {
                let forms = [Secret::new(text), Secret::new(&escaped(text))];
                words.push(Word { text: text.to_vec(), forms });
            }
        }
        let surplus = words.len().saturating_sub(MOST_WORDS);
        words.drain(..surplus);
    }

    /// Whether a text holds one of the secrets.
    pub fn is_in(&self, text: &[u8]) -> bool {
        self.read().iter().any(|word| memchr::memmem::find(text, &word.text).is_some())
    }

    /// Masks every secret in a line.
    pub fn cover(&self, line: &mut Vec<u8>) {
        let words = self.read();
        for Secret { finder, length } in words.iter().flat_map(|word| &word.forms) {
            let found: Vec<usize> = finder.find_iter(line).collect();
            for at in found.into_iter().rev() {
                line.splice(at..at + finder.needle().len(), std::iter::repeat_n(b'*', *length));
            }
        }
        let cuts: Vec<usize> = memchr::memmem::find_iter(line, ELLIPSIS).collect();
        for cut in cuts {
            cover_beginning(&words, line.get_mut(..cut).unwrap_or_default());
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Word>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Masks the beginning of a secret at the end of a text.
fn cover_beginning(words: &[Word], text: &mut [u8]) {
    let beginnings = words.iter().flat_map(|word| &word.forms).flat_map(|secret| {
        let needle = secret.finder.needle();
        (SHORTEST_BEGINNING..needle.len()).filter_map(|length| needle.get(..length))
    });
    let covered = beginnings.filter(|beginning| text.ends_with(beginning)).map(<[u8]>::len).max().unwrap_or(0);
    text.iter_mut().rev().take(covered).for_each(|byte| *byte = b'*');
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
