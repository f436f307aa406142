//! Bytes as JSON: a string if they are UTF-8, otherwise a list of strings that alternates
//! between text and hexadecimal digits, so that text stays readable. Both forms restore
//! the same bytes.

use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, [u8]>);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let pieces = self.0.utf8_chunks().map(|chunk| [chunk.valid().into(), digits(chunk.invalid())]);
                serializer.collect_seq(pieces.flatten())
            }
        }
    }
}

fn digits(bytes: &[u8]) -> Cow<'static, str> {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl<'de> Deserialize<'de> for Text<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_any(Bytes)?;
        Ok(Self(Cow::Owned(bytes)))
    }
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or a list of texts and hexadecimal digits by turns")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.as_bytes().to_vec())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(text.into_bytes())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pieces: A) -> Result<Self::Value, A::Error> {
        let mut bytes = Vec::new();
        while let Some(text) = pieces.next_element::<String>()? {
            bytes.extend_from_slice(text.as_bytes());
            let digits = pieces.next_element::<String>()?.unwrap_or_default();
            let raw = parse(&digits).ok_or_else(|| Error::invalid_value(Unexpected::Str(&digits), &self))?;
            bytes.extend(raw);
        }
        Ok(bytes)
    }
}

/// Parses hexadecimal digits.
fn parse(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
