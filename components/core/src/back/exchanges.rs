//! The exchanges with the server: starts and stops them, and queues what the coordinator
//! must learn. What an exchange leads to does not belong here.

use super::call::{Call, Limits, State};
use super::calls::Calls;
use super::classify::SendMode;
use super::cookies::Cookies;
use super::http::Report;
use super::request::{LastPlace, request};
use super::trace::Trace;
use crate::boundary::CallId;
use crate::config::{Config, Transport};
use crate::failure::Failure;
use crate::note::Note;
use crate::quirks::Quirks;
use crate::time::Time;
use http::HeaderMap;
use std::collections::VecDeque;
use url::Url;

#[derive(Debug)]
pub(super) struct Exchanges {
    pub(super) calls: Calls,
    /// The id of the newest call.
    last: u64,
    reports: VecDeque<Report>,
    cookies: Cookies,
    last_place: LastPlace,
    pub(super) trace: Trace,
    pub(super) quirks: Quirks,
    /// The longest message to read.
    pub(super) max_message: usize,
}

impl Exchanges {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            calls: Calls::new(Limits::new(config)),
            last: 0,
            reports: VecDeque::new(),
            cookies: Cookies::default(),
            last_place: LastPlace::default(),
            trace: Trace::new(config.trace),
            quirks: config.quirks,
            max_message: config.max_message,
        }
    }

    pub(super) fn report(&mut self, report: Report) {
        self.reports.push_back(report);
    }

    pub(super) fn note(&mut self, note: Note) {
        self.report(Report::Note(note));
    }

    /// Reports that a call failed, unless nobody waits for it.
    pub(super) fn fail(&mut self, call: &Call, failure: Failure) {
        let failure = call.outgoing.failure(failure);
        self.reports.extend(call.purpose.map(|purpose| Report::Failed(purpose, failure)));
    }

    /// The next report. The note about a dropped call comes before its `Stop`.
    pub(super) fn next_report(&mut self, now: Time, transport: Transport) -> Option<Report> {
        if let Some(Report::Stop(id)) = self.reports.front()
            && let Some(note) = self.trace.dropped(now, *id, transport)
        {
            return Some(Report::Note(note));
        }
        self.reports.pop_front()
    }

    /// How many reports are queued.
    pub(super) fn reported(&self) -> usize {
        self.reports.len()
    }

    /// Inserts the note about an exchange before the reports that the exchange caused.
    pub(super) fn traced(&mut self, at: usize, note: Option<Note>) {
        note.into_iter().for_each(|note| self.reports.insert(at, Report::Note(note)));
    }

    /// Starts a call under a new id.
    pub(super) fn start(&mut self, now: Time, call: Call, mode: SendMode, config: &Config) {
        let id = self.new_id();
        self.start_as(now, id, call, mode, config);
    }

    pub(super) fn start_as(&mut self, now: Time, id: CallId, mut call: Call, mode: SendMode, config: &Config) {
        call.outgoing.attempts += u32::from(mode != SendMode::Stream);
        (call.state, call.mode, call.sent, call.uploaded) = (State::AwaitHead, mode, now, 0);
        let uri = self.last_place.uri(&call.url);
        let request = request(config, &self.cookies, &call, uri);
        self.trace.started(now, id, &request);
        self.report(Report::Start(id, request));
        self.calls.put(id, call);
    }

    /// Puts a call that must be sent again under a new id, so that facts about the old
    /// exchange cannot reach it.
    pub(super) fn wait(&mut self, call: Call, state: State) {
        let id = self.new_id();
        self.keep(id, call, state);
    }

    pub(super) fn keep(&mut self, id: CallId, mut call: Call, state: State) {
        call.state = state;
        self.calls.put(id, call);
    }

    /// A fact does not fit the state of its call.
    pub(super) fn unexpected(&mut self, id: CallId, call: Call) {
        self.calls.put(id, call);
        self.note(Note::Unexpected(id));
    }

    pub(super) fn stop(&mut self, id: CallId) {
        if let Some(call) = self.calls.take(id) {
            self.cancel(id, &call);
        }
    }

    /// Ends the exchange of a call, if one is running.
    pub(super) fn cancel(&mut self, id: CallId, call: &Call) {
        if !call.waiting() {
            self.report(Report::Stop(id));
        }
    }

    pub(super) fn stop_where(&mut self, wanted: impl Fn(&Call) -> bool) {
        self.calls.ids(wanted).into_iter().for_each(|id| self.stop(id));
    }

    /// Takes all calls in a state out of the table.
    pub(super) fn take_where(&mut self, wanted: impl Fn(&Call) -> bool) -> Vec<(CallId, Call)> {
        let ids = self.calls.ids(wanted);
        ids.into_iter().filter_map(|id| Some((id, self.calls.take(id)?))).collect()
    }

    /// Nobody waits for this call any longer. Its last, shorter limit starts now.
    pub(super) fn abandon(&mut self, now: Time, id: CallId) {
        let waits = self.calls.change(id, |call| {
            let waits = call.waiting();
            call.abandon();
            call.touch(now);
            waits
        });
        if waits == Some(true) {
            self.calls.take(id);
        }
    }

    pub(super) fn learn_cookies(&mut self, url: &Url, headers: &HeaderMap) {
        if self.quirks.cookies {
            self.cookies.take(url, headers);
        }
    }

    pub(super) fn new_id(&mut self) -> CallId {
        self.last += 1;
        CallId(self.last)
    }
}
