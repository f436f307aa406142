//! The simulated client: it writes a handshake, requests, cancellations and invalid lines
//! on its own schedule, and answers the server's questions. HTTP does not belong here.

use crate::dice::{Chance, Dice, Owner};
use crate::weather::{LONGEST, Weather};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};

/// A line, and the claims that it makes on the machine.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) claims: Vec<Claim>,
}

/// A part of a line that the model must know.
#[derive(Debug, Clone)]
pub(crate) enum Claim {
    /// A request with this id; the server recognises it by its `mark`.
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
    /// A request again that was answered by questions.
    Again {
        id: String,
        mark: u64,
        method: &'static str,
    },
    /// A `subscriptions/listen`.
    Listen {
        id: String,
    },
}

#[derive(Debug)]
pub(crate) struct Client {
    dice: Dice,
    /// Lines still to write, each after a pause.
    script: VecDeque<(u64, Line)>,
    /// It writes nothing until `initialize` has its answer.
    waits: bool,
    hasty: bool,
    /// It speaks HTTP, so it can send nothing without a session.
    http: bool,
    large: bool,
    /// It speaks 2026-07-28, and repeats requests that are answered by questions.
    modern: bool,
    /// By id, the mark, the method and the params of its requests; nothing for an id that
    /// it uses twice.
    asked: BTreeMap<String, Option<(u64, &'static str, Value)>>,
    /// Requests that it will repeat.
    repeats: u64,
    repeated: u64,
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

/// What a client of 2026-07-28 asks, at a place where others open sessions.
const MODERN_METHODS: [&str; 7] =
    ["tools/call", "tools/call", "tools/call", "tools/list", "resources/read", "prompts/get", "server/discover"];
const CANCELLED: &str = "notifications/cancelled";

impl Client {
    /// A client that sends the requests whose bits are set.
    pub(crate) fn new(chance: Chance<'_>, weather: &Weather, requests: u64) -> Self {
        let dice = chance.dice(Owner::Client);
        let (hasty, large) = (weather.hasty, weather.large);
        let http = weather.caller.is_some();
        let (modern, asked) = (weather.modern, BTreeMap::new());
        let script = VecDeque::new();
        let mut client =
            Self { dice, script, waits: false, hasty, http, large, modern, asked, repeats: 0, repeated: 0 };
        if modern {
            client.discover()
        } else {
            client.greet("0", 0)
        }
        for mark in 1..=u64::from(u64::BITS - requests.leading_zeros()) {
            let before = client.script.len();
            client.ask(mark);
            if requests >> (mark - 1) & 1 == 0 {
                client.script.truncate(before);
            }
        }
        client
    }

    /// The pause before the next line, if the client may write it now.
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
        self.script.is_empty() && self.repeats == 0
    }

    /// Reads a message. Returns the client's reply and the delay before it.
    pub(crate) fn read(&mut self, value: &Value) -> Option<(u64, Line)> {
        let id = value.get("id")?;
        if value.get("method").is_none() {
            self.waits &= *id != 0;
            return self.repeat(&id.to_string(), value.get("result")?);
        }
        let answer = self.dice.pick(&ANSWERS, "\"result\":{}");
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}");
        let claim = Claim::Answer { id: id.to_string() };
        Some((self.dice.between(0, 3000), Line { text, claims: vec![claim] }))
    }

    /// It said that; a request that was to be repeated is.
    pub(crate) fn said(&mut self, line: &Line) {
        let again = line.claims.iter().any(|claim| matches!(claim, Claim::Again { .. }));
        self.repeats = self.repeats.saturating_sub(u64::from(again));
    }

    /// The same request with answers, if this result asks for them. Some clients never
    /// come back, answer a part, or send a state that nobody gave them.
    fn repeat(&mut self, id: &str, result: &Value) -> Option<(u64, Line)> {
        if !self.modern || result.get("resultType")? != "input_required" {
            return None;
        }
        let (mark, method, mut params) = self.asked.get(id).cloned()??;
        let keys = result.get("inputRequests").and_then(Value::as_object).into_iter().flatten();
        let mut answers: BTreeMap<String, Value> =
            keys.map(|(key, _)| (key.clone(), json!({ "action": "accept" }))).collect();
        let state = result.get("requestState").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (fate, pause) = (self.dice.between(0, 19), self.dice.between(0, 3000));
        self.repeated += 1;
        let again = format!("\"r{}-{mark}\"", self.repeated);
        let mut claim = Claim::Again { id: again.clone(), mark, method };
        let mut brought = state.clone();
        // A state of the machine begins with its place, which is empty here.
        match (fate, state.starts_with('.')) {
            (0, _) => return None,
            (1 | 2, true) => drop(answers.pop_first()),
            (3, true) => {
                brought.push('A');
                claim = Claim::Broken { id: again.clone() };
            }
            _ => {}
        }
        let members = params.as_object_mut()?;
        members.insert("requestState".to_owned(), json!(brought));
        members.remove("inputResponses");
        if !answers.is_empty() {
            members.insert("inputResponses".to_owned(), json!(answers));
        }
        self.repeats += u64::from(matches!(claim, Claim::Again { .. }));
        self.asked.insert(again.clone(), Some((mark, method, params.clone())));
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{again},\"method\":\"{method}\",\"params\":{params}}}");
        Some((pause, Line { text, claims: vec![claim] }))
    }

    fn discover(&mut self) {
        let params = json!({ "n": 0, "_meta": envelope(None) });
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"server/discover\",\"params\":{params}}}");
        self.put(text, vec![Claim::Request { id: "0".to_owned(), mark: 0, method: "server/discover" }]);
    }

    fn subscribe(&mut self, id: &str, mark: u64) {
        let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": [format!("a:{mark}")] });
        let params = json!({ "notifications": filter, "_meta": envelope(None) });
        let text =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{params}}}");
        self.put(text, vec![Claim::Listen { id: id.to_owned() }]);
    }

    fn greet(&mut self, id: &str, mark: u64) {
        let params = format!(
            r#"{{"n":{mark},"protocolVersion":"2025-11-25","capabilities":{{"sampling":{{}},"roots":{{}},"elicitation":{{}}}},"clientInfo":{{"name":"c","version":"1"}}}}"#
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
            5 if !self.modern => self.greet(&id, mark),
            7..=9 if self.modern => self.subscribe(&id, mark),
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
        if self.modern {
            return self.modern_request(id, mark);
        }
        let method = self.dice.pick(&METHODS, "tools/call");
        let token =
            if self.dice.chance(50) { format!(",\"_meta\":{{\"progressToken\":{mark}}}") } else { String::new() };
        let filler = if self.large && method == "tools/call" { self.dice.pick(&[0, 100_000], 0) } else { 0 };
        let params = format!("{{\"n\":{mark},\"uri\":\"a:{mark}\"{token},\"f\":\"{}\"}}", "z".repeat(filler));
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}");
        (text, Claim::Request { id: id.to_owned(), mark, method })
    }

    fn modern_request(&mut self, id: &str, mark: u64) -> (String, Claim) {
        let method = self.dice.pick(&MODERN_METHODS, "tools/call");
        let filler = if self.large && method == "tools/call" { self.dice.pick(&[0, 100_000], 0) } else { 0 };
        let meta = envelope(self.dice.chance(50).then_some(mark));
        let params = json!({ "n": mark, "uri": format!("a:{mark}"), "f": "z".repeat(filler), "_meta": meta });
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}");
        let asked = self.asked.entry(id.to_owned());
        asked.and_modify(|known| *known = None).or_insert(Some((mark, method, params)));
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
        let text = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{CANCELLED}\",\"params\":{params}}}");
        self.put(text, vec![Claim::Cancel { id: id.to_owned() }]);
    }
}

/// What a request of 2026-07-28 says of its client.
fn envelope(token: Option<u64>) -> Value {
    let able = json!({ "elicitation": { "form": {} }, "sampling": {}, "roots": {} });
    let mut meta = Map::from_iter([
        ("io.modelcontextprotocol/protocolVersion".to_owned(), json!(crate::modern::VERSION)),
        ("io.modelcontextprotocol/clientCapabilities".to_owned(), able),
        ("io.modelcontextprotocol/logLevel".to_owned(), json!("info")),
    ]);
    meta.extend(token.map(|token| ("progressToken".to_owned(), json!(token))));
    Value::Object(meta)
}
