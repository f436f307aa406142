//! What a client is owed and what it got. An answer is due in one place: on
//! stdio, which is one place, or on the response to one exchange, which also has to
//! end.

use super::super::message::{IDS, MODERN, Round, Twist, WATCH, key};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
pub struct Books {
    /// Answers that must come, by place.
    owed: BTreeMap<u64, Vec<Owed>>,
    /// Answers that the client has to come back for, by the place that it lost.
    parked: BTreeMap<u64, Vec<Owed>>,
    /// Requests that were answered by questions, which a modern client may repeat.
    rounds: Vec<Round>,
    repeated: usize,
    /// Open questions of the server.
    questions: Vec<String>,
    /// Answers that were not owed.
    unasked: Vec<String>,
    /// Everything else that must not be written to a client.
    noise: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Owed {
    id: String,
    due: Due,
    /// The request, as the client wrote it.
    text: String,
}

/// What is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// The end of a response.
    End,
    /// The answer to `initialize`, which cannot be cancelled.
    Initialized,
    /// The answer to any other request.
    Answer,
    /// The answer to a request that lasts. It need not come.
    Lasting,
    /// The answer to a request that the client cancelled while its connection was
    /// lost. Nobody waits for it, but the machine may no longer know that when the
    /// client comes back.
    Cancelled,
}

impl Books {
    /// Everything that is wrong with the answers.
    pub fn faults(&self) -> Vec<String> {
        let open = self.owed.iter().flat_map(|(place, owed)| owed.iter().map(move |owed| (place, owed)));
        let due = open.filter(|(_, owed)| !matches!(owed.due, Due::Cancelled | Due::Lasting));
        due.map(|(place, owed)| format!("no {:?} for {} at {place}", owed.due, owed.id))
            .chain(self.unasked.clone())
            .collect()
    }

    /// Everything that must not have been written.
    pub fn noise(&self) -> Vec<String> {
        self.noise.clone()
    }

    pub fn complain(&mut self, what: String) {
        self.noise.push(what);
    }

    /// The client sends this text: an answer to each request in it is due here.
    pub fn requested(&mut self, place: u64, text: &str) {
        for request in messages(text) {
            if let (Some(id), Some(method)) = (request.get("id"), request.get("method")) {
                let due = match method.as_str() {
                    Some("initialize") => Due::Initialized,
                    Some(WATCH) => Due::Lasting,
                    _ => Due::Answer,
                };
                let owed = Owed { id: id.to_string(), due, text: text.trim_end().to_owned() };
                self.owed.entry(place).or_default().push(owed);
            }
        }
    }

    /// The client waits for the end of a response.
    pub fn opened(&mut self, place: u64) {
        self.owed.entry(place).or_default().push(Owed { id: String::new(), due: Due::End, text: String::new() });
    }

    /// The response has ended.
    pub fn ended(&mut self, place: u64) {
        self.owed.entry(place).or_default().retain(|owed| owed.due != Due::End);
    }

    /// The client reads this message.
    pub fn got(&mut self, place: u64, text: &str) {
        let message = serde_json::from_str::<Value>(text).unwrap_or_default();
        if !is_json_rpc(&message) {
            self.noise.push(format!("not a message of JSON-RPC at {place}: {text}"));
        }
        match (message.get("id"), message.get("method")) {
            (Some(id), None) => self.answered(place, &key(&id.to_string()), text),
            (Some(id), Some(_)) => self.questions.push(id.to_string()),
            (None, _) => {}
        }
    }

    /// Of two requests with one id, the later one is refused at once.
    fn answered(&mut self, place: u64, id: &str, text: &str) {
        let owed = self.owed.entry(place).or_default();
        match owed.iter().rposition(|owed| owed.id == id) {
            Some(at) => {
                let request = owed.remove(at).text;
                self.rounds.extend(round(request, text));
            }
            None => self.unasked.push(format!("answer to nothing at {place}: {text}")),
        }
    }

    /// The machine has read this message of the client, which may be a cancel.
    pub fn read(&mut self, text: &str) {
        let message = serde_json::from_str::<Value>(text).unwrap_or_default();
        if message["method"] == "notifications/cancelled" {
            let id = message["params"]["requestId"].to_string();
            let cancelled = |owed: &Owed| owed.due != Due::Initialized && owed.id == id;
            self.owed.values_mut().for_each(|owed| owed.retain(|owed| !cancelled(owed)));
            let parked = self.parked.values_mut().flatten().filter(|owed| cancelled(owed));
            parked.for_each(|owed| owed.due = Due::Cancelled);
        }
    }

    /// A request again that was answered by questions, counted from the last one, under
    /// this id.
    pub fn repeat(&mut self, which: usize, id: usize, twist: Twist) -> Option<String> {
        let which = which.checked_rem(self.rounds.len())?;
        self.repeated += 1;
        Some(self.rounds.iter().rev().nth(which)?.again(IDS[id], twist, self.repeated))
    }

    /// The next question that the client has not answered; it does so now.
    pub fn question(&mut self) -> Option<String> {
        self.questions.pop()
    }

    /// What was due in this place is due no more.
    pub fn forgive(&mut self, place: u64) {
        self.owed.remove(&place);
        self.parked.remove(&place);
    }

    /// The client has lost this place, but knows how to come back.
    pub fn park(&mut self, place: u64) {
        let owed = self.owed.remove(&place).unwrap_or_default();
        self.parked.entry(place).or_default().extend(owed);
    }

    /// The client is back: what was due in one place is due in another.
    pub fn resume(&mut self, from: u64, to: u64) {
        let parked = self.parked.remove(&from).unwrap_or_default();
        self.owed.entry(to).or_default().extend(parked);
    }

    /// The client hears that nothing is left to come back for.
    pub fn nothing_left(&mut self, place: u64) {
        let parked = self.parked.remove(&place).unwrap_or_default();
        for owed in parked.iter().filter(|owed| matches!(owed.due, Due::Initialized | Due::Answer)) {
            self.unasked.push(format!("the answer to {} was given up at {place}", owed.id));
        }
    }
}

/// What a modern client needs to repeat this request, if this answer asks for that.
fn round(request: String, answer: &str) -> Option<Round> {
    if !request.contains(MODERN) {
        return None;
    }
    let message = serde_json::from_str::<Value>(answer).unwrap_or_default();
    let result = message["result"].as_object().filter(|result| result.get("resultType") == Some(&ASKS.into()))?;
    let keys = result.get("inputRequests").and_then(Value::as_object);
    let keys = keys.map(|asks| asks.keys().cloned().collect()).unwrap_or_default();
    let state = result.get("requestState").and_then(Value::as_str).map(str::to_owned);
    Some(Round { request, keys, state })
}

const ASKS: &str = "input_required";

/// The messages in a text of the client, broken ones too.
fn messages(text: &str) -> Vec<Value> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(members)) => members,
        Ok(one) => vec![one],
        Err(_) => broken_id(text).map(|id| serde_json::json!({ "id": id, "method": "" })).into_iter().collect(),
    }
}

fn broken_id(text: &str) -> Option<Value> {
    let (id, _) = text.split_once("\"id\":")?.1.split_once(',')?;
    serde_json::from_str(id).ok()
}

/// A message of JSON-RPC 2.0: a request, a notification, or an answer with
/// exactly one of a result and an error.
fn is_json_rpc(value: &Value) -> bool {
    let id = |id: &Value| id.is_string() || id.is_number();
    let valid = match (value.get("method"), value.get("id"), value.get("result"), value.get("error")) {
        (Some(method), None, None, None) => method.is_string(),
        (Some(method), Some(of), None, None) => method.is_string() && id(of),
        (None, Some(of), Some(_), None) => id(of),
        (None, Some(of), None, Some(error)) => id(of) && is_error(error),
        _ => false,
    };
    valid && value["jsonrpc"] == "2.0"
}

/// The body of a refusal: an error whose id is that of the request, or missing.
pub fn is_refusal(text: &str) -> bool {
    let body = serde_json::from_str::<Value>(text).unwrap_or_default();
    body["jsonrpc"] == "2.0" && is_error(&body["error"]) && body.get("id").is_none_or(|id| !id.is_null())
}

fn is_error(error: &Value) -> bool {
    error["code"].is_i64() && error["message"].is_string()
}
