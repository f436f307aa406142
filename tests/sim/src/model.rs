//! The reference model: which requests are open, what the machine answered to each, and the
//! list of broken rules. It sees only the machine's inputs and outputs, never its state.
//! `calls` checks the calls.

use crate::calls::Calls;
use crate::client::Claim;
use crate::ledger::{Ledger, is_ours};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Limit for unwritten bytes: the machine's own limit, plus the responses that it may read
/// in one step.
const UNWRITTEN: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct Model {
    /// Open requests, by id.
    open: BTreeMap<String, Request>,
    /// How many refusals the machine owes, by id.
    refusals: BTreeMap<String, u32>,
    /// The id and the method of every request, by mark.
    requests: BTreeMap<u64, (String, &'static str)>,
    pub(crate) asked: u64,
    /// Requests that the server answered.
    pub(crate) served: u64,
    /// Limit for the time of a request.
    total: Option<u64>,
    /// The server is modern, so the machine asks and answers many things itself.
    modern: bool,
    /// The client is one of 2026-07-28.
    client_is_modern: bool,
    /// Subscriptions of such a client, by id.
    listens: BTreeSet<String>,
    /// Marks of requests that were answered by questions. The client may repeat them.
    parked: BTreeSet<u64>,
    /// How many requests were answered by questions, repeated, and answered in the end.
    pub(crate) rounds: [u64; 3],
    /// How many requests may have an answer that nobody reads.
    unheard: usize,
    /// How often the machine sent each message that is not an answer.
    told_times: BTreeMap<String, u64>,
    /// By stream, the number of the last notification.
    last: BTreeMap<u64, u64>,
    /// Questions of the server that the client has read and not answered.
    questions: BTreeSet<String>,
    /// Questions that the machine has asked for a modern server.
    own_questions: BTreeSet<String>,
    /// The answers that the machine gave in place of the server.
    told: Vec<Told>,
    pub(crate) unwritten: usize,
    gone: bool,
    pub(crate) exited: bool,
    pub(crate) reproaches: Vec<String>,
}

#[derive(Debug)]
struct Request {
    asked: u64,
    mark: u64,
    method: &'static str,
    /// It was answered by questions before.
    again: bool,
}

/// The machine's own answer to a request.
#[derive(Debug)]
struct Told {
    mark: u64,
    delivered: String,
    retry_safe: bool,
    attempt: u64,
}

impl Model {
    pub(crate) fn new(total: Option<u64>, modern: bool, client_is_modern: bool) -> Self {
        Self { total, modern, client_is_modern, ..Self::default() }
    }

    pub(crate) fn reproach(&mut self, reproach: String) {
        self.reproaches.push(reproach);
    }

    pub(crate) fn idle(&self) -> bool {
        self.open.is_empty() && self.refusals.is_empty()
    }

    /// The client sent this to the machine.
    pub(crate) fn claimed(&mut self, now: u64, claim: &Claim) {
        match claim {
            Claim::Request { id, mark, method } => {
                self.asked += 1;
                self.requests.insert(*mark, (id.clone(), method));
                if self.is_taken(id) {
                    *self.refusals.entry(id.clone()).or_default() += 1;
                } else {
                    self.open.insert(id.clone(), Request { asked: now, mark: *mark, method, again: false });
                }
            }
            Claim::Again { id, mark, method } => {
                self.parked.remove(mark);
                self.rounds[1] += 1;
                self.open.insert(id.clone(), Request { asked: now, mark: *mark, method, again: true });
            }
            Claim::Listen { id } => {
                if self.is_taken(id) {
                    *self.refusals.entry(id.clone()).or_default() += 1;
                } else {
                    self.listens.insert(id.clone());
                }
            }
            Claim::Broken { id } => {
                self.asked += 1;
                *self.refusals.entry(id.clone()).or_default() += 1;
            }
            Claim::Answer { id } => drop(self.questions.remove(id)),
            Claim::Cancel { id } => {
                if self.open.get(id).is_some_and(|open| open.method != "initialize") {
                    self.open.remove(id);
                }
                self.listens.remove(id);
            }
        }
    }

    fn is_taken(&self, id: &str) -> bool {
        self.open.contains_key(id) || self.listens.contains(id)
    }

    /// The machine may hold something for a client that is owed nothing.
    pub(crate) fn may_hold(&self) -> bool {
        !self.parked.is_empty() || !self.listens.is_empty()
    }

    pub(crate) fn open_ids(&self) -> impl Iterator<Item = &String> {
        self.open.keys()
    }

    /// The largest possible number of open requests.
    pub(crate) fn most_open(&self) -> usize {
        self.open.len() + self.unheard
    }

    /// Nobody will read the answer to this request.
    pub(crate) fn orphaned(&mut self, id: &str) {
        self.unheard += usize::from(self.open.remove(id).is_some());
    }

    /// Another machine has taken over, which knows no open request.
    pub(crate) fn restarted(&mut self) {
        self.open.clear();
        self.unheard = 0;
        self.questions.clear();
    }

    /// The session is over, so nobody will read the missing answers.
    pub(crate) fn settled(&mut self) {
        self.open.clear();
    }

    pub(crate) fn gone(&self) -> bool {
        self.gone
    }

    /// The machine has sent the server an answer to this question: the client's or its own.
    pub(crate) fn question_over(&mut self, id: &str) {
        self.questions.remove(id);
    }

    /// Whether questions of the server are open, as far as the client knows.
    pub(crate) fn asked_by_server(&self) -> bool {
        !self.questions.is_empty()
    }

    /// The client is gone, so the machine owes it no answer.
    pub(crate) fn left(&mut self) {
        self.gone = true;
        self.listens.clear();
        self.open.clear();
        self.refusals.clear();
    }

    pub(crate) fn flushed(&mut self, bytes: usize) {
        self.unwritten = self.unwritten.saturating_sub(bytes);
    }

    /// The machine wrote a line. Returns the message.
    pub(crate) fn wrote(&mut self, now: u64, line: &[u8], ledger: &Ledger) -> Value {
        self.unwritten += line.len();
        if self.unwritten > UNWRITTEN {
            self.reproach(format!("{} bytes unwritten", self.unwritten));
        }
        let text = String::from_utf8_lossy(line);
        if text.find('\n') != text.len().checked_sub(1) {
            self.reproach(format!("not a line: {text}"));
        }
        self.message(Some(now), text.trim_end(), ledger)
    }

    /// The machine sent this to the client, at this time if it is known.
    pub(crate) fn message(&mut self, when: Option<u64>, text: &str, ledger: &Ledger) -> Value {
        let value = serde_json::from_str::<Value>(text).unwrap_or_default();
        if !value.is_object() || self.gone || self.exited {
            self.reproach(format!("not to be written: {text}"));
        }
        match (value.get("id"), value.get("method")) {
            (Some(Value::Null), _) => self.reproach(format!("null id: {text}")),
            (Some(id), None) => self.answered(when, &id.to_string(), &value, ledger),
            (None, Some(method)) if self.client_is_modern && self.is_on_request(method, &value) => {}
            (Some(_), Some(_)) if self.client_is_modern => self.reproach(format!("asked a modern client: {text}")),
            (_, Some(_)) if !self.may_withdraw(&value) && !self.may_tell(&source(&value, text), ledger) => {
                self.reproach(format!("invented, or told twice: {text}"))
            }
            (None, None) => self.reproach(format!("no message: {text}")),
            (Some(id), Some(_)) if !self.questions.insert(id.to_string()) => {
                self.reproach(format!("asked twice: {text}"));
            }
            (_, Some(_)) => {
                self.own_questions.extend(value.get("id").map(Value::to_string).filter(|id| is_ours(id)));
                let withdrawn = value.pointer("/params/requestId").map(Value::to_string).unwrap_or_default();
                self.questions.remove(&withdrawn);
                if when.is_some() {
                    self.in_order(&value);
                }
            }
        }
        value
    }

    /// A modern client hears of a subscription that it has, and of progress of a request
    /// that is open.
    fn is_on_request(&self, method: &Value, value: &Value) -> bool {
        let subscription = value.pointer("/params/_meta/io.modelcontextprotocol~1subscriptionId");
        if let Some(subscription) = subscription {
            return self.listens.contains(&subscription.to_string());
        }
        let token = value.pointer("/params/progressToken").and_then(Value::as_u64);
        method == "notifications/progress" && self.open.values().any(|open| Some(open.mark) == token)
    }

    /// Whether the machine may withdraw this question: once, if it asked it for a modern
    /// server. The client may get the withdrawal late.
    fn may_withdraw(&mut self, value: &Value) -> bool {
        let question = value.pointer("/params/requestId").map(Value::to_string).unwrap_or_default();
        self.own_questions.remove(&question)
    }

    /// Whether the server sent this message more often than the client got it.
    fn may_tell(&mut self, text: &str, ledger: &Ledger) -> bool {
        let times = self.told_times.entry(text.to_owned()).or_default();
        *times += 1;
        *times <= ledger.times(text)
    }

    /// Checks that the messages of a stream come in order; resumed ones may come twice.
    fn in_order(&mut self, value: &Value) {
        let part = |name| value.pointer(name).and_then(Value::as_u64);
        let (Some(stream), Some(number)) = (part("/params/s"), part("/params/q")) else { return };
        if self.last.insert(stream, number).is_some_and(|last| last > number) {
            self.reproach(format!("out of order on stream {stream}: {number}"));
        }
    }

    /// The session is lost, and with it the server's questions.
    pub(crate) fn session_lost(&mut self) {
        self.questions.clear();
    }

    fn answered(&mut self, when: Option<u64>, id: &str, value: &Value, ledger: &Ledger) {
        let refused = value.pointer("/error/code").and_then(Value::as_i64).is_some_and(|code| code <= -32600);
        if let Some(owed) = self.refusals.get_mut(id).filter(|_| refused) {
            *owed -= 1;
            if *owed == 0 {
                self.refusals.remove(id);
            }
            return;
        }
        if self.listens.remove(id) {
            return;
        }
        let Some(open) = self.open.remove(id) else { return self.reproach(format!("unasked: {value}")) };
        if let Some(now) = when.filter(|now| self.total.is_some_and(|total| *now > open.asked + total)) {
            self.reproach(format!("asked at {}, answered at {now}: {value}", open.asked));
        }
        if let Some(data) = value.pointer("/error/data").filter(|data| data.get("phase").is_some()) {
            // What a client repeats to a modern server is another request, of the same mark.
            if !(open.again && self.modern) {
                self.told.push(Told::new(open.mark, data));
            }
            return;
        }
        if self.client_is_modern && self.is_of_a_round(&open, value) {
            return;
        }
        if self.modern && self.is_of_machine(&open, value, ledger) {
            return;
        }
        self.served += 1;
        // The last is an error with a code that 2026-07-28 has given away.
        let places = ["/result/r", "/error/data/r", "/error/data/data/r"];
        let number = places.iter().find_map(|place| value.pointer(place)).and_then(Value::as_u64);
        // A client that reuses an id may get the late answer to the first request.
        let fits = |(own, mark): (&str, u64)| {
            // A request that is repeated has another id, and so may the wire.
            if self.client_is_modern {
                return mark == open.mark;
            }
            // The machine's own request, or one that it sent again.
            if self.modern && is_ours(own) {
                return mark == open.mark || open.method == "initialize";
            }
            own == id && (mark == open.mark || self.requests.get(&mark).is_some_and(|(other, _)| other == id))
        };
        if !number.and_then(|number| ledger.made(number)).is_some_and(fits) {
            self.reproach(format!("an answer that the server did not make: {value}"));
        }
    }

    /// The machine answers a modern client with questions, says that a state is used, or
    /// says what the server can do.
    fn is_of_a_round(&mut self, open: &Request, value: &Value) -> bool {
        if value.pointer("/result/resultType").is_some_and(|kind| kind == "input_required") {
            if !["tools/call", "prompts/get", "resources/read"].contains(&open.method) {
                self.reproach(format!("questions for {}: {value}", open.method));
            }
            self.rounds[0] += 1;
            self.parked.insert(open.mark);
            return true;
        }
        let used = value.pointer("/error/message").and_then(Value::as_str);
        let used = used.is_some_and(|message| message.starts_with("this requestState")) && open.again;
        let answered = value.pointer("/result/r").is_some() && open.again;
        self.rounds[2] += u64::from(answered);
        used || (open.method == "server/discover" && value.pointer("/result/supportedVersions").is_some())
    }

    /// Whether the machine answers in place of a modern server: methods that the server does
    /// not have, and calls whose input is missing.
    fn is_of_machine(&self, open: &Request, value: &Value, ledger: &Ledger) -> bool {
        let numbered = value.pointer("/result/r").or_else(|| value.pointer("/error/data/r")).is_some();
        let gave_up = value.pointer("/result/isError").is_some() && ledger.inquired.contains(&open.mark);
        !numbered && (gave_up || ["ping", "logging/setLevel", "resources/subscribe"].contains(&open.method))
    }

    /// Checks what must hold at the end.
    pub(crate) fn judge(&mut self, ledger: &Ledger, calls: &Calls) {
        let open: Vec<String> = self.open.keys().chain(self.refusals.keys()).cloned().collect();
        if !open.is_empty() {
            self.reproach(format!("never answered: {}", open.join(", ")));
        }
        self.reproaches.extend(ledger.complaints.iter().cloned());
        for (mark, times) in ledger.done.iter().filter(|(_, times)| times.len() > 1) {
            if !self.only_reads(*mark) {
                self.reproaches.push(format!("request {mark} was carried out in {times:?}"));
            }
        }
        for told in std::mem::take(&mut self.told) {
            let (done, received) = (ledger.done.contains_key(&told.mark), ledger.received.contains(&told.mark));
            // A modern client opens a session with any request.
            let opens = self.client_is_modern || (calls.probed && self.opens(told.mark));
            let safe = !done || self.only_reads(told.mark);
            let lies = [
                told.delivered == "no" && done,
                told.delivered == "yes" && !received,
                told.retry_safe && !safe,
                told.attempt > 0 && !calls.sent(told.mark) && !opens,
                told.attempt == 0 && calls.sent(told.mark) && !self.client_is_modern,
            ];
            if lies.contains(&true) {
                self.reproach(format!("not true: {told:?}; received: {received}, carried out: {done}"));
            }
        }
    }

    fn opens(&self, mark: u64) -> bool {
        self.requests.get(&mark).is_some_and(|(_, method)| *method == "initialize")
    }

    /// Whether the request does no harm if it runs twice.
    pub(crate) fn only_reads(&self, mark: u64) -> bool {
        let reads = ["initialize", "server/discover", "tools/list", "resources/read", "prompts/get", "ping"];
        self.requests.get(&mark).is_some_and(|(_, method)| reads.contains(method))
    }
}

/// The message as the server sent it: the machine chooses the id for a question of a modern
/// server.
fn source(value: &Value, text: &str) -> String {
    let part = |name| value.get(name).unwrap_or(&Value::Null);
    match part("id").as_str() {
        Some(id) if is_ours(id) => format!("ask {} {}", part("method").as_str().unwrap_or_default(), part("params")),
        Some(_) | None => text.to_owned(),
    }
}

impl Told {
    fn new(mark: u64, data: &Value) -> Self {
        Self {
            mark,
            delivered: data.get("delivered").and_then(Value::as_str).unwrap_or_default().to_owned(),
            retry_safe: data.get("retrySafe").and_then(Value::as_bool).unwrap_or_default(),
            attempt: data.get("attempt").and_then(Value::as_u64).unwrap_or_default(),
        }
    }
}
