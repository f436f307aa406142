//! A stream of the simulated server: what it has said under which event id,
//! who reads it, and the work that is still to be done for it.

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
    /// Everything said, by position; position is the event id.
    pub(crate) said: Vec<String>,
    pub(crate) work: VecDeque<Work>,
    /// The question that the client has to answer first.
    pub(crate) awaits: Option<String>,
    /// The request it answers; nothing for a listening stream.
    pub(crate) request: Option<Asked>,
    /// The exchange that brought the request, if it carries no answer.
    pub(crate) post: Option<CallId>,
    pub(crate) form: Form,
    pub(crate) over: bool,
}

/// A request that is to be answered.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) id: Value,
    pub(crate) n: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Body,
    Events,
    /// With event ids.
    Resumable,
    /// The stream of an HTTP+SSE session.
    Channel,
    /// The work for one request, said on such a stream.
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
    /// Takes the last question back.
    Withdraw,
    /// Closes the connection; the client may come back.
    Hangup,
    Answer,
    /// Names the endpoint.
    Endpoint,
    /// Lets the POST return.
    Accept,
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

    /// The work for one request that was posted to an HTTP+SSE server.
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
            post: None,
            form,
            over: false,
        }
    }

    /// It carries what is said unasked.
    pub(crate) fn listens(&self) -> bool {
        self.request.is_none()
    }
}

/// Whether and when a stream is closed that could go on for ever.
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
    // A line end may stand between the tokens of a message.
    let data = if dice.chance(20) { data.replacen('{', &format!("{{{end}data: "), 1) } else { data.to_owned() };
    format!("{kind}{id}data: {data}{end}{end}").into_bytes()
}
