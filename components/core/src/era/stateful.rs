//! A modern client of a legacy server: the proxy opens a session on its behalf. A question
//! of the server parks the request: the client gets the question as a result, the server's
//! side stays open, and the client's repeated request continues it. The session itself
//! belongs to `legacy`.

use super::held::Held;
use super::legacy::Legacy;
use super::modern::capabilities::{self, Needed};
use super::modern::edit;
use super::modern::envelope::{self, Envelope, LEVELS, severity};
use super::modern::errors::{self, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Refusal};
use super::modern::rounds::{Ask, InputRequired, Question, Retry};
use super::modern::subscriptions::{self, Filter, List};
use super::modern::{discover, results};
use super::state::{States, Unfit};
use super::step::Step;
use super::{LATEST_LEGACY, MODERN, Reply, cancelled, one};
use crate::failure::Failure;
use crate::flow;
use crate::index::ByNumber;
use crate::note::Note;
use crate::outgoing::{Outgoing, Purpose};
use crate::route::{self, Asked, RequestKey, Route};
use crate::time::{Deadline, Time, Why, earlier};
use crate::timetable::{Timed, Timetable};
use crate::wire::message::{self, Id, Kind, Message};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Questions that come within this time share a round.
const WINDOW: Duration = Duration::from_millis(40);
/// How long a parked request waits for its client.
const PARKED: Duration = Duration::from_secs(600);
/// These bound what waits for clients.
const MOST_PARKED: usize = 10_000;
const MOST_QUESTIONS: usize = 32;
const MOST_VISITS: usize = 1000;
const MOST_MISSED: usize = 32;
/// Methods that the modern era has removed.
const REMOVED: [&str; 5] = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
const GONE: &str = "this requestState is used, or its request is lost; the server may have carried it out";
const EXPIRED: &str = "this requestState has expired, and its request was cancelled";
const MALFORMED: &str = "inputResponses must be an object, and requestState a string";
const FORGED: &str = "the proxy did not write this requestState, or wrote it for another request";

#[derive(Debug)]
pub(super) struct Stateful {
    /// The server's `InitializeResult`; empty before the first session.
    initialized: String,
    /// A part of it: what the server says about itself.
    server_info: Option<String>,
    /// Each `server/discover` that waits for it.
    discovers: Held,
    open: ByNumber<RequestKey, Open>,
    parks: Timetable<RequestKey, Park>,
    by_state: BTreeMap<String, RequestKey>,
    /// The unused states of requests that the server must get again, and when they expire.
    visits: BTreeSet<(Time, String)>,
    /// The log level that the server has: a place in [`LEVELS`].
    level: Option<usize>,
    listens: BTreeMap<RequestKey, Listen>,
    /// The proxy's own `resources/subscribe`, each for a listen.
    subscribing: BTreeMap<RequestKey, (RequestKey, String)>,
    /// Bytes of the open requests, the parks and the listens.
    kept: usize,
    max_message: usize,
    states: States,
}

/// An open request of the client.
#[derive(Debug)]
struct Open {
    method: Box<str>,
    /// What the request asks, without metadata: a repeated request must ask the same.
    params: Box<str>,
    capabilities: Box<str>,
    /// The log level: a place in [`LEVELS`].
    level: Option<usize>,
    token: Token,
    /// Answers that the client sent before it was asked: a raw object.
    early: Option<Box<str>>,
}

impl Open {
    fn of(method: &str, params: &str, envelope: Envelope) -> Self {
        Self {
            method: method.into(),
            params: asked(params),
            capabilities: envelope.capabilities.into(),
            level: envelope.log_level.as_deref().and_then(severity),
            token: Token::Same,
            early: edit::get(params, [envelope::INPUT_RESPONSES])[0].map(Into::into),
        }
    }

    fn size(&self) -> usize {
        let token = if let Token::Retried(Some(token)) = &self.token { token.len() } else { 0 };
        let early = self.early.as_deref().map_or(0, str::len);
        self.method.len() + self.params.len() + self.capabilities.len() + token + early
    }

    /// The same request, as the client has repeated it.
    fn repeated(self, params: &str, envelope: &Envelope) -> Self {
        let meta = message::member(params, "_meta").unwrap_or_default();
        Self {
            capabilities: (*envelope.capabilities).into(),
            level: envelope.log_level.as_deref().and_then(severity),
            token: Token::Retried(message::member(meta, "progressToken").map(str::to_owned)),
            ..self
        }
    }

    /// A progress notification under the client's current token. `None` if the client
    /// does not want any.
    fn renamed(&self, mut message: Message) -> Option<Message> {
        if let Token::Retried(token) = &self.token {
            let params = edit::with(message.params(), &[("progressToken", token.as_deref()?)]);
            message.set_params(&params);
        }
        Some(message)
    }

    /// Whether the client wants this log message.
    fn admits(&self, log: &Message) -> bool {
        let level = message::text_member(log.params(), "level").and_then(|level| severity(&level));
        self.level.is_some_and(|from| level >= Some(from))
    }

    /// What the server reported while no client waited, as the client expects it now.
    fn caught_up(&self, missed: Message) -> Option<Message> {
        if is_log(&missed) { Some(missed).filter(|log| self.admits(log)) } else { self.renamed(missed) }
    }

    /// The answer to a question, if the client has sent it already.
    fn early_answer(&self, question: &Question) -> Option<&str> {
        let [answer] = edit::get(self.early.as_deref()?, [&question.key]);
        answer.filter(|answer| edit::is_object(answer))
    }
}

/// The token under which the client hears of progress.
#[derive(Debug)]
enum Token {
    /// That of the first request, which the server uses too.
    Same,
    /// That of the repeated request, as raw JSON. Without one, the client hears nothing.
    Retried(Option<String>),
}

/// A request whose server waits for answers.
#[derive(Debug)]
struct Park {
    /// Only those that `Route` still has open count: the server may withdraw one.
    questions: Vec<(Id, Question)>,
    /// What the client repeats; `None` while the proxy collects questions.
    state: Option<String>,
    until: Time,
    /// The server answered nevertheless.
    answer: Option<Message>,
    /// The last reports of the server that no client waited for.
    missed: VecDeque<Message>,
}

impl Timed for Park {
    type Terms = ();

    fn due(&self, (): &()) -> Option<Deadline> {
        Some(Deadline { at: self.until, why: Why::Round })
    }
}

impl Park {
    /// Waits for an answer of the client until then.
    fn new(questions: Vec<(Id, Question)>, until: Time) -> Self {
        Self { questions, state: None, until, answer: None, missed: VecDeque::new() }
    }

    fn size(&self) -> usize {
        let asked: usize = self.questions.iter().map(|(_, question)| question.size()).sum();
        let messages = self.answer.iter().chain(&self.missed);
        asked + messages.map(|message| message.bytes.len()).sum::<usize>()
    }
}

/// An open `subscriptions/listen` of the client.
#[derive(Debug)]
struct Listen {
    id: Id,
    filter: Filter,
    acknowledged: bool,
    /// Bytes that the URIs take.
    size: usize,
}

impl Listen {
    fn read(id: &Id, params: &str) -> Option<Self> {
        let filter = Filter::read(params)?;
        // Each URI is kept twice while the proxy subscribes to it.
        let size = 2 * filter.resources.iter().map(String::len).sum::<usize>();
        Some(Self { id: id.clone(), filter, acknowledged: false, size })
    }

    /// The server's session was replaced: every list may have changed meanwhile.
    fn missed(&self, key: RequestKey) -> impl Iterator<Item = Step> {
        let lists = self.filter.lists.iter().filter(|_| self.acknowledged);
        let changed = |list: &List| notification(list.notification(), &subscriptions::tag("{}", &self.id));
        lists.map(move |list| Step::Notify(Some(key), changed(list)))
    }
}

impl Stateful {
    pub(super) fn new(max_message: usize, limit: Option<Duration>, states: States) -> Self {
        Self {
            initialized: String::new(),
            server_info: None,
            discovers: Held::new(limit),
            open: ByNumber::default(),
            parks: Timetable::new(()),
            by_state: BTreeMap::new(),
            visits: BTreeSet::new(),
            level: None,
            listens: BTreeMap::new(),
            subscribing: BTreeMap::new(),
            kept: 0,
            max_message,
            states,
        }
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        earlier(self.parks.first(), self.discovers.deadline())
    }

    /// Bytes of the client's open requests, and of what waits for the client to repeat them.
    pub(super) fn kept(&self) -> usize {
        self.kept + self.discovers.bytes()
    }

    /// Removes the requests that have waited too long for a session.
    pub(super) fn overdue(&mut self, now: Time) -> Vec<Outgoing> {
        self.discovers.overdue(now)
    }

    /// Removes all requests that wait for a session.
    fn waiting(&mut self) -> Vec<RequestKey> {
        self.discovers.take_all().into_iter().filter_map(|outgoing| outgoing.purpose.traits().key).collect()
    }

    /// A request of the client.
    pub(super) fn admit(&mut self, now: Time, outgoing: Outgoing, legacy: &mut Legacy, route: &mut Route) -> Vec<Step> {
        let (Some(key), Some(message)) = (outgoing.purpose.traits().key, one(&outgoing.body)) else {
            return Vec::new();
        };
        let Kind::Request { id, method } = &message.kind else { return Vec::new() };
        let envelope = match read(message.params()) {
            Ok(envelope) => envelope,
            Err(refusal) => return vec![Step::Answer(key, Reply::Error(refusal.error))],
        };
        if REMOVED.contains(&&**method) {
            return vec![Step::Answer(key, Reply::error(METHOD_NOT_FOUND, &format!("{MODERN} has no {method}")))];
        }
        match Retry::read(message.params()) {
            Ok(Some(Retry { state: Some(state), .. })) if !self.comes_again(now, &state, &message) => {
                let parked = match self.parked_under(now, &state, &message) {
                    Ok(parked) => parked,
                    Err(why) => return vec![Step::Answer(key, Reply::error(INVALID_PARAMS, why))],
                };
                let mut steps = vec![Step::Adopt { parked, retry: key }];
                steps.extend(self.retried(now, parked, &message, &envelope, legacy, route));
                return steps;
            }
            Ok(_) => {}
            Err(_) => return vec![Step::Answer(key, Reply::error(INVALID_PARAMS, MALFORMED))],
        }
        if !legacy.introduced() {
            legacy.introduce(introduction(&envelope));
        }
        match &**method {
            "server/discover" if self.initialized.is_empty() => {
                self.discovers.push_back(outgoing);
                return legacy.reopen(route).map(Step::Send).into_iter().collect();
            }
            "server/discover" => return vec![Step::Answer(key, self.discovered())],
            "subscriptions/listen" => {
                let Some(listen) = Listen::read(id, message.params()) else {
                    return vec![Step::Answer(key, Reply::error(INVALID_PARAMS, "the params name no notifications"))];
                };
                return self.listen(now, key, listen, legacy, route);
            }
            _ => {}
        }
        let mut steps = self.set_level(now, &envelope, legacy, route);
        let open = Open::of(method, message.params(), envelope);
        self.kept += open.size();
        self.open.insert(key, open);
        let wire = route.wire_id(key).unwrap_or(id).clone();
        let outgoing = Outgoing { body: stripped(message, &wire).into(), modern: false, ..outgoing };
        steps.extend(legacy.admit(now, outgoing, route).map(Step::Send));
        steps
    }

    /// The server sends log messages from one level on, for all requests. A running request
    /// may want more of them than a new one. A new session gets the level again.
    fn set_level(&mut self, now: Time, envelope: &Envelope, legacy: &mut Legacy, route: &mut Route) -> Vec<Step> {
        let wanted = envelope.log_level.as_deref().and_then(severity);
        let Some(level) = wanted.filter(|level| self.level != Some(*level)) else { return Vec::new() };
        if self.open.len() > 0 && self.level.is_some_and(|current| current < level) {
            return Vec::new();
        }
        self.level = Some(level);
        let params = format!("{{\"level\":\"{}\"}}", LEVELS.get(level).copied().unwrap_or_default());
        if legacy.learn(Message::request(&Id::named("level"), "logging/setLevel", &params)) {
            return Vec::new();
        }
        let (key, id) = route.open_own(Asked::Upkeep);
        let body = Message::request(&id, "logging/setLevel", &params).bytes;
        legacy.admit(now, Outgoing::new(Purpose::Restore(key), body), route).map(Step::Send).into_iter().collect()
    }

    fn discovered(&self) -> Reply {
        Reply::Result(discover::discover_result(&self.initialized, &[MODERN]))
    }

    /// A session is open.
    pub(super) fn opened(&mut self, now: Time, result: &str, legacy: &mut Legacy, route: &mut Route) -> Vec<Step> {
        result.clone_into(&mut self.initialized);
        self.server_info = message::member(result, "serverInfo").map(str::to_owned);
        let mut steps: Vec<Step> = self.waiting().into_iter().map(|key| Step::Answer(key, self.discovered())).collect();
        steps.extend(self.listens.iter().flat_map(|(key, listen)| listen.missed(*key)));
        let listens: Vec<RequestKey> = self.listens.keys().copied().collect();
        for key in listens {
            steps.extend(self.subscribe(now, key, legacy, route));
        }
        steps
    }

    /// No session could be opened.
    pub(super) fn not_opened(&mut self, failure: &Failure) -> Vec<Step> {
        let listens: Vec<RequestKey> = self.listens.keys().copied().collect();
        let waiting = self.waiting().into_iter().chain(listens);
        waiting.map(|key| Step::Answer(key, Reply::Failure(failure.clone()))).collect()
    }

    fn listen(
        &mut self,
        now: Time,
        key: RequestKey,
        listen: Listen,
        legacy: &mut Legacy,
        route: &mut Route,
    ) -> Vec<Step> {
        self.kept += listen.size;
        self.listens.insert(key, listen);
        let reopening = legacy.reopen(route);
        if reopening.is_some() || self.initialized.is_empty() {
            return reopening.map(Step::Send).into_iter().collect();
        }
        self.subscribe(now, key, legacy, route)
    }

    /// Asks the server for the resources of a listen. With none, it is acknowledged.
    fn subscribe(&mut self, now: Time, key: RequestKey, legacy: &mut Legacy, route: &mut Route) -> Vec<Step> {
        let Some(listen) = self.listens.get_mut(&key) else { return Vec::new() };
        let declared = message::member(&self.initialized, "capabilities").unwrap_or_default();
        let announced = Filter::announced(declared);
        listen.filter.lists.retain(|list| announced.lists.contains(list));
        let resources: Vec<String> = listen.filter.resources.iter().cloned().collect();
        let mut steps = Vec::new();
        for uri in resources {
            let (own, id) = route.open_own(Asked::Tools);
            let params = format!("{{\"uri\":{}}}", edit::quote(&uri));
            let body = Message::request(&id, "resources/subscribe", &params).bytes;
            self.subscribing.insert(own, (key, uri));
            let outgoing = Outgoing::new(Purpose::Lookup(own), body);
            steps.extend(legacy.admit(now, outgoing, route).map(Step::Send));
        }
        steps.extend(self.acknowledge(key));
        steps
    }

    /// The server answered the proxy's own `resources/subscribe`.
    pub(super) fn subscribed(&mut self, own: RequestKey, succeeded: bool) -> Vec<Step> {
        let Some((key, uri)) = self.subscribing.remove(&own) else { return Vec::new() };
        if let Some(listen) = self.listens.get_mut(&key).filter(|_| !succeeded) {
            listen.filter.resources.remove(&uri);
        }
        self.acknowledge(key).into_iter().collect()
    }

    fn acknowledge(&mut self, key: RequestKey) -> Option<Step> {
        if self.subscribing.values().any(|(waiting, _)| *waiting == key) {
            return None;
        }
        let listen = self.listens.get_mut(&key).filter(|listen| !listen.acknowledged)?;
        listen.acknowledged = true;
        let params = listen.filter.to_acknowledgement(&listen.id);
        Some(Step::Notify(Some(key), notification("notifications/subscriptions/acknowledged", &params)))
    }

    /// A notification of the server. `origin` is the request whose response carried it.
    pub(super) fn notified(&mut self, origin: Option<RequestKey>, message: &Message) -> Vec<Step> {
        let Kind::Notification { method } = &message.kind else { return Vec::new() };
        if is_log(message) {
            return self.logged(origin, message).into_iter().collect();
        }
        let wants = |listen: &Listen| listen.acknowledged && listen.filter.admits(method, message.params());
        let tagged = |(key, listen): (&RequestKey, &Listen)| {
            let params = if message.params().is_empty() { "{}" } else { message.params() };
            Step::Notify(Some(*key), notification(method, &subscriptions::tag(params, &listen.id)))
        };
        self.listens.iter().filter(|(_, listen)| wants(listen)).map(tagged).collect()
    }

    /// Log messages pass from the level that the request names, or any if it is not known.
    fn logged(&mut self, origin: Option<RequestKey>, message: &Message) -> Option<Step> {
        let admits = |key: &RequestKey| self.open.get(key).is_some_and(|open| open.admits(message));
        let key = match origin.filter(|key| self.knows(*key)) {
            Some(key) => Some(key).filter(admits),
            None => self.open.keys().into_iter().filter(admits).min_by_key(|key| self.is_parked(*key)),
        }?;
        let message = self.unless_parked(key, message.clone())?;
        Some(Step::Notify(Some(key), message.bytes))
    }

    /// A progress notification under the client's current token. `None` if no request of
    /// the client waits for it.
    pub(super) fn progressed(&mut self, key: RequestKey, message: Message) -> Option<Message> {
        let message = self.unless_parked(key, message)?;
        match self.open.get(&key) {
            Some(open) => open.renamed(message),
            None => Some(message),
        }
    }

    /// Keeps a report about a request whose client is away, until the client repeats it.
    fn unless_parked(&mut self, key: RequestKey, message: Message) -> Option<Message> {
        if !self.is_parked(key) {
            return Some(message);
        }
        let mut park = self.take_park(key)?;
        if park.missed.len() == MOST_MISSED {
            park.missed.pop_front();
        }
        if flow::may_keep(self.kept + park.size(), message.bytes.len(), self.max_message) {
            park.missed.push_back(message);
        }
        self.put_park(key, park);
        None
    }

    /// The server asks the client something.
    pub(super) fn ask(
        &mut self,
        now: Time,
        origin: Option<RequestKey>,
        message: &Message,
        legacy: &mut Legacy,
        route: &mut Route,
    ) -> Vec<Step> {
        let Kind::Request { id, method } = &message.kind else { return Vec::new() };
        let mut answer = |body| {
            let outgoing = Outgoing::new(Purpose::Answer, body);
            legacy.admit(now, outgoing, route).map(Step::Send).into_iter().collect::<Vec<_>>()
        };
        if &**method == "ping" {
            return answer(message::write_result(id, "{}"));
        }
        let Some(question) = Question::of_request(id, method, message.params()) else {
            return answer(message::write_error::<()>(id, METHOD_NOT_FOUND, "the client has no such method", None));
        };
        let Some(key) = self.owner(origin, question.needs()) else {
            let why = "no request of the client can carry this question";
            return answer(message::write_error::<()>(id, INTERNAL_ERROR, why, None));
        };
        let declared = self.open.get(&key).is_some_and(|open| question.needs().is_in(&open.capabilities));
        if !declared {
            let required = question.needs().to_json();
            let mut steps =
                answer(message::write_error::<()>(id, INTERNAL_ERROR, "the client cannot answer this", None));
            steps.extend(self.cancel(now, key, legacy, route));
            steps.push(Step::Answer(key, Reply::Error(Refusal::missing_capability(required).error)));
            return steps;
        }
        if let Some(early) = self.open.get(&key).and_then(|open| open.early_answer(&question)) {
            return answer(message::write_result(id, early));
        }
        let full = "the client has too many open questions";
        if !self.has_room(key, &question) {
            return answer(message::write_error::<()>(id, INTERNAL_ERROR, full, None));
        }
        // The server is excused for this request only: `is_parked`.
        match route.ask(id, true) {
            Ok(()) => {}
            Err(route::Refusal::Duplicate) => return vec![Step::Note(Note::RepeatedAsk)],
            // A refusal would have to send the id back.
            Err(route::Refusal::LongId) => return vec![Step::Note(Note::AskDropped)],
            Err(route::Refusal::Full) => {
                let body = message::write_error::<()>(id, INTERNAL_ERROR, full, None);
                let outgoing = Outgoing::new(Purpose::Answer, body);
                return legacy.admit(now, outgoing, route).map(Step::Send).into_iter().collect();
            }
        }
        let fresh = || Park::new(Vec::new(), now.after(WINDOW));
        let mut park = self.take_park(key).unwrap_or_else(fresh);
        park.questions.push((id.clone(), question));
        self.put_park(key, park);
        Vec::new()
    }

    /// Whether one more question of this request can wait for the client.
    fn has_room(&self, key: RequestKey, question: &Question) -> bool {
        let few = match self.parks.get(key) {
            Some(park) => park.questions.len() < MOST_QUESTIONS,
            None => self.by_state.len() < MOST_PARKED,
        };
        few && flow::may_keep(self.kept, question.size(), self.max_message)
    }

    /// The request that a question belongs to: the one whose response carried it, the only
    /// one whose client could answer it, or the only one.
    fn owner(&self, origin: Option<RequestKey>, needed: Needed) -> Option<RequestKey> {
        let running = |key: &RequestKey| self.parks.get(*key).is_none_or(|park| park.answer.is_none());
        let carries = |key: &RequestKey| running(key) && self.open.get(key).is_some_and(|open| carries(&open.method));
        if let Some(key) = origin {
            return Some(key).filter(carries);
        }
        let asks = |key: &RequestKey| self.open.get(key).is_some_and(|open| needed.is_in(&open.capabilities));
        let running: Vec<RequestKey> = self.open.keys().into_iter().filter(carries).collect();
        let only = |keys: &[RequestKey]| if let [key] = keys { Some(*key) } else { None };
        let able: Vec<RequestKey> = running.iter().copied().filter(asks).collect();
        if able.is_empty() { only(&running) } else { only(&able) }
    }

    fn cancel(&self, now: Time, key: RequestKey, legacy: &mut Legacy, route: &mut Route) -> Option<Step> {
        let body = cancelled(route.wire_id(key)?, "the client cannot answer");
        legacy.admit(now, Outgoing::new(Purpose::Notification, body), route).map(Step::Send)
    }

    /// Whether it is a request of a modern client.
    pub(super) fn knows(&self, key: RequestKey) -> bool {
        self.open.len() > 0 && self.open.get(&key).is_some()
    }

    /// How many subscriptions of clients are open.
    pub(super) fn listens(&self) -> usize {
        self.listens.len()
    }

    /// Whether a request waits for its client to repeat it.
    pub(super) fn parks(&self) -> bool {
        !self.by_state.is_empty()
    }

    /// Whether the server's side of a request is open and the client's is not.
    pub(super) fn is_parked(&self, key: RequestKey) -> bool {
        self.parks.get(key).is_some_and(|park| park.state.is_some())
    }

    /// The server answered a request of the client.
    pub(super) fn answered(&mut self, now: Time, key: RequestKey, message: Message, route: &mut Route) -> Vec<Step> {
        if self.is_parked(key) {
            let Some(mut park) = self.take_park(key) else { return Vec::new() };
            park.questions.drain(..).for_each(|(id, _)| drop(route.answer(&id)));
            let fits = flow::may_keep(self.kept, message.bytes.len(), self.max_message);
            park.answer = fits.then_some(message);
            self.put_park(key, park);
            return vec![if fits { Step::Release(key) } else { Step::Discard(key) }];
        }
        vec![Step::Answer(key, self.reply(now, key, message))]
    }

    fn reply(&mut self, now: Time, key: RequestKey, mut message: Message) -> Reply {
        let Some(open) = self.open.get(&key) else { return Reply::Message(message) };
        if let Some(required) = errors::url_elicitations(message.error()).filter(|_| carries(&open.method)) {
            let until = now.after(PARKED);
            let state = self.states.write(until, &for_visits(&open.method), &open.params);
            let reply = visits(required, &open.capabilities, &state);
            self.remember_visit(now, until, state);
            return reply;
        }
        if !message.error().is_empty() {
            return Reply::Error(errors::to_modern(&open.method, &open.params, message.error()).into_owned());
        }
        let info = self.server_info.as_deref();
        message.set_result(&results::stamp(&open.method, message.result(), info));
        Reply::Message(message)
    }

    /// Whether the server must get this request again. A state is good for that once.
    fn comes_again(&mut self, now: Time, state: &str, message: &Message) -> bool {
        let until = States::until(state).filter(|_| self.is_of_visits(now, state, message));
        until.is_some_and(|until| self.visits.remove(&(until, state.to_owned())))
    }

    /// Whether the proxy wrote this state for such a request.
    fn is_of_visits(&self, now: Time, state: &str, message: &Message) -> bool {
        let Kind::Request { method, .. } = &message.kind else { return false };
        self.states.check(now, state, &for_visits(method), &asked(message.params())).is_ok()
    }

    fn remember_visit(&mut self, now: Time, until: Time, state: String) {
        self.visits = self.visits.split_off(&(now, String::new()));
        if self.visits.len() >= MOST_VISITS {
            self.visits.pop_first();
        }
        self.visits.insert((until, state));
    }

    /// The request that the client may continue with this state, or why there is none.
    fn parked_under(&self, now: Time, state: &str, message: &Message) -> Result<RequestKey, &'static str> {
        let Kind::Request { method, .. } = &message.kind else { return Err(FORGED) };
        match self.states.check(now, state, method, &asked(message.params())) {
            Err(Unfit::Forged) if self.is_of_visits(now, state, message) => Err(GONE),
            Err(Unfit::Forged) => Err(FORGED),
            Err(Unfit::Expired) => Err(EXPIRED),
            Ok(()) => self.by_state.get(state).copied().ok_or(GONE),
        }
    }

    /// The client repeats this parked request.
    fn retried(
        &mut self,
        now: Time,
        key: RequestKey,
        message: &Message,
        envelope: &Envelope,
        legacy: &mut Legacy,
        route: &mut Route,
    ) -> Vec<Step> {
        let (Some(open), Some(mut park)) = (self.open.remove(&key), self.unpark(key)) else { return Vec::new() };
        self.kept -= open.size();
        let open = open.repeated(message.params(), envelope);
        let missed = std::mem::take(&mut park.missed).into_iter().filter_map(|missed| open.caught_up(missed));
        let mut steps: Vec<Step> = missed.map(|message| Step::Notify(Some(key), message.bytes)).collect();
        self.kept += open.size();
        self.open.insert(key, open);
        if let Some(answer) = park.answer.take() {
            steps.push(Step::Answer(key, self.reply(now, key, answer)));
            return steps;
        }
        steps.extend(self.set_level(now, envelope, legacy, route));
        let keys: Vec<String> = park.questions.iter().map(|(_, question)| question.key.clone()).collect();
        let answers = Retry::read(message.params()).ok().flatten().map(|retry| retry.answers(&keys));
        let answers = answers.unwrap_or_default();
        let mut left = Vec::new();
        for ((id, question), answer) in park.questions.into_iter().zip(answers) {
            if !route.is_asked(&id) {
                continue;
            }
            let Some(answer) = answer else {
                left.push((id, question));
                continue;
            };
            route.answer(&id);
            let outgoing = Outgoing::new(Purpose::Answer, message::write_result(&id, answer));
            steps.extend(legacy.admit(now, outgoing, route).map(Step::Send));
        }
        if !left.is_empty() {
            self.put_park(key, Park::new(left, now));
        }
        steps
    }

    pub(super) fn tick(&mut self, now: Time, legacy: &mut Legacy, route: &mut Route) -> Vec<Step> {
        let due = self.parks.due(now);
        due.into_iter().flat_map(|key| self.due(now, key, legacy, route)).collect()
    }

    fn due(&mut self, now: Time, key: RequestKey, legacy: &mut Legacy, route: &mut Route) -> Vec<Step> {
        if self.is_parked(key) {
            return self.expire(now, key, legacy, route);
        }
        // The server may have withdrawn its questions.
        let Some(mut park) = self.take_park(key) else { return Vec::new() };
        park.questions.retain(|(id, _)| route.is_asked(id));
        if park.questions.is_empty() {
            return Vec::new();
        }
        let Some(open) = self.open.get(&key) else { return Vec::new() };
        let until = now.after(PARKED);
        let state = self.states.write(until, &open.method, &open.params);
        let questions: Vec<Question> = park.questions.iter().map(|(_, question)| question.clone()).collect();
        let result = InputRequired::write(&questions, &state);
        self.put_park(key, Park { state: Some(state.clone()), until, ..park });
        self.by_state.insert(state, key);
        vec![Step::Park(key, result)]
    }

    /// The client does not come back: the server stops working.
    fn expire(&mut self, now: Time, key: RequestKey, legacy: &mut Legacy, route: &mut Route) -> Vec<Step> {
        let Some(park) = self.unpark(key) else { return Vec::new() };
        let mut steps = Vec::new();
        for (id, _) in park.questions {
            if route.answer(&id).is_none() {
                continue;
            }
            let body = message::write_error::<()>(&id, INTERNAL_ERROR, "the client did not answer", None);
            steps.extend(legacy.admit(now, Outgoing::new(Purpose::Answer, body), route).map(Step::Send));
        }
        if park.answer.is_none() {
            steps.extend(self.cancel(now, key, legacy, route));
        }
        steps.push(Step::Discard(key));
        steps
    }

    /// The client has left, and will repeat nothing.
    pub(super) fn abandoned(&mut self, now: Time, legacy: &mut Legacy, route: &mut Route) -> Vec<Step> {
        let parked: Vec<RequestKey> = self.parks.iter().map(|(key, _)| key).collect();
        let parked = parked.into_iter().filter(|key| self.is_parked(*key)).collect::<Vec<_>>();
        let mut steps: Vec<Step> = parked.into_iter().flat_map(|key| self.expire(now, key, legacy, route)).collect();
        // A listen would last until the time limit for open requests.
        let ended =
            |(key, listen): (&RequestKey, &Listen)| Step::Answer(*key, Reply::Result(subscriptions::ended(&listen.id)));
        steps.extend(self.listens.iter().map(ended));
        steps
    }

    /// The session is lost, and with it every question. A parked request has nobody to
    /// continue it, unless the server has answered it.
    pub(super) fn session_lost(&mut self) -> Vec<Step> {
        let unanswered = |park: &Park| park.answer.is_none();
        let lost: Vec<RequestKey> =
            self.parks.iter().filter(|(_, park)| unanswered(park)).map(|(key, _)| key).collect();
        let parked = lost.into_iter().filter_map(|key| self.unpark(key)?.state.map(|_| key));
        parked.map(Step::Discard).collect()
    }

    fn unpark(&mut self, key: RequestKey) -> Option<Park> {
        let park = self.take_park(key)?;
        park.state.as_ref().map(|state| self.by_state.remove(state));
        Some(park)
    }

    /// Removes a park, but not its state.
    fn take_park(&mut self, key: RequestKey) -> Option<Park> {
        let park = self.parks.remove(key)?;
        self.kept -= park.size();
        Some(park)
    }

    fn put_park(&mut self, key: RequestKey, park: Park) {
        self.kept += park.size();
        self.parks.insert(key, park);
    }

    /// A listen is over: the server need not announce what no other one asks for.
    pub(super) fn unsubscribe(&self, now: Time, key: RequestKey, legacy: &mut Legacy, route: &mut Route) -> Vec<Step> {
        let Some(listen) = self.listens.get(&key).filter(|_| legacy.open()) else { return Vec::new() };
        let others = || self.listens.iter().filter(|(other, _)| **other != key);
        let wanted = |uri: &str| others().any(|(_, listen)| listen.filter.resources.contains(uri));
        let mut steps = Vec::new();
        for uri in listen.filter.resources.iter().filter(|uri| !wanted(uri)) {
            let (own, id) = route.open_own(Asked::Upkeep);
            let params = format!("{{\"uri\":{}}}", edit::quote(uri));
            let body = Message::request(&id, "resources/unsubscribe", &params).bytes;
            steps.extend(legacy.admit(now, Outgoing::new(Purpose::Restore(own), body), route).map(Step::Send));
        }
        steps
    }

    /// A request is over. Returns the server's questions that nobody will answer.
    pub(super) fn forget(&mut self, key: RequestKey) -> Vec<Id> {
        if self.open.len() + self.discovers.count() + self.listens.len() == 0 {
            return Vec::new();
        }
        self.kept -= self.open.remove(&key).map_or(0, |open| open.size());
        self.discovers.withdraw(key);
        self.kept -= self.listens.remove(&key).map_or(0, |listen| listen.size);
        let park = self.unpark(key);
        park.into_iter().flat_map(|park| park.questions).map(|(id, _)| id).collect()
    }
}

/// The envelope of a request, if the proxy can serve it.
fn read(params: &str) -> Result<Envelope, Refusal> {
    match Envelope::read(params) {
        Ok(Some(envelope)) if envelope.version == MODERN => Ok(envelope),
        Ok(Some(envelope)) => Err(Refusal::unsupported_version(&[MODERN], &envelope.version)),
        Ok(None) => Err(Refusal::missing_key("io.modelcontextprotocol/protocolVersion")),
        Err(missing) => Err(Refusal::missing_key(missing.0)),
    }
}

/// The `initialize` on behalf of a modern client.
fn introduction(envelope: &Envelope) -> Vec<u8> {
    let capabilities = capabilities::of_client(&envelope.capabilities);
    let info = &*discover::named(envelope.info.as_deref(), "mcp-proxy");
    let version = edit::quote(LATEST_LEGACY);
    let members = [("protocolVersion", &*version), ("capabilities", &*capabilities), ("clientInfo", info)];
    Message::request(&Id::named("initialize"), "initialize", &edit::object(members)).bytes
}

/// A request as a legacy server gets it, under this id.
fn stripped(mut message: Message, id: &Id) -> Vec<u8> {
    let params = envelope::strip(message.params()).map_or_else(|| "{}".to_owned(), Cow::into_owned);
    message.set_params(&params);
    message.with_id(id)
}

/// What a request asks, without its metadata and its answers.
fn asked(params: &str) -> Box<str> {
    edit::without(params, &[edit::META, envelope::INPUT_RESPONSES, envelope::REQUEST_STATE]).into()
}

/// The answer to a request that the server refuses until the client has opened URLs
/// (2025-11-25, -32042). The server has not begun, so the repeated request is a new one.
fn visits(required: Vec<String>, capabilities: &str, state: &str) -> Reply {
    if !Needed::UrlElicitation.is_in(capabilities) {
        return Reply::Error(Refusal::missing_capability(Needed::UrlElicitation.to_json()).error);
    }
    let ask = |(at, params)| Question { key: format!("url-{at}"), ask: Ask::Elicitation, params };
    let questions: Vec<Question> = required.into_iter().enumerate().map(ask).collect();
    Reply::Result(InputRequired::write(&questions, state))
}

/// Tells the states of such requests from those of parked ones.
fn for_visits(method: &str) -> String {
    format!("{method} again")
}

/// Whether a result of this method may ask for input.
fn carries(method: &str) -> bool {
    ["tools/call", "prompts/get", "resources/read"].contains(&method)
}

fn is_log(message: &Message) -> bool {
    matches!(&message.kind, Kind::Notification { method } if &**method == "notifications/message")
}

fn notification(method: &str, params: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}").into_bytes()
}
