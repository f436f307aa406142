//! A stream of the simulated server: its events and their ids, the exchange that reads it,
//! and its remaining work. `labour` carries the work out.

use crate::dice::Dice;
use crate::habit::{Endpoint, Habits};
use mcp_proxy_core::CallId;
use serde_json::Value;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) session: String,
    /// The exchange that carries it now.
    pub(crate) reader: Option<CallId>,
    /// Every message sent. Its position is the event id.
    pub(crate) said: Vec<String>,
    pub(crate) work: VecDeque<Work>,
    /// The question that the client must answer before the work continues.
    pub(crate) awaits: Option<String>,
    /// The request that it answers; `None` for a listening stream.
    pub(crate) request: Option<Asked>,
    /// The subscription that it carries, at a modern server.
    pub(crate) subscription: Option<Subscription>,
    /// The exchange that brought the request, if it does not carry the answer.
    pub(crate) post: Option<CallId>,
    pub(crate) form: Form,
    pub(crate) over: bool,
}

/// A request that needs an answer.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) id: Value,
    pub(crate) n: u64,
    /// If set, a modern server answers with questions; counts the earlier rounds.
    pub(crate) asks: Option<u64>,
}

/// A `subscriptions/listen`.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) id: Value,
    pub(crate) filter: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Body,
    Events,
    /// With event ids.
    Resumable,
    /// The stream of an HTTP+SSE session.
    Channel,
    /// The work for one request; its messages go to such a stream.
    Job,
}

/// One piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Pause(u64),
    Notify,
    Progress,
    Comment,
    Ask,
    /// Withdraws the last question.
    Withdraw,
    /// Closes the connection; the client may return.
    Hangup,
    Answer,
    /// Names the endpoint.
    Endpoint,
    /// Lets the POST return.
    Accept,
    /// Acknowledges a subscription, or not.
    Acknowledge,
    /// Reports that a list or a resource has changed.
    Change,
    Update,
    /// Ends a subscription with its answer.
    Conclude,
}

impl Stream {
    /// The stream of a request.
    pub(crate) fn answering(asked: Asked, session: &str, habits: &Habits, dice: &mut Dice) -> Self {
        let form = match dice.chance(habits.streams) {
            false => Form::Body,
            true if habits.resumable => Form::Resumable,
            true => Form::Events,
        };
        let mut work = VecDeque::from([Work::Pause(dice.between(0, 200))]);
        if form != Form::Body {
            work.extend(small_works(3, habits, dice));
        }
        if form == Form::Resumable && dice.chance(30) {
            work.push_back(Work::Hangup);
            work.push_back(Work::Pause(dice.between(0, 3000)));
        }
        work.push_back(Work::Answer);
        Self { request: Some(asked), ..Self::new(session, form, work) }
    }

    /// The listening stream.
    pub(crate) fn listening(session: &str, habits: &Habits, dice: &mut Dice) -> Self {
        let form = if habits.resumable { Form::Resumable } else { Form::Events };
        let mut work: VecDeque<Work> = small_works(6, habits, dice).into();
        work.extend(closing(habits, dice));
        Self::new(session, form, work)
    }

    /// The stream of a request to a modern server, which asks for input in its answer.
    pub(crate) fn answering_without_session(asked: Asked, habits: &Habits, dice: &mut Dice) -> Self {
        let form = if dice.chance(habits.streams) { Form::Events } else { Form::Body };
        let mut work = VecDeque::from([Work::Pause(dice.between(0, 200))]);
        if form == Form::Events {
            let habits = Habits { asks: 0, ..habits.clone() };
            work.extend(small_works(3, &habits, dice));
        }
        work.push_back(Work::Answer);
        Self { request: Some(asked), ..Self::new("", form, work) }
    }

    pub(crate) fn subscribed(subscription: Subscription, habits: &Habits, dice: &mut Dice) -> Self {
        let mut work = VecDeque::from([Work::Pause(dice.between(0, 200))]);
        if dice.chance(95) {
            work.push_back(Work::Acknowledge);
        }
        for _ in 0..dice.between(0, 6) {
            let pause = Work::Pause(dice.between(0, 5000));
            work.push_back(dice.pick(&[pause, Work::Change, Work::Update, Work::Comment], pause));
        }
        work.extend(closing(habits, dice));
        if dice.chance(10) {
            work.push_back(Work::Conclude);
        }
        Self { subscription: Some(subscription), ..Self::new("", Form::Events, work) }
    }

    /// The stream of an HTTP+SSE session.
    pub(crate) fn channel(session: &str, habits: &Habits, dice: &mut Dice) -> Self {
        let endpoint = match habits.endpoint {
            Endpoint::After(pause) => vec![Work::Pause(pause), Work::Endpoint],
            Endpoint::Never => vec![Work::Comment],
            Endpoint::Late | Endpoint::Foreign => vec![Work::Endpoint],
        };
        let mut work: VecDeque<Work> = endpoint.into();
        work.extend(small_works(4, habits, dice));
        work.extend(closing(habits, dice));
        Self::new(session, Form::Channel, work)
    }

    /// The work for one request to an HTTP+SSE server.
    pub(crate) fn job(asked: Asked, session: &str, post: CallId, habits: &Habits, dice: &mut Dice) -> Self {
        let mut work: VecDeque<Work> = small_works(3, habits, dice).into();
        work.push_front(Work::Pause(dice.between(0, 200)));
        work.push_back(Work::Answer);
        Self { request: Some(asked), post: Some(post), ..Self::new(session, Form::Job, work) }
    }

    fn new(session: &str, form: Form, work: VecDeque<Work>) -> Self {
        Self {
            session: session.to_owned(),
            reader: None,
            said: Vec::new(),
            work,
            awaits: None,
            request: None,
            subscription: None,
            post: None,
            form,
            over: false,
        }
    }

    /// Whether it carries unsolicited messages.
    pub(crate) fn listens(&self) -> bool {
        self.request.is_none()
    }
}

/// Whether and when the server closes a stream that could last forever.
fn closing(habits: &Habits, dice: &mut Dice) -> Vec<Work> {
    let once = dice.chance(20).then(|| dice.between(0, 60_000));
    habits.closes.or(once).map_or(Vec::new(), |pause| vec![Work::Pause(pause), Work::Hangup])
}

fn small_works(most: u64, habits: &Habits, dice: &mut Dice) -> Vec<Work> {
    (0..dice.between(0, most)).flat_map(|_| small_work(habits, dice)).collect()
}

fn small_work(habits: &Habits, dice: &mut Dice) -> Vec<Work> {
    let pause = Work::Pause(dice.between(0, 5000));
    if dice.chance(habits.asks) {
        return if dice.chance(20) { vec![Work::Ask, pause, Work::Withdraw] } else { vec![Work::Ask] };
    }
    vec![dice.pick(&[pause, Work::Notify, Work::Progress, Work::Comment], pause)]
}

/// One event as bytes, in one of the ways the standard allows.
pub(crate) fn event(id: Option<&str>, data: &str, dice: &mut Dice) -> Vec<u8> {
    let end = dice.pick(&["\n", "\n", "\r\n", "\r"], "\n");
    let id = id.map_or(String::new(), |id| format!("id: {id}{end}"));
    let kind = if dice.chance(30) { format!("event: message{end}") } else { String::new() };
    // JSON allows a line end between tokens.
    let data = if dice.chance(20) { data.replacen('{', &format!("{{{end}data: "), 1) } else { data.to_owned() };
    format!("{kind}{id}data: {data}{end}{end}").into_bytes()
}
