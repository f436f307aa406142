//! The books of calls and answers: every id is answered once, with what was
//! sent. Only open ids are kept. A text is its id and a fixed tail with
//! multi-byte and escaped characters, so that the answer that must come is known
//! without keeping it.
use crate::{msg, payload};
use std::collections::HashSet;

/// More wrong answers than this end a soak.
const MOST_WRONG: u64 = 100;
const SAMPLES: usize = 3;

pub struct Ledger {
    next: u64,
    open: HashSet<u64>,
    tail: String,
    pub right: u64,
    wrong: u64,
    samples: Vec<String>,
}

impl Ledger {
    /// Ids from `first` on; texts of about `size` bytes.
    pub fn new(first: u64, size: usize) -> Ledger {
        let quoted = serde_json::to_string(&payload::text(size, 0)).unwrap_or_default();
        let tail = quoted.trim_matches('"').to_owned();
        Ledger { next: first, open: HashSet::new(), tail, right: 0, wrong: 0, samples: vec![] }
    }

    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Another call, with further arguments as JSON members (each with a comma before it).
    pub fn call(&mut self, further: &str) -> String {
        let id = self.next;
        self.next += 1;
        self.open.insert(id);
        let text = [&id.to_string(), ":", self.tail.as_str()].concat();
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"{further}}},"_meta":{{"progressToken":{id}}}}}}}"#
        )
    }

    /// Books an answer. Relayed byte for byte it is this text; any other text is read as JSON.
    pub fn answer(&mut self, line: &[u8]) -> Result<(), String> {
        let known = quick_id(line).filter(|id| line == self.expected(*id).as_bytes());
        let judged = match known {
            Some(id) => Ok(id),
            None => self.read(line),
        };
        match judged {
            Ok(id) if self.open.remove(&id) => self.right += 1,
            Ok(id) => self.complain(format!("a second answer, or one that nobody waits for: {id}")),
            Err(why) => self.complain(why),
        }
        if self.wrong > MOST_WRONG {
            return Err(self.balance().unwrap_err());
        }
        Ok(())
    }

    /// Books an error as the right answer, if it is one.
    pub fn refusal(&mut self, line: &[u8]) {
        let id = msg::parse(line).filter(|m| m.error.is_some()).and_then(|m| m.id?.get().parse().ok());
        match id {
            Some(id) if self.open.remove(&id) => self.right += 1,
            _ => self.complain(format!("no error: {}", clip(line))),
        }
    }

    fn read(&self, line: &[u8]) -> Result<u64, String> {
        let message = msg::parse(line).ok_or_else(|| format!("not JSON: {}", clip(line)))?;
        let id = message.id.and_then(|id| id.get().parse().ok()).ok_or_else(|| format!("no id: {}", clip(line)))?;
        let result = message.result.ok_or_else(|| format!("no result: {}", clip(line)))?;
        let text = serde_json::to_string(&msg::result_text(result)?).unwrap_or_default();
        match text == format!("\"{id}:{}\"", self.tail) {
            true => Ok(id),
            false => Err(format!("another text: {}", clip(line))),
        }
    }

    fn expected(&self, id: u64) -> String {
        let id = id.to_string();
        let parts = [
            r#"{"jsonrpc":"2.0","id":"#,
            &id,
            r#","result":{"content":[{"type":"text","text":""#,
            &id,
            ":",
            &self.tail,
            r#""}]}}"#,
        ];
        parts.concat()
    }

    pub fn complain(&mut self, what: String) {
        self.wrong += 1;
        if self.samples.len() < SAMPLES {
            self.samples.push(what);
        }
    }

    /// Whether all is well, in words.
    pub fn balance(&self) -> Result<String, String> {
        let Ledger { right, wrong, open, samples, .. } = self;
        match *wrong == 0 && open.is_empty() {
            true => Ok(format!("{right} answered, each once and right")),
            false => Err(format!("{right} answered rightly, {wrong} wrong, {} never: {}", open.len(), samples.join("; "))),
        }
    }
}

/// The id, where a message begins as those of the mock do.
fn quick_id(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

pub fn clip(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_and_only_with_its_own_text() {
        let mut ledger = Ledger::new(1, 40);
        ledger.call("");
        ledger.call("");
        let (first, second) = (ledger.expected(1), ledger.expected(2));
        ledger.answer(first.as_bytes()).unwrap();
        assert!(ledger.balance().is_err(), "2 is open");
        ledger.answer(second.replace("\"id\":2", "\"id\": 2").as_bytes()).unwrap();
        assert_eq!(ledger.balance().as_deref(), Ok("2 answered, each once and right"));
        ledger.answer(second.as_bytes()).unwrap();
        assert!(ledger.balance().is_err(), "2 was answered twice");
    }

    #[test]
    fn the_text_of_another_call_is_wrong() {
        let mut ledger = Ledger::new(1, 40);
        ledger.call("");
        ledger.answer(ledger.expected(2).replace("\"id\":2", "\"id\":1").as_bytes()).unwrap();
        assert!(ledger.balance().unwrap_err().contains("another text"));
    }

    #[test]
    fn many_wrong_answers_end_the_run() {
        let mut ledger = Ledger::new(1, 40);
        assert!((0..=MOST_WRONG).any(|_| ledger.answer(b"{}").is_err()));
    }
}
