//! Checks the calls of a run: the machine ends each of them, sends none to a wrong place,
//! never repeats a request that may have run, and makes few calls while no request is open.
//! `model` checks the answers.

use crate::habit::{GONE, Habits, Kind};
use crate::ledger::mark;
use http::{Method, Request};
use mcp_proxy_core::{CallError, CallId};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most calls that may begin in a minute without requests.
const MOST_IDLE: usize = 130;
/// The same if the server asks for frequent polling.
const MOST_POLLED: usize = 660;
const MINUTE: u64 = 60_000;

#[derive(Debug)]
pub(crate) struct Calls {
    live: BTreeMap<CallId, Live>,
    over: BTreeSet<CallId>,
    /// By mark, the outcome of the last attempt.
    outcomes: BTreeMap<u64, Outcome>,
    /// When the calls of the last minute began.
    recent: VecDeque<u64>,
    most: usize,
    /// The server speaks HTTP+SSE: there is one stream.
    one_stream: bool,
    /// Sessions in which the server has refused the listening stream.
    deaf: BTreeSet<String>,
    /// How often each session got `initialized`; twice is the client's fault.
    greetings: BTreeMap<String, u32>,
    pub(crate) started: u64,
    /// The machine has sent `server/discover` before `initialize`.
    pub(crate) probed: bool,
}

#[derive(Debug)]
struct Live {
    method: Method,
    mark: Option<u64>,
    listens: Option<String>,
    /// The beginning of a response which says that the server did not execute the request.
    excuse: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unknown(CallId),
    /// The server did not execute it.
    Refused,
}

impl Calls {
    pub(crate) fn new(server: &Habits) -> Self {
        let polled = server.retry.is_some_and(|retry| retry < 500);
        Self {
            live: BTreeMap::new(),
            over: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            recent: VecDeque::new(),
            most: if polled { MOST_POLLED } else { MOST_IDLE },
            one_stream: server.kind == Kind::Sse,
            deaf: BTreeSet::new(),
            greetings: BTreeMap::new(),
            started: 0,
            probed: false,
        }
    }

    /// Whether the machine has sent the request with this mark.
    pub(crate) fn sent(&self, mark: u64) -> bool {
        self.outcomes.contains_key(&mark)
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = CallId> {
        self.live.keys().copied()
    }

    /// A call begins. Returns the rules that it breaks. `repeatable`: by mark.
    pub(crate) fn begin<B: AsRef<[u8]>>(
        &mut self,
        call: CallId,
        request: &Request<B>,
        repeatable: impl Fn(u64) -> bool,
    ) -> Vec<String> {
        let message = serde_json::from_slice::<Value>(request.body().as_ref()).unwrap_or_default();
        let (method, mark, listens) = (request.method().clone(), mark(&message), listens(request));
        let live = Live { method, mark, listens, excuse: Vec::new() };
        let mut wrong = Vec::new();
        if self.over.contains(&call) || self.live.contains_key(&call) {
            wrong.push(format!("call {} is not new", call.0));
        }
        if self.one_stream && live.method == Method::GET && self.live.values().any(|live| live.method == Method::GET) {
            wrong.push(format!("call {} asks for a second stream", call.0));
        }
        if request.uri().host() != Some("server.test") {
            wrong.push(format!("a call to {}", request.uri()));
        }
        if message.get("method").is_some_and(|method| method == "notifications/initialized") {
            *self.greetings.entry(session(request)).or_default() += 1;
        }
        self.probed |= message.get("method").is_some_and(|method| method == "server/discover");
        let once = |session: &String| self.greetings.get(session).is_none_or(|count| *count < 2);
        if live.listens.as_ref().is_some_and(|session| self.deaf.contains(session) && once(session)) {
            wrong.push("asked for a listening stream after a 405".to_owned());
        }
        if let Some(mark) = live.mark {
            let before = self.outcomes.insert(mark, Outcome::Unknown(call));
            if matches!(before, Some(Outcome::Unknown(_))) && !repeatable(mark) {
                wrong.push(format!("request {mark} is sent again, though it may have been carried out"));
            }
        }
        self.started += 1;
        self.live.insert(call, live);
        wrong
    }

    /// Counts a call that begins now; no request has come since `quiet_since`.
    pub(crate) fn count(&mut self, now: u64, quiet_since: u64) -> Option<String> {
        self.recent.push_back(now);
        let from = quiet_since.max(now.saturating_sub(MINUTE));
        while self.recent.front().is_some_and(|at| *at < from) {
            self.recent.pop_front();
        }
        (self.recent.len() > self.most).then(|| format!("{} calls since {from}, and nothing asked", self.recent.len()))
    }

    /// The machine has read the head of this call's response.
    pub(crate) fn headed(&mut self, call: CallId, status: u16, later: bool) {
        let Some(live) = self.live.get(&call) else { return };
        self.deaf.extend(live.listens.clone().filter(|_| status == 405));
        if matches!(status, 300..=499 | 501) || (status == 503 && later) {
            self.refused(call);
        }
    }

    /// The machine has read this part of a response which, as a whole, says that the server
    /// did not execute the request.
    pub(crate) fn excused(&mut self, call: CallId, chunk: &[u8]) {
        let Some(live) = self.live.get_mut(&call) else { return };
        live.excuse.extend_from_slice(chunk);
        let excuse = String::from_utf8_lossy(&live.excuse);
        if excuse.contains(GONE) || excuse.contains("input_required") {
            self.refused(call);
        }
    }

    pub(crate) fn failed(&mut self, call: CallId, error: CallError) {
        if error.before_sending() {
            self.refused(call);
        }
        self.over(call);
    }

    fn refused(&mut self, call: CallId) {
        let mark = self.live.get(&call).and_then(|live| live.mark);
        if let Some(outcome) = mark.and_then(|mark| self.outcomes.get_mut(&mark))
            && *outcome == Outcome::Unknown(call)
        {
            *outcome = Outcome::Refused;
        }
    }

    /// This call is over: ended, failed or cancelled. Returns `false` if it was over before.
    pub(crate) fn over(&mut self, call: CallId) -> bool {
        self.live.remove(&call);
        self.over.insert(call)
    }

    /// Calls that are not over, except the DELETE, which need not end.
    pub(crate) fn forgotten(&self) -> Vec<CallId> {
        self.live.iter().filter(|(_, live)| live.method != Method::DELETE).map(|(call, _)| *call).collect()
    }
}

/// The session in which the request opens a listening stream.
fn listens<B>(request: &Request<B>) -> Option<String> {
    let listens = *request.method() == Method::GET && !request.headers().contains_key("last-event-id");
    listens.then(|| session(request)).filter(|session| !session.is_empty())
}

fn session<B>(request: &Request<B>) -> String {
    let value = request.headers().get("mcp-session-id").and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}
