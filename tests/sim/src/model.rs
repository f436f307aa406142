//! The reference model: who is owed an answer, what the machine has said about
//! each request, told from the facts alone, and every reproach that a run has
//! earned. Calls are watched in `calls`.

use crate::calls::Calls;
use crate::client::Claim;
use crate::ledger::Ledger;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Unwritten bytes that are never exceeded: the machine's mark, and what the
/// responses read in one step may add.
const UNWRITTEN: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct Model {
    /// Open requests, by id.
    open: BTreeMap<String, Request>,
    /// Refusals owed, by id.
    refusals: BTreeMap<String, u32>,
    /// The id and the method of every request, by mark.
    requests: BTreeMap<u64, (String, &'static str)>,
    pub(crate) asked: u64,
    /// Requests that the server answered.
    pub(crate) served: u64,
    /// The longest that a request may take.
    total: Option<u64>,
    /// Requests whose answers may have been told to nobody.
    unheard: usize,
    /// How often each message was told that is no answer.
    told_times: BTreeMap<String, u64>,
    /// By stream, the number of the last notification.
    last: BTreeMap<u64, u64>,
    /// Questions of the server that the client has read and not answered.
    questions: BTreeSet<String>,
    /// What the machine answered for the server.
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
}

/// The machine's word about a request that the server did not answer.
#[derive(Debug)]
struct Told {
    mark: u64,
    delivered: String,
    retry_safe: bool,
    attempt: u64,
}

impl Model {
    pub(crate) fn new(total: Option<u64>) -> Self {
        Self { total, ..Self::default() }
    }

    pub(crate) fn reproach(&mut self, reproach: String) {
        self.reproaches.push(reproach);
    }

    pub(crate) fn idle(&self) -> bool {
        self.open.is_empty() && self.refusals.is_empty()
    }

    /// The client said this to the machine.
    pub(crate) fn claimed(&mut self, now: u64, claim: &Claim) {
        match claim {
            Claim::Request { id, mark, method } => {
                self.asked += 1;
                self.requests.insert(*mark, (id.clone(), method));
                if self.open.contains_key(id) {
                    *self.refusals.entry(id.clone()).or_default() += 1;
                } else {
                    self.open.insert(id.clone(), Request { asked: now, mark: *mark, method });
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
            }
        }
    }

    pub(crate) fn open_ids(&self) -> impl Iterator<Item = &String> {
        self.open.keys()
    }

    /// So many requests may be open.
    pub(crate) fn most_open(&self) -> usize {
        self.open.len() + self.unheard
    }

    /// Nobody will hear the answer to that request.
    pub(crate) fn orphaned(&mut self, id: &str) {
        self.unheard += usize::from(self.open.remove(id).is_some());
    }

    /// Another machine has taken over, and knows of nothing.
    pub(crate) fn restarted(&mut self) {
        self.open.clear();
        self.unheard = 0;
        self.questions.clear();
    }

    /// The session is over; what was not heard, nobody will hear.
    pub(crate) fn settled(&mut self) {
        self.open.clear();
    }

    pub(crate) fn gone(&self) -> bool {
        self.gone
    }

    /// The machine has sent the server an answer to this question, whosever.
    pub(crate) fn question_over(&mut self, id: &str) {
        self.questions.remove(id);
    }

    /// Questions of the server are open, as far as the client knows.
    pub(crate) fn asked_by_server(&self) -> bool {
        !self.questions.is_empty()
    }

    /// The client is gone; it is owed nothing any more.
    pub(crate) fn left(&mut self) {
        self.gone = true;
        self.open.clear();
        self.refusals.clear();
    }

    pub(crate) fn flushed(&mut self, bytes: usize) {
        self.unwritten = self.unwritten.saturating_sub(bytes);
    }

    /// The machine wrote a line; returns what it says.
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

    /// The machine said this to the client, at a time that is known or not.
    pub(crate) fn message(&mut self, when: Option<u64>, text: &str, ledger: &Ledger) -> Value {
        let value = serde_json::from_str::<Value>(text).unwrap_or_default();
        if !value.is_object() || self.gone || self.exited {
            self.reproach(format!("not to be written: {text}"));
        }
        match (value.get("id"), value.get("method")) {
            (Some(Value::Null), _) => self.reproach(format!("null id: {text}")),
            (Some(id), None) => self.answered(when, &id.to_string(), &value, ledger),
            (_, Some(_)) if !self.may_tell(text, ledger) => self.reproach(format!("invented, or told twice: {text}")),
            (None, None) => self.reproach(format!("no message: {text}")),
            (Some(id), Some(_)) if !self.questions.insert(id.to_string()) => {
                self.reproach(format!("asked twice: {text}"));
            }
            (_, Some(_)) => {
                let withdrawn = value.pointer("/params/requestId").map(Value::to_string).unwrap_or_default();
                self.questions.remove(&withdrawn);
                if when.is_some() {
                    self.in_order(&value);
                }
            }
        }
        value
    }

    /// The server has told that once more than the client was told it.
    fn may_tell(&mut self, text: &str, ledger: &Ledger) -> bool {
        let times = self.told_times.entry(text.to_owned()).or_default();
        *times += 1;
        *times <= ledger.times(text)
    }

    /// What is said on a stream comes in order; what is resumed may come twice.
    fn in_order(&mut self, value: &Value) {
        let part = |name| value.pointer(name).and_then(Value::as_u64);
        let (Some(stream), Some(number)) = (part("/params/s"), part("/params/q")) else { return };
        if self.last.insert(stream, number).is_some_and(|last| last > number) {
            self.reproach(format!("out of order on stream {stream}: {number}"));
        }
    }

    /// The session is gone, and with it the server's questions.
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
        let Some(open) = self.open.remove(id) else { return self.reproach(format!("unasked: {value}")) };
        if let Some(now) = when.filter(|now| self.total.is_some_and(|total| *now > open.asked + total)) {
            self.reproach(format!("asked at {}, answered at {now}: {value}", open.asked));
        }
        if let Some(data) = value.pointer("/error/data").filter(|data| data.get("phase").is_some()) {
            return self.told.push(Told::new(open.mark, data));
        }
        self.served += 1;
        let number = value.pointer("/result/r").or_else(|| value.pointer("/error/data/r")).and_then(Value::as_u64);
        // A client that uses an id again may get the late answer to the first.
        let fits = |(own, mark): (&str, u64)| {
            own == id && (mark == open.mark || self.requests.get(&mark).is_some_and(|(other, _)| other == id))
        };
        if !number.and_then(|number| ledger.made(number)).is_some_and(fits) {
            self.reproach(format!("an answer that the server did not make: {value}"));
        }
    }

    /// What must be true at the end.
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
            let safe = !done || self.only_reads(told.mark);
            let lies = [
                told.delivered == "no" && done,
                told.delivered == "yes" && !received,
                told.retry_safe && !safe,
                (told.attempt > 0) != calls.sent(told.mark),
            ];
            if lies.contains(&true) {
                self.reproach(format!("not true: {told:?}; received: {received}, carried out: {done}"));
            }
        }
    }

    /// Carrying out that request twice does no harm.
    pub(crate) fn only_reads(&self, mark: u64) -> bool {
        let reads = ["initialize", "tools/list", "resources/read", "prompts/get", "ping"];
        self.requests.get(&mark).is_some_and(|(_, method)| reads.contains(method))
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
