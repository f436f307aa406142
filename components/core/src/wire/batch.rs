//! A batch of revision 2025-03-26, read one member at a time from the original bytes. A
//! member takes two bytes as JSON and a hundred times that as a message, so nothing here
//! parses the whole batch. The caller decides how many members are enough.

use super::message::{Fault, Malformed, Message, parse_one};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The unread members.
#[derive(Debug, Clone)]
pub struct Batch {
    /// A JSON array.
    bytes: Vec<u8>,
    /// Where to look for the next member.
    at: usize,
}

impl Batch {
    /// Accepts a text that begins with `[`.
    pub(super) fn new(bytes: Vec<u8>) -> Result<Self, Malformed> {
        let fault = |fault| Malformed { id: None, fault };
        if serde_json::from_slice::<IgnoredAny>(&bytes).is_err() {
            return Err(fault(Fault::Syntax));
        }
        let start = memchr::memchr(b'[', &bytes).map_or(bytes.len(), |bracket| bracket + 1);
        let batch = Self { bytes, at: start };
        if batch.rest().is_empty() {
            return Err(fault(Fault::EmptyBatch));
        }
        Ok(batch)
    }

    /// The text from the next member on; empty at the end.
    fn rest(&self) -> &[u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default().trim_ascii_start();
        let rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
        if rest.starts_with(b"]") { &[] } else { rest }
    }
}

impl Iterator for Batch {
    type Item = Result<Message, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest();
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
        let member = values.next()?.ok()?.get().as_bytes();
        let left = rest.len() - values.byte_offset();
        // Copy only objects: nothing else can be a message.
        let read = match member.first() {
            Some(b'{') => parse_one(member.to_vec()),
            _ => Err(Malformed { id: None, fault: Fault::Shape }),
        };
        self.at = self.bytes.len() - left;
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Kind;
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let batch = Batch::new(text.as_bytes().to_vec()).unwrap();
        let show = |member: Result<Message, Malformed>| match member.map(|message| message.kind) {
            Ok(Kind::Request { id, method }) => format!("request {} {method}", id.text()),
            Ok(Kind::Notification { method }) => format!("notification {method}"),
            Ok(Kind::Response { .. }) => "response".to_owned(),
            Err(bad) => format!("{:?}", bad.fault),
        };
        batch.map(show).collect()
    }

    #[test]
    fn members_are_read_one_by_one() {
        let request = r#"{"id":1,"method":"a","params":[{"x":"]},{"}]}"#;
        let cases: &[(String, &[&str])] = &[
            (format!(" [{request},7,{{\"method\":\"b\"}}] "), &["request 1 a", "Shape", "notification b"]),
            (format!("[\n{request} ,\t{request}\n]"), &["request 1 a", "request 1 a"]),
            ("[1,[2],\"x\",null,-1e5]".to_owned(), &["Shape"; 5]),
            ("[{}]".to_owned(), &["Shape"]),
            (r#"[{"id":1,"result":{}}]"#.to_owned(), &["response"]),
        ];
        for (text, want) in cases {
            assert_eq!(read(text), *want, "{text}");
        }
    }

    #[test]
    fn an_array_that_is_empty_or_broken_is_no_batch() {
        let fault = |text: &str| Batch::new(text.as_bytes().to_vec()).unwrap_err().fault;
        assert_eq!(fault("[]"), Fault::EmptyBatch);
        assert_eq!(fault(" [ \n ] "), Fault::EmptyBatch);
        for broken in ["[", "[1", "[1,]", "[,]", "[1 2]", "[1]]", "[{]"] {
            assert_eq!(fault(broken), Fault::Syntax, "{broken}");
        }
    }

    #[test]
    fn a_long_batch_holds_nothing_but_its_bytes() {
        let text = format!("[{}1]", "1,".repeat(500_000));
        let mut batch = Batch::new(text.into_bytes()).unwrap();
        assert!(batch.by_ref().take(1000).all(|member| member.is_err()));
        assert_eq!(batch.count(), 500_001 - 1000);
    }
}
