//! Finds the `id` of a JSON-RPC message that is too long to keep, or broken, and those of
//! the messages in a batch. The scan reads byte by byte, holds a bounded number of bounded
//! ids, and never fails.

use crate::wire::message::Id;

/// Longest member name or id to inspect: longer than any id that the proxy accepts.
const LONGEST: usize = 2 << 10;
/// Most requests of a batch to find.
const MOST_REQUESTS: usize = 1000;

/// An incremental scan: feed it a message's bytes in order.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    depth: u32,
    /// The depth of the members of a message: 1, or 2 in a batch. 0 before any bracket.
    level: u32,
    in_string: bool,
    escaped: bool,
    in_value: bool,
    name: Vec<u8>,
    value: Vec<u8>,
    id: Option<Id>,
    has_method: bool,
    /// The requests of a batch.
    batch: Vec<Id>,
}

impl Scan {
    /// Scans a complete message.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut scan = Self::default();
        scan.feed(bytes);
        scan
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    /// The id, if the scanned part is a request.
    pub(crate) fn request_id(self) -> Option<Id> {
        self.id.filter(|_| self.has_method)
    }

    /// The ids of the requests in the scanned part: one, or those of a batch.
    pub(crate) fn request_ids(mut self) -> Vec<Id> {
        self.end_message();
        self.batch
    }

    /// The id, if the scanned part is an answer.
    pub(crate) fn answer_id(self) -> Option<Id> {
        self.id.filter(|_| !self.has_method)
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            return self.step_in_string(byte);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                if self.level == 0 {
                    self.level = if byte == b'[' { 2 } else { 1 };
                }
                self.depth = self.depth.saturating_add(1);
            }
            b'}' | b']' => {
                self.end_member();
                if self.depth == 2 && self.level == 2 {
                    self.end_message();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b',' => self.end_member(),
            b':' if self.is_in_message() => self.in_value = true,
            byte if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
    }

    fn step_in_string(&mut self, byte: u8) {
        self.keep(byte);
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
        }
    }

    fn keep(&mut self, byte: u8) {
        let in_message = self.is_in_message();
        let place = if self.in_value { &mut self.value } else { &mut self.name };
        if in_message && place.len() < LONGEST {
            place.push(byte);
        }
    }

    fn is_in_message(&self) -> bool {
        self.depth > 0 && self.depth == self.level
    }

    fn end_message(&mut self) {
        let request = self.id.take().filter(|_| std::mem::take(&mut self.has_method));
        let room = MOST_REQUESTS.saturating_sub(self.batch.len());
        self.batch.extend(request.into_iter().take(room));
        self.has_method = false;
    }

    fn end_member(&mut self) {
        if !self.is_in_message() {
            return;
        }
        match self.name.as_slice() {
            b"\"id\"" => self.id = std::str::from_utf8(&self.value).ok().and_then(Id::parse),
            b"\"method\"" => self.has_method = true,
            _ => {}
        }
        self.name.clear();
        self.value.clear();
        self.in_value = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_found_wherever_it_stands_at_the_top_level() {
        let cases: &[(&str, Option<&str>)] = &[
            (r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"#, Some("5")),
            (r#"{"method":"x","params":{"id":7,"a":[1,{"id":8}]},"id":"nine"}"#, Some("\"nine\"")),
            (r#"{"method":"x","params":{"t":"\"id\":4,}"},"id":12,"#, Some("12")),
            (r#"{ "id" : "a\"b" , "method" : "x" }"#, Some(r#""a\"b""#)),
            (r#"{"method":"x","id":12"#, None),
            (r#"{"method":"x","id":null}"#, None),
            (r#"{"method":"x","id":{"a":1}}"#, None),
            (r#"{"id":3,"result":{}}"#, None),
            ("", None),
            ("]]]}}}{{{", None),
        ];
        for (text, want) in cases {
            let got = Scan::of(text.as_bytes()).request_id();
            assert_eq!(got.as_ref().map(Id::text), *want, "{text}");
        }
    }

    #[test]
    fn the_requests_of_a_batch_are_found() {
        let long = format!(r#"[{{"method":"x","id":"{}"}}]"#, "i".repeat(1500));
        let cases: &[(&str, usize)] = &[
            (r#"[{"id":1,"method":"x"},{"method":"y","params":{"id":2}},{"id":"3","method":"z"}]"#, 2),
            (r#" [{"id":1,"result":{}},{"id":2,"method":"x","params":[{"id":3,"method":"x"}]},{"id":4,"#, 1),
            (r#"{"method":"x","params":[],"id":5}"#, 1),
            (&long, 1),
            ("[[{\"id\":1,\"method\":\"x\"}]]", 0),
            ("[1,2,3]", 0),
        ];
        for (text, want) in cases {
            assert_eq!(Scan::of(text.as_bytes()).request_ids().len(), *want, "{text}");
        }
        let many = format!("[{}", r#"{"id":1,"method":"x"},"#.repeat(MOST_REQUESTS + 1));
        assert_eq!(Scan::of(many.as_bytes()).request_ids().len(), MOST_REQUESTS);
    }

    #[test]
    fn an_answer_has_an_id_and_no_method() {
        let cases = [(r#"{"result":{"id":1},"id":3}"#, Some("3")), (r#"{"id":3,"method":"x"}"#, None), ("{}", None)];
        for (text, want) in cases {
            let got = Scan::of(text.as_bytes()).answer_id();
            assert_eq!(got.as_ref().map(Id::text), want, "{text}");
        }
    }
}
