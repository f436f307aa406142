//! The simulated client: writes a handshake, requests, cancels and nonsense on
//! its own schedule, and answers what the server asks.

use crate::dice::{Chance, Dice, Owner};
use crate::weather::{LONGEST, Weather};
use serde_json::Value;
use std::collections::VecDeque;

/// A line and what it claims of the machine.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) claims: Vec<Claim>,
}

/// What the model has to know of a line.
#[derive(Debug, Clone)]
pub(crate) enum Claim {
    /// A request under this id; `mark` is known again at the server.
    Request {
        id: String,
        mark: u64,
        method: &'static str,
    },
    /// A request that must be refused.
    Broken {
        id: String,
    },
    Cancel {
        id: String,
    },
    /// An answer to a question of the server.
    Answer {
        id: String,
    },
}

#[derive(Debug)]
pub(crate) struct Client {
    dice: Dice,
    /// Lines still to write, each after a pause.
    script: VecDeque<(u64, Line)>,
    /// Nothing is written until `initialize` is answered.
    waits: bool,
    hasty: bool,
    /// It cannot say anything without a session.
    http: bool,
    large: bool,
}

const ANSWERS: [&str; 2] = [r#""result":{"ok":true}"#, r#""error":{"code":-1,"message":"no"}"#];
const NONSENSE: [&str; 5] = ["", "nonsense", "{\"id\":4}", "[]", "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}"];
const METHODS: [&str; 9] = [
    "tools/call",
    "tools/call",
    "tools/call",
    "tools/list",
    "resources/read",
    "resources/subscribe",
    "logging/setLevel",
    "prompts/get",
    "ping",
];

impl Client {
    /// A client that makes the requests whose bits are set.
    pub(crate) fn new(chance: Chance<'_>, weather: &Weather, requests: u64) -> Self {
        let dice = chance.dice(Owner::Client);
        let (hasty, large) = (weather.hasty, weather.large);
        let http = weather.caller.is_some();
        let mut client = Self { dice, script: VecDeque::new(), waits: false, hasty, http, large };
        client.greet("0", 0);
        for mark in 1..=u64::from(u64::BITS - requests.leading_zeros()) {
            let before = client.script.len();
            client.ask(mark);
            if requests >> (mark - 1) & 1 == 0 {
                client.script.truncate(before);
            }
        }
        client
    }

    /// The pause before the next line, if there is one to write now.
    pub(crate) fn pause(&self) -> Option<u64> {
        self.script.front().filter(|_| !self.waits).map(|(pause, _)| *pause)
    }

    pub(crate) fn write(&mut self) -> Option<Line> {
        let (_, line) = self.script.pop_front()?;
        let greeting = line.claims.iter().any(|claim| matches!(claim, Claim::Request { mark: 0, .. }));
        self.waits = greeting && (self.http || !self.hasty);
        Some(line)
    }

    pub(crate) fn done(&self) -> bool {
        self.script.is_empty()
    }

    /// Reads a line; returns a line of its own, and when.
    pub(crate) fn read(&mut self, value: &Value) -> Option<(u64, Line)> {
        let id = value.get("id")?;
        if value.get("method").is_none() {
            self.waits &= *id != 0;
            return None;
        }
        let answer = self.dice.pick(&ANSWERS, "\"result\":{}");
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}");
        let claim = Claim::Answer { id: id.to_string() };
        Some((self.dice.between(0, 3000), Line { text, claims: vec![claim] }))
    }

    fn greet(&mut self, id: &str, mark: u64) {
        let params = format!(
            r#"{{"n":{mark},"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}"#
        );
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"initialize\",\"params\":{params}}}");
        self.put(text, vec![Claim::Request { id: id.to_owned(), mark, method: "initialize" }]);
        self.put(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(), Vec::new());
    }

    fn put(&mut self, text: String, claims: Vec<Claim>) {
        let pause = if self.hasty { 0 } else { self.dice.between(0, 1500) };
        self.script.push_back((pause, Line { text, claims }));
    }

    fn ask(&mut self, mark: u64) {
        let id = if self.dice.chance(50) { mark.to_string() } else { format!("\"{mark}\"") };
        match self.dice.between(0, 39) {
            0 => self.broken(&id),
            1 | 2 => self.nonsense(),
            3 | 4 => self.batch(&id, mark),
            5 => self.greet(&id, mark),
            6 if self.large => self.too_long(&id),
            _ => {
                let (text, claim) = self.request(&id, mark);
                self.put(text, vec![claim]);
            }
        }
        match self.dice.between(0, 19) {
            0..=2 => self.cancel(&id),
            3 => {
                let (text, claim) = self.request(&id, mark + 1000);
                self.put(text, vec![claim]);
            }
            4 => self.put(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#.to_owned(), Vec::new()),
            _ => {}
        }
    }

    fn request(&mut self, id: &str, mark: u64) -> (String, Claim) {
        let method = self.dice.pick(&METHODS, "tools/call");
        let token =
            if self.dice.chance(50) { format!(",\"_meta\":{{\"progressToken\":{mark}}}") } else { String::new() };
        let filler = if self.large && method == "tools/call" { self.dice.pick(&[0, 100_000], 0) } else { 0 };
        let params = format!("{{\"n\":{mark},\"uri\":\"a:{mark}\"{token},\"f\":\"{}\"}}", "z".repeat(filler));
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}");
        (text, Claim::Request { id: id.to_owned(), mark, method })
    }

    fn broken(&mut self, id: &str) {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":[}}}}");
        self.put(text, vec![Claim::Broken { id: id.to_owned() }]);
    }

    fn too_long(&mut self, id: &str) {
        let text = format!("{{\"id\":{id},\"method\":\"tools/call\",\"params\":\"{}\"}}", "z".repeat(LONGEST));
        self.put(text, vec![Claim::Broken { id: id.to_owned() }]);
    }

    fn nonsense(&mut self) {
        let text = self.dice.pick(&NONSENSE, "").to_owned();
        self.put(text, Vec::new());
    }

    fn batch(&mut self, id: &str, mark: u64) {
        let (one, first) = self.request(id, mark);
        let (two, second) = self.request(&format!("\"b{mark}\""), mark + 2000);
        self.put(format!("[{one},{{\"method\":\"notifications/x\"}},{two}]"), vec![first, second]);
    }

    fn cancel(&mut self, id: &str) {
        let params = format!("{{\"requestId\":{id}}}");
        let text = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{params}}}");
        self.put(text, vec![Claim::Cancel { id: id.to_owned() }]);
    }
}
