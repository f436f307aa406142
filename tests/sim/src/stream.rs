//! A stream of the simulated server: what it has said under which event id,
//! who reads it, and the work that is still to be done for it.

use crate::dice::Dice;
use crate::weather::Weather;
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
    pub(crate) request: Option<(Value, u64)>,
    pub(crate) form: Form,
    pub(crate) over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Body,
    Events,
    /// With event ids.
    Resumable,
}

/// One piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Pause(u64),
    Notify,
    Progress,
    Comment,
    Ask,
    /// Closes the connection, not the stream; the client polls after so long.
    Hangup(u64),
    Answer,
}

impl Stream {
    /// The stream of a request.
    pub(crate) fn answering(request: (Value, u64), session: &str, weather: &Weather, dice: &mut Dice) -> Self {
        let form = match dice.chance(weather.streams) {
            false => Form::Body,
            true if weather.resumable => Form::Resumable,
            true => Form::Events,
        };
        let mut work = VecDeque::from([Work::Pause(dice.between(0, 200))]);
        if form != Form::Body {
            work.extend((0..dice.between(0, 3)).map(|_| small_work(weather, dice)));
        }
        if form == Form::Resumable && dice.chance(30) {
            work.push_back(Work::Hangup(dice.between(0, 2000)));
            work.push_back(Work::Pause(dice.between(0, 3000)));
        }
        work.push_back(Work::Answer);
        Self { request: Some(request), ..Self::new(session, form, work) }
    }

    /// The listening stream.
    pub(crate) fn listening(session: &str, weather: &Weather, dice: &mut Dice) -> Self {
        let form = if weather.resumable { Form::Resumable } else { Form::Events };
        let mut work: VecDeque<Work> = (0..dice.between(0, 6)).map(|_| small_work(weather, dice)).collect();
        if dice.chance(50) {
            work.push_back(Work::Hangup(dice.between(100, 2000)));
        }
        Self::new(session, form, work)
    }

    fn new(session: &str, form: Form, work: VecDeque<Work>) -> Self {
        let session = session.to_owned();
        Self { session, reader: None, said: Vec::new(), work, awaits: None, request: None, form, over: false }
    }
}

fn small_work(weather: &Weather, dice: &mut Dice) -> Work {
    if dice.chance(weather.asks) {
        return Work::Ask;
    }
    let pause = Work::Pause(dice.between(0, 5000));
    dice.pick(&[pause, Work::Notify, Work::Progress, Work::Comment], pause)
}

/// One event as bytes, in one of the ways the standard allows.
pub(crate) fn event(id: Option<&str>, data: &str, dice: &mut Dice) -> Vec<u8> {
    let end = dice.pick(&["\n", "\n", "\r\n", "\r"], "\n");
    let id = id.map_or(String::new(), |id| format!("id: {id}{end}"));
    let kind = if dice.chance(30) { format!("event: message{end}") } else { String::new() };
    format!("{kind}{id}data: {data}{end}{end}").into_bytes()
}
