//! The client of a modern server (2026-07-28): what each request needs in addition, and
//! what a legacy client sees of the answers. The server asks by a result; a legacy client
//! gets real requests, and then the proxy sends the call again with the answers. Retries
//! and streams belong to `back`.

use super::listening::{Change, Listening};
use super::modern::edit;
use super::modern::envelope::{self, Envelope, severity};
use super::modern::errors::{HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND};
use super::modern::mirror::{self, Table, Tools};
use super::modern::results::{self, OutputSchema, ResultType};
use super::modern::rounds::InputRequired;
use super::modern::{capabilities, discover};
use super::step::Step;
use super::{MODERN, PROTOCOL_VERSION, Reply, one};
use crate::config::Snapshot;
use crate::failure::{Delivered, Failure, Phase};
use crate::index::ByNumber;
use crate::note::Note;
use crate::outgoing::{Outgoing, Purpose, SessionContext};
use crate::rng::Rng;
use crate::route::{Asked, RequestKey, Route};
use crate::time::{Deadline, Time, Why, earlier};
use crate::timetable::{Timed, Timetable};
use crate::wire::message::{self, Id, Kind, Message};
use bytes::Bytes;
use http::HeaderValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How often a server may ask during one request.
const MOST_ROUNDS: u32 = 10;
/// How long a person may take to answer the questions of one round.
const ROUND: Duration = Duration::from_secs(600);
/// How long to wait if the server only wants the request again.
const PAUSE: Duration = Duration::from_millis(250);
/// How many tools with wrapped output to remember, and how many pages of a list to read for
/// the headers of a tool.
const MOST_WRAPPED: usize = 1000;
const MOST_PAGES: u32 = 20;

#[derive(Debug)]
pub(crate) struct Stateless {
    /// What the server says about itself.
    discovered: String,
    /// Names a server that does not say its name.
    host: String,
    /// What the legacy client says about itself, and the version that it offered.
    client: Option<(Envelope, String)>,
    /// The envelope of the last `server/discover`.
    probed: Option<Envelope>,
    open: ByNumber<RequestKey, Open>,
    /// Bytes of the open requests.
    kept: usize,
    /// How long a request may take at all.
    total: Option<Duration>,
    rounds: Timetable<RequestKey, Round>,
    /// The open questions of all rounds.
    asked: BTreeMap<Id, (RequestKey, usize)>,
    tools: Table,
    /// The tools whose output schema the proxy has wrapped.
    wrapped: BTreeSet<String>,
    lookups: BTreeMap<RequestKey, Lookup>,
    pub(super) listening: Listening,
}

/// An open request of the client.
#[derive(Debug)]
struct Open {
    method: Box<str>,
    /// The client wrote it in the modern form, and gets the answer in that form.
    modern: bool,
    repeatable: bool,
    /// The request as the server got it, for the next round.
    body: Bytes,
    /// When the client sent it.
    since: Option<Time>,
    /// How often the server asked, and how often the proxy sent the request again.
    rounds: u32,
    sent: u32,
    /// The last progress that the client was told.
    progress: Option<f64>,
    /// The proxy has already corrected its headers.
    corrected: bool,
}

/// A request that waits for its client, or for a moment.
#[derive(Debug)]
struct Round {
    required: InputRequired,
    questions: Vec<Id>,
    /// The raw results, in the order of the questions.
    answers: Vec<Option<String>>,
    until: Time,
}

impl Timed for Round {
    type Terms = ();

    fn due(&self, (): &()) -> Option<Deadline> {
        Some(Deadline { at: self.until, why: Why::Round })
    }
}

/// The proxy reads the list of tools for a request whose headers the server refused.
#[derive(Debug)]
struct Lookup {
    request: RequestKey,
    pages: u32,
    /// That of the request.
    envelope: Envelope,
}

impl Stateless {
    pub(super) fn new(host: &str, total: Option<Duration>) -> Self {
        Self {
            discovered: String::new(),
            host: host.to_owned(),
            client: None,
            probed: None,
            open: ByNumber::default(),
            kept: 0,
            total,
            rounds: Timetable::new(()),
            asked: BTreeMap::new(),
            tools: Table::default(),
            wrapped: BTreeSet::new(),
            lookups: BTreeMap::new(),
            listening: Listening::default(),
        }
    }

    /// Learns about a legacy client from its `initialize`.
    pub(super) fn introduced(&mut self, params: &str) {
        let [declared, info] = edit::get(params, ["capabilities", "clientInfo"]);
        let object = |value: Option<&str>| value.filter(|value| edit::is_object(value)).map(str::to_owned);
        let declared = object(declared).unwrap_or_else(|| "{}".to_owned());
        let envelope = Envelope {
            version: MODERN.to_owned(),
            capabilities: capabilities::of_client(&declared).into_owned(),
            info: object(info),
            log_level: None,
        };
        let offered = message::text_member(params, "protocolVersion").unwrap_or_default();
        self.probed = None;
        self.client = Some((envelope, offered));
    }

    /// The settings that a legacy client has made.
    pub(super) fn resume(&mut self, known: &Snapshot) {
        for setting in known.settings.iter().filter_map(one) {
            let Kind::Request { method, .. } = &setting.kind else { continue };
            match &**method {
                "logging/setLevel" => drop(self.set_level(setting.params())),
                "resources/subscribe" => self.listening.remember(setting.params()),
                _ => {}
            }
        }
    }

    fn envelope(&self) -> Envelope {
        let none =
            || Envelope { version: MODERN.to_owned(), capabilities: "{}".to_owned(), info: None, log_level: None };
        self.client.as_ref().map_or_else(none, |(envelope, _)| envelope.clone())
    }

    /// The proxy's own `server/discover`. `like`: a modern client's request, whose envelope
    /// it repeats.
    pub(super) fn discover(&mut self, like: Option<&Message>, route: &mut Route) -> Outgoing {
        let own = like.and_then(|message| Envelope::read(message.params()).ok().flatten());
        let envelope = own.or_else(|| self.probed.clone()).unwrap_or_else(|| self.envelope());
        let envelope = Envelope { version: MODERN.to_owned(), ..envelope };
        self.probed = Some(envelope.clone());
        let (key, id) = route.open_own(Asked::Discovery);
        let body = request(&id, "server/discover", &discover::request_params(&envelope));
        stamped(Outgoing::new(Purpose::Discover(key), body.bytes.clone()), &body, &[])
    }

    /// The server is modern, and this is what it says about itself.
    pub(super) fn discovered(&mut self, result: &str) {
        result.clone_into(&mut self.discovered);
        self.listening.announced(message::member(result, "capabilities").unwrap_or_default());
    }

    /// The version that a legacy client works with.
    pub(super) fn version(&self) -> Option<String> {
        let answer = self.initialize_result()?;
        message::text_member(&answer, "protocolVersion")
    }

    fn initialize_result(&self) -> Option<String> {
        let offered = self.client.as_ref().map_or("", |(_, offered)| offered);
        discover::initialize_result(&self.discovered, offered, &self.host)
    }

    fn declares(&self, capability: &str) -> bool {
        let declared = message::member(&self.discovered, "capabilities").unwrap_or_default();
        message::member(declared, capability).is_some()
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        earlier(self.rounds.first(), self.listening.deadline())
    }

    /// A message that was held while the proxy detected the era. The server has just been
    /// asked what a `server/discover` asks.
    pub(super) fn released(&mut self, now: Time, outgoing: Outgoing, route: &mut Route) -> Vec<Step> {
        let discovers = |body| one(body).is_some_and(|message| message.is_request("server/discover"));
        if let Purpose::Request { key, .. } = outgoing.purpose
            && outgoing.modern
            && discovers(&outgoing.body)
        {
            return vec![Step::Answer(key, Reply::Result(self.discovered.clone()))];
        }
        self.admit(now, outgoing, route)
    }

    /// The client's session goes on with a modern server. Changes may have been missed.
    pub(super) fn restored(&mut self, now: Time, route: &mut Route) -> Vec<Step> {
        self.listening.missed = true;
        self.listening.start(now, route, &self.envelope())
    }

    pub(super) fn heard(&mut self, now: Time, key: RequestKey, message: &Message, route: &mut Route) -> Vec<Step> {
        let envelope = self.envelope();
        self.listening.heard(now, key, message, route, &envelope)
    }

    /// A message of the client, or of the proxy.
    pub(super) fn admit(&mut self, now: Time, outgoing: Outgoing, route: &mut Route) -> Vec<Step> {
        match outgoing.purpose {
            Purpose::Initialize(key) => {
                let answer = self.initialize_result().map_or_else(no_result, Reply::Result);
                vec![Step::Opened(key, answer)]
            }
            Purpose::Request { key, repeatable } => self.request(now, key, repeatable, outgoing, route),
            Purpose::Watch(_) => {
                one(&outgoing.body).map(|message| Step::Send(stamped(outgoing, &message, &[]))).into_iter().collect()
            }
            Purpose::Initialized => self.listening.start(now, route, &self.envelope()),
            // The modern era has no notifications from HTTP clients, and no answers.
            Purpose::Reinitialize(_)
            | Purpose::Restore(_)
            | Purpose::KeepAlive(_)
            | Purpose::Discover(_)
            | Purpose::Lookup(_)
            | Purpose::Subscribe(_)
            | Purpose::Notification
            | Purpose::Answer
            | Purpose::Listen
            | Purpose::Stream
            | Purpose::Goodbye => Vec::new(),
        }
    }

    fn request(
        &mut self,
        now: Time,
        key: RequestKey,
        repeatable: bool,
        outgoing: Outgoing,
        route: &mut Route,
    ) -> Vec<Step> {
        let Some(mut message) = one(&outgoing.body) else { return Vec::new() };
        let Kind::Request { method, .. } = &message.kind else { return Vec::new() };
        let method = method.clone();
        let modern = outgoing.modern;
        if !modern {
            match &*method {
                "ping" => return vec![Step::Answer(key, Reply::empty())],
                "logging/setLevel" if self.declares("logging") => {
                    let known = self.set_level(message.params());
                    let unknown = || Reply::error(INVALID_PARAMS, "the params have no known level");
                    return vec![Step::Answer(key, if known { Reply::empty() } else { unknown() })];
                }
                "logging/setLevel" => return vec![Step::Answer(key, unknown(&method))],
                "resources/subscribe" | "resources/unsubscribe" => {
                    let subscribes = &*method == "resources/subscribe";
                    let Some(uri) = message::text_member(message.params(), "uri") else {
                        return vec![Step::Answer(key, Reply::error(INVALID_PARAMS, "the params have no uri"))];
                    };
                    let envelope = self.envelope();
                    let until = self.limit(outgoing.since);
                    return self.listening.change(now, key, Change { uri, subscribes, until }, route, &envelope);
                }
                _ if method.starts_with("tasks/") => return vec![Step::Answer(key, unknown(&method))],
                _ => message.set_params(&self.envelope().add_to(message.params())),
            }
        }
        let headers = self.tool_headers(&method, message.params());
        let open = Open {
            method,
            modern,
            repeatable,
            body: message.bytes.clone().into(),
            since: outgoing.since,
            rounds: 0,
            sent: 0,
            progress: None,
            corrected: false,
        };
        let outgoing = Outgoing { body: open.body.clone(), ..outgoing };
        self.kept += open.body.len();
        self.open.insert(key, open);
        vec![Step::Send(match modern {
            true => stamped(outgoing, &message, &headers),
            false => stamped_as(MODERN, outgoing, &message, &headers),
        })]
    }

    /// Returns whether the params name a level.
    fn set_level(&mut self, params: &str) -> bool {
        let level = message::text_member(params, "level").filter(|level| severity(level).is_some());
        let known = level.is_some();
        if let Some((envelope, _)) = self.client.as_mut().filter(|_| known) {
            envelope.log_level = level;
        }
        known
    }

    /// The headers that repeat arguments of a tool.
    fn tool_headers(&self, method: &str, params: &str) -> Vec<(http::HeaderName, HeaderValue)> {
        if method != "tools/call" || self.tools.is_empty() {
            return Vec::new();
        }
        let [name, arguments] = edit::get(params, ["name", "arguments"]);
        let name = name.and_then(edit::string).unwrap_or_default();
        mirror::param_headers(self.tools.of(&name), arguments.unwrap_or_default())
    }

    /// The server answered a request of the client.
    pub(super) fn answered(&mut self, now: Time, key: RequestKey, message: Message, route: &mut Route) -> Vec<Step> {
        let Some(open) = self.open.get(&key) else { return vec![Step::Answer(key, Reply::Message(message))] };
        if self.is_resting(key) {
            return vec![Step::Note(Note::LateAnswer)];
        }
        if !message.error().is_empty() {
            return self.refused(key, message, route);
        }
        match results::result_type(message.result()) {
            ResultType::InputRequired if !open.modern => self.ask(now, key, &message, route),
            ResultType::Other(kind) if !open.modern => {
                let why = format!("the server answered with a result of type {kind}, which your client does not know");
                vec![self.failed(key, &why)]
            }
            ResultType::Complete | ResultType::InputRequired | ResultType::Other(_) => self.complete(key, message),
        }
    }

    fn complete(&mut self, key: RequestKey, mut message: Message) -> Vec<Step> {
        let Some(open) = self.open.get(&key) else { return Vec::new() };
        let (mut steps, modern) = (Vec::new(), open.modern);
        let mut result = message.result().to_owned();
        if &*open.method == "tools/list" {
            (result, steps) = self.learn_tools(&result);
        }
        if let (false, Some(open)) = (modern, self.open.get(&key)) {
            result = results::strip(&open.method, &result).into_owned();
            if &*open.method == "tools/call" {
                let call = if self.wrapped.is_empty() { None } else { one(&open.body) };
                let name = call.and_then(|call| message::text_member(call.params(), "name"));
                let wrapped = name.is_some_and(|name| self.wrapped.contains(&name));
                let schema = if wrapped { OutputSchema::Wrapped } else { OutputSchema::Plain };
                result = results::wrap_output(&result, schema).into_owned();
            }
        }
        if result != message.result() {
            message.set_result(&result);
        }
        steps.push(Step::Answer(key, Reply::Message(message)));
        steps
    }

    /// Remembers which headers the tools want, and drops those that no client may call. A
    /// page says nothing about the tools of another one.
    fn learn_tools(&mut self, result: &str) -> (String, Vec<Step>) {
        if !self.wrapped.is_empty() {
            for name in results::tool_names(result) {
                self.wrapped.remove(&name);
            }
        }
        let Tools { text, dropped, .. } = self.tools.learn(result);
        let room = MOST_WRAPPED.saturating_sub(self.wrapped.len());
        self.wrapped.extend(results::wrapped_tools(&text).into_iter().take(room));
        let note = |(name, fault): (String, mirror::Fault)| Step::Note(Note::ToolDropped { name, why: fault.words() });
        (text.into_owned(), dropped.into_iter().map(note).collect())
    }

    /// The server refused a request. If the headers were wrong, the proxy reads the list of
    /// tools, which says which are right.
    pub(super) fn refused(&mut self, key: RequestKey, message: Message, route: &mut Route) -> Vec<Step> {
        let [code] = edit::get(message.error(), ["code"]);
        let mismatch = code.and_then(|code| code.parse().ok()) == Some(HEADER_MISMATCH);
        match self.open.get_mut(&key) {
            Some(open) if mismatch && &*open.method == "tools/call" && !open.corrected => {
                open.corrected = true;
                let modern = open.modern.then(|| one(&open.body)).flatten();
                let envelope = modern.and_then(|call| Envelope::read(call.params()).ok().flatten());
                let envelope = envelope.unwrap_or_else(|| self.envelope());
                vec![Step::Release(key), self.look_up(Lookup { request: key, pages: 1, envelope }, "{}", route)]
            }
            _ => vec![Step::Answer(key, Reply::Message(message))],
        }
    }

    fn look_up(&mut self, lookup: Lookup, params: &str, route: &mut Route) -> Step {
        let (key, id) = route.open_own(Asked::Tools);
        let body = request(&id, "tools/list", &lookup.envelope.add_to(params));
        self.lookups.insert(key, lookup);
        Step::Send(stamped(Outgoing::new(Purpose::Lookup(key), body.bytes.clone()), &body, &[]))
    }

    /// The server answered, or failed to answer, the proxy's `tools/list`.
    pub(super) fn looked_up(&mut self, own: RequestKey, result: Option<&str>, route: &mut Route) -> Vec<Step> {
        let Some(lookup) = self.lookups.remove(&own) else { return Vec::new() };
        let mut steps = Vec::new();
        if let Some(result) = result {
            (_, steps) = self.learn_tools(result);
            let cursor = message::member(result, "nextCursor").filter(|cursor| *cursor != "null");
            let found = self.open.get(&lookup.request).and_then(|open| one(&open.body));
            let found = found.is_some_and(|call| !self.tool_headers("tools/call", call.params()).is_empty());
            if let Some(cursor) = cursor.filter(|_| !found && lookup.pages < MOST_PAGES) {
                let next = Lookup { pages: lookup.pages + 1, ..lookup };
                steps.push(self.look_up(next, &format!("{{\"cursor\":{cursor}}}"), route));
                return steps;
            }
        }
        steps.extend(self.again(lookup.request, None, route));
        steps
    }

    /// Sends an open request again under a new id, with other params or the same.
    fn again(&mut self, key: RequestKey, params: Option<String>, route: &mut Route) -> Option<Step> {
        let open = self.open.get_mut(&key)?;
        open.sent += 1;
        let (round, open) = (open.sent, self.open.get(&key)?);
        let mut message = one(&open.body)?;
        if let Some(params) = params {
            message.set_params(&params);
        }
        let headers = self.tool_headers(&open.method, message.params());
        let (purpose, since) = (Purpose::Request { key, repeatable: open.repeatable }, open.since);
        let outgoing = stamped(Outgoing::new(purpose, Bytes::new()), &message, &headers);
        let body = message.with_id(&route.renamed(key)?);
        // The server has answered what the proxy sent before.
        Some(Step::Send(Outgoing { body: body.into(), round, since, delivered: Delivered::Yes, ..outgoing }))
    }

    /// The server asks a legacy client for input.
    fn ask(&mut self, now: Time, key: RequestKey, message: &Message, route: &mut Route) -> Vec<Step> {
        let Some(open) = self.open.get_mut(&key) else { return Vec::new() };
        open.rounds += 1;
        if open.rounds > MOST_ROUNDS {
            let why = format!("the server asked for input {MOST_ROUNDS} times and still has no answer");
            return vec![self.failed(key, &why)];
        }
        let Ok(required) = InputRequired::read(message.result()) else {
            return vec![self.failed(key, "the server asked for input in a form that it may not use")];
        };
        let declared = self.client.as_ref().map_or("{}", |(envelope, _)| &envelope.capabilities);
        if required.questions.iter().any(|question| !question.needs().is_in(declared)) {
            let why = "the server asked for input that your client did not declare it can give";
            return vec![self.failed(key, why)];
        }
        let wait = if required.questions.is_empty() { PAUSE } else { ROUND };
        let (mut questions, mut steps) = (Vec::new(), vec![Step::Release(key)]);
        for (n, question) in required.questions.iter().enumerate() {
            let id = route.own_id();
            let name = id.text().trim_matches('"').to_owned();
            steps.push(Step::Ask(id.clone(), question.request(&id, &name)));
            self.asked.insert(id.clone(), (key, n));
            questions.push(id);
        }
        let answers = vec![None; questions.len()];
        let (until, limit) = (now.after(wait), self.limit(self.open.get(&key).and_then(|open| open.since)));
        let until = limit.map_or(until, |limit| limit.min(until));
        self.rounds.insert(key, Round { required, questions, answers, until });
        steps
    }

    /// Whether a question is one of the proxy's own.
    pub(super) fn is_question(&self, id: &Id) -> bool {
        self.asked.contains_key(id)
    }

    /// The client answered a question of a round.
    pub(super) fn replied(&mut self, id: &Id, message: &Message, route: &mut Route) -> Vec<Step> {
        let Some((key, n)) = self.asked.remove(id) else { return Vec::new() };
        if !message.error().is_empty() {
            let why = message::text_member(message.error(), "message").unwrap_or_default();
            return self
                .abandoned(key, &format!("your client could not give the input that the server asked for: {why}"));
        }
        let done = self.rounds.change(key, |round| {
            if let Some(answer) = round.answers.get_mut(n) {
                *answer = Some(message.result().to_owned());
            }
            round.answers.iter().all(Option::is_some)
        });
        if done == Some(true) { self.next_round(key, route) } else { Vec::new() }
    }

    fn next_round(&mut self, key: RequestKey, route: &mut Route) -> Vec<Step> {
        let Some(round) = self.rounds.remove(key) else { return Vec::new() };
        let keys = round.required.questions.iter().map(|question| &*question.key);
        let answers: Vec<_> = keys.zip(round.answers.iter().flatten().map(String::as_str)).collect();
        let params = self.open.get(&key).and_then(|open| one(&open.body));
        let params = params.map(|call| round.required.retry(call.params(), &answers));
        self.again(key, params, route).into_iter().collect()
    }

    /// The client cannot answer a question: the request fails.
    pub(super) fn unanswerable(&mut self, id: &Id, why: &str) -> Vec<Step> {
        let Some((key, _)) = self.asked.remove(id) else { return Vec::new() };
        self.abandoned(key, &format!("the server asked for input, but {why}"))
    }

    fn abandoned(&mut self, key: RequestKey, why: &str) -> Vec<Step> {
        let calls_tool = self.open.get(&key).is_some_and(|open| &*open.method == "tools/call");
        let text = edit::quote(why);
        let result = format!("{{\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\"isError\":true}}");
        let answer = if calls_tool { Step::Answer(key, Reply::Result(result)) } else { self.failed(key, why) };
        self.forget(key).into_iter().map(Step::Withdraw).chain([answer]).collect()
    }

    /// The server got a request, but the proxy cannot use its answer.
    fn failed(&self, key: RequestKey, why: &str) -> Step {
        self.failed_with(key, Failure::new(Phase::Session, Delivered::Yes, why))
    }

    fn failed_with(&self, key: RequestKey, mut failure: Failure) -> Step {
        failure.data.attempt = self.attempts(key);
        Step::Answer(key, Reply::Failure(failure))
    }

    /// How often the proxy sent an open request.
    pub(super) fn attempts(&self, key: RequestKey) -> u32 {
        self.open.get(&key).map_or(0, |open| open.sent + 1)
    }

    /// When a request that the client sent at this time must have its answer.
    fn limit(&self, since: Option<Time>) -> Option<Time> {
        Some(since?.after(self.total?))
    }

    /// A request is over. Returns the questions that the client need not answer any longer.
    pub(super) fn forget(&mut self, key: RequestKey) -> Vec<Id> {
        self.kept -= self.open.remove(&key).map_or(0, |open| open.body.len());
        self.listening.withdraw(key);
        let questions = self.rounds.remove(key).map(|round| round.questions).unwrap_or_default();
        questions.into_iter().filter(|id| self.asked.remove(id).is_some()).collect()
    }

    /// Whether a request still needs the answer to what the proxy sent in this round.
    pub(super) fn awaits(&self, key: RequestKey, round: u32) -> bool {
        let sent = self.open.get(&key).is_none_or(|open| open.sent == round);
        sent && !self.is_resting(key)
    }

    /// The server has answered a request, and the proxy has not yet sent it again.
    fn is_resting(&self, key: RequestKey) -> bool {
        self.rounds.get(key).is_some() || self.lookups.values().any(|lookup| lookup.request == key)
    }

    /// Whether to tell the client about this progress: a request that the proxy has sent
    /// again may start from the beginning.
    pub(super) fn progressed(&mut self, key: RequestKey, params: &str) -> bool {
        let Some(open) = self.open.get_mut(&key) else { return true };
        let progress = message::member(params, "progress").and_then(|progress| progress.parse::<f64>().ok());
        let grows = open.rounds == 0 || progress > open.progress;
        if grows {
            open.progress = progress;
        }
        grows
    }

    pub(super) fn tick(&mut self, now: Time, route: &mut Route, rng: &mut Rng) -> Vec<Step> {
        let mut steps = Vec::new();
        for key in self.rounds.due(now) {
            if self.limit(self.open.get(&key).and_then(|open| open.since)).is_some_and(|limit| limit <= now) {
                let late = self.failed_with(key, late(Delivered::Yes, self.total.unwrap_or_default()));
                steps.extend(self.forget(key).into_iter().map(Step::Withdraw).chain([late]));
                continue;
            }
            let asks = self.rounds.get(key).is_some_and(|round| !round.questions.is_empty());
            steps.extend(if asks {
                self.abandoned(key, "your client did not give the input that the server asked for in time")
            } else {
                self.next_round(key, route)
            });
        }
        for key in self.listening.overdue(now) {
            steps.push(Step::Answer(key, Reply::Failure(late(Delivered::No, self.total.unwrap_or_default()))));
        }
        steps.extend(self.listening.tick(now, route, &self.envelope(), rng));
        steps
    }

    /// Bytes of the requests that the proxy may have to send again.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }
}

/// A message of the proxy's own.
pub(super) fn request(id: &Id, method: &str, params: &str) -> Message {
    Message::request(id, method, params)
}

/// The message with its headers: the version and the parts that headers repeat.
pub(super) fn stamped(outgoing: Outgoing, message: &Message, more: &[(http::HeaderName, HeaderValue)]) -> Outgoing {
    let version = envelope::version(message.params());
    stamped_as(version.as_deref().unwrap_or(MODERN), outgoing, message, more)
}

/// The same, for a message that has this version.
fn stamped_as(
    version: &str,
    outgoing: Outgoing,
    message: &Message,
    more: &[(http::HeaderName, HeaderValue)],
) -> Outgoing {
    let Kind::Request { method, .. } = &message.kind else { return outgoing };
    let version = HeaderValue::from_str(version).ok().map(|version| (PROTOCOL_VERSION, version));
    let mirrored = mirror::standard_headers(method, message.params());
    let headers = version.into_iter().chain(mirrored).chain(more.iter().cloned()).collect();
    let session = Arc::new(SessionContext { headers, stateless: true, ..SessionContext::default() });
    Outgoing { session, ..outgoing }
}

fn no_result() -> Reply {
    let why = "the server did not say what it supports";
    Reply::Failure(Failure::new(Phase::Session, Delivered::Yes, why))
}

fn unknown(method: &str) -> Reply {
    Reply::error(METHOD_NOT_FOUND, &format!("the server has no {method}: it speaks revision {MODERN}"))
}

fn late(delivered: Delivered, limit: Duration) -> Failure {
    Failure::late(Phase::Session, delivered, "the request was not answered within", limit, "--total-timeout")
}
