//! What happens to a call that did not succeed at once: the proxy retries it, resumes it,
//! or gives it up. Every path ends in exactly one report, or in a wait with a deadline.

use super::call::{Call, Cursor, Exchange, Reason, State};
use super::challenge::challenge;
use super::classify::{self, SendMode};
use super::http::{HttpBack, Report};
use super::said::no_answer;
use super::session_lost;
use crate::backoff;
use crate::boundary::{CallError, CallId};
use crate::failure::{Delivered, Failure, Phase};
use crate::note::Note;
use crate::outgoing::Purpose;
use crate::time::{Time, Why};
use http::{HeaderMap, StatusCode};
use std::time::Duration;
use url::Url;

/// Most redirects to follow in a row.
const MOST_HOPS: u32 = 5;

impl HttpBack {
    /// Retries the call after a wait, under a new id.
    pub(super) fn again(&mut self, now: Time, call: Call, wait: Duration, cause: Option<CallError>) {
        self.reports.push_back(Report::Note(Note::CallRepeated { wait, cause }));
        let id = self.new_id();
        self.keep(id, call, State::AwaitRetry(now.after(wait)));
    }

    /// Follows a redirect to another URL of the server.
    pub(super) fn redirect(&mut self, now: Time, id: CallId, mut call: Call, url: Url, status: StatusCode) {
        self.reports.push_back(Report::Stop(id));
        call.hops += 1;
        if call.hops > MOST_HOPS {
            return self.fail(&call, Failure::body(status, "it redirects in a circle", &[]).undelivered());
        }
        call.url = url;
        call.outgoing.attempts -= u32::from(call.mode != SendMode::Stream);
        let mode = call.mode;
        self.start(now, call, mode);
    }

    /// The server asked to retry later. It has not executed the request.
    pub(super) fn later(&mut self, now: Time, id: CallId, call: Call, wait: Duration, status: StatusCode) {
        self.reports.push_back(Report::Stop(id));
        let budget = call.patience(self.calls.limits()).unwrap_or(Duration::MAX);
        if call.outgoing.attempts > self.config.retries || wait >= budget {
            return self.fail(&call, Failure::status(status, &[]).undelivered());
        }
        self.again(now, call, wait, None);
    }

    /// The server refused; its body may say why.
    pub(super) fn refusal(&mut self, now: Time, id: CallId, call: Call, status: StatusCode, headers: &HeaderMap) {
        let reason = Reason { status, challenge: challenge(headers), body: Vec::new() };
        let redirect = Some(status).filter(StatusCode::is_redirection).and(classify::target(&call.url, headers));
        if call.mode == SendMode::Stream && call.purpose != Some(Purpose::Stream) && !may_be_lost(&call, status) {
            self.reports.push_back(Report::Stop(id));
            self.no_stream(now, call, &reason);
        } else if let Some(target) = redirect {
            self.reports.push_back(Report::Stop(id));
            self.fail(&call, Failure::redirected(status, &target));
        } else {
            self.keep(id, call, State::AwaitReason(reason));
        }
    }

    /// A GET for messages returned no event stream.
    fn no_stream(&mut self, now: Time, call: Call, reason: &Reason) {
        let status = reason.status;
        if call.purpose != Some(Purpose::Listen) {
            let mut failure = Failure::stream(None);
            failure.data.http_status = Some(status.as_u16());
            return self.fail(&call, failure);
        }
        let unknown = status == StatusCode::NOT_FOUND
            || (self.config.quirks.session_gone && session_lost::says_lost(status, &reason.body));
        // A server that still holds the old stream may refuse the new one as a second.
        let again = match status.as_u16() {
            409 => true,
            400 => call.cursor.opened,
            _ => passes(status),
        };
        if may_be_lost(&call, status) && unknown {
            self.listen_lost(now, call);
        } else if again {
            self.reconnect(now, call);
        } else {
            let status = (!status.is_success()).then_some(status);
            self.reports.push_back(Report::Note(Note::ListenRefused(status)));
        }
    }

    /// A call failed before its response began.
    pub(super) fn unreached(&mut self, now: Time, mut call: Call, error: CallError, words: &str) {
        let failure = Failure::call(error, words, &call.url);
        if call.purpose.is_none() {
            return;
        }
        if call.purpose == Some(Purpose::Listen) {
            return self.reconnect(now, call);
        }
        if call.purpose == Some(Purpose::Stream) {
            return self.stream_unreached(now, call, failure, error.passing());
        }
        if call.mode == SendMode::Stream {
            call.cursor.unreached += 1;
            if call.cursor.unreached > self.config.retries {
                return self.fail(&call, Failure::stream(Some(error)));
            }
            return self.reconnect(now, call);
        }
        if call.stranded.is_some() && error.before_sending() {
            return self.session_gone(call, failure);
        }
        let harmless = error.before_sending() || call.traits().repeatable;
        if harmless && error.passing() && call.outgoing.attempts <= self.config.retries {
            if !error.before_sending() {
                call.outgoing.delivered = Delivered::Maybe;
            }
            let wait = backoff::retry(call.outgoing.attempts - 1, &mut self.rng);
            return self.again(now, call, wait, Some(error));
        }
        self.fail(&call, failure);
    }

    /// A response ended or broke before it delivered the answer.
    pub(super) fn stream_over(&mut self, now: Time, mut call: Call, error: Option<CallError>) {
        if call.purpose == Some(Purpose::Listen) {
            return self.reconnect(now, call);
        }
        if call.purpose == Some(Purpose::Stream) {
            return self.stream_lost(now, &call, error);
        }
        if !call.traits().wants_answer() {
            return;
        }
        if call.cursor.last_event.is_some() {
            return self.reconnect(now, call);
        }
        if call.traits().repeatable && call.outgoing.attempts <= self.config.retries {
            call.outgoing.delivered = Delivered::Maybe;
            let wait = backoff::retry(call.outgoing.attempts - 1, &mut self.rng);
            return self.again(now, call, wait, error.or(Some(CallError::Reset)));
        }
        let failure = match &call.encoding {
            None => Failure::stream(error),
            Some(encoding) => Failure::body(StatusCode::OK, &no_answer(Some(encoding)), &[]),
        };
        self.fail(&call, failure);
    }

    pub(super) fn reconnect(&mut self, now: Time, mut call: Call) {
        let Cursor { eventless, messageless, hint, .. } = call.cursor;
        let wait = backoff::reconnect(eventless, messageless, hint, &mut self.rng);
        let listens = call.purpose == Some(Purpose::Listen);
        if eventless > 0 && listens {
            call.cursor.last_event = None;
        }
        call.cursor.eventless = eventless.saturating_add(1);
        call.cursor.messageless = messageless.saturating_add(1);
        let note = if listens { Note::ListenEnded(wait) } else { Note::StreamResumed(wait) };
        self.reports.push_back(Report::Note(note));
        let id = self.new_id();
        self.keep(id, call, State::AwaitReconnect(now.after(wait)));
    }

    /// The server does not know the session; it has not executed the request.
    pub(super) fn session_gone(&mut self, call: Call, mut failure: Failure) {
        failure.data.phase = Phase::Session;
        let failure = call.outgoing.failure(failure.undelivered());
        self.reports.push_back(Report::SessionGone(call.outgoing, failure));
    }

    /// The body says that the session is gone, and the session had an id that can be
    /// unknown.
    pub(super) fn says_lost(&self, call: &Call, status: StatusCode, body: &[u8]) -> bool {
        let sent = call.mode == SendMode::Message && call.traits().wants_answer() && !call.outgoing.body.is_empty();
        let possible = call.outgoing.session.named && sent;
        self.config.quirks.session_gone && possible && session_lost::says_lost(status, body)
    }

    pub(super) fn reason_over(&mut self, now: Time, call: Call, reason: Reason) {
        if call.mode == SendMode::Stream && call.purpose != Some(Purpose::Stream) {
            return self.no_stream(now, call, &reason);
        }
        let Reason { status, body, challenge, .. } = reason;
        let failure = Failure::status(status, &body).challenged(challenge);
        if call.purpose == Some(Purpose::Stream) {
            let failure =
                if status.is_success() { Failure::body(status, "it is no event stream", &body) } else { failure };
            return self.stream_unreached(now, call, failure, passes(status));
        }
        let Some(call) = self.try_sse(now, call, &failure, &body) else { return };
        if self.says_lost(&call, status, &body) {
            return self.session_gone(call, failure);
        }
        let failure = call.outgoing.failure(failure);
        self.reports.extend(call.purpose.map(|purpose| Report::Refused(purpose, failure, Self::own_error(body))));
    }

    pub(super) fn expire(&mut self, now: Time, id: CallId, mut call: Call, why: Why) {
        self.drop_exchange(id, &call);
        if call.purpose == Some(Purpose::Listen)
            && let State::AwaitReason(reason) = std::mem::replace(&mut call.state, State::AwaitEnd)
        {
            return self.no_stream(now, call, &reason);
        }
        if matches!(call.purpose, Some(Purpose::KeepAlive(_))) {
            self.ping_lost(now, call.sent);
        }
        let delivered = if call.unsent_message() { call.outgoing.delivered } else { Delivered::Maybe };
        let phase = match call.state {
            State::AwaitEndpoint => Phase::Session,
            State::AwaitEvents(_)
            | State::AwaitBody(..)
            | State::AwaitReconnect(_)
            | State::AwaitAnswer(Exchange::Running | Exchange::Over) => Phase::Stream,
            State::AwaitRetry(_) | State::AwaitHead | State::AwaitReason(_) | State::AwaitEnd => Phase::Response,
        };
        let (what, limit, option) = match why {
            Why::FirstByte => {
                ("the response did not begin within", call.first_byte(self.calls.limits()), "--first-byte-timeout")
            }
            Why::Total => ("the request was not answered within", self.config.total_timeout, "--total-timeout"),
            Why::Quiet
            | Why::Retry
            | Why::Reconnect
            | Why::Endpoint
            | Why::KeepAlive
            | Why::Reopen
            | Why::Heartbeat
            | Why::Unread
            | Why::Greeting
            | Why::Drain
            | Why::Leave => {
                ("no sign of life from the server for", call.patience(self.calls.limits()), "--request-timeout")
            }
        };
        let failure = match call.stranded {
            Some(_) => Failure::stream(None),
            None => Failure::late(phase, delivered, what, limit.unwrap_or_default(), option),
        };
        let failure = call.outgoing.failure(failure);
        self.reports.extend(call.purpose.map(|purpose| Report::Expired(purpose, failure)));
    }

    pub(super) fn fail(&mut self, call: &Call, failure: Failure) {
        if call.purpose == Some(Purpose::Stream) {
            return self.not_opened(failure);
        }
        let failure = call.outgoing.failure(failure);
        self.reports.extend(call.purpose.map(|purpose| Report::Failed(purpose, failure)));
    }
}

/// A refusal of the listening stream may mean that the server has lost the session. If
/// the stream was never open, the refusal proves nothing: many servers have no such
/// stream and answer 404.
fn may_be_lost(call: &Call, status: StatusCode) -> bool {
    let listened = call.purpose == Some(Purpose::Listen) && call.outgoing.session.named && call.cursor.opened;
    listened && (status == StatusCode::NOT_FOUND || session_lost::may_say(status))
}

/// Retrying later may help.
fn passes(status: StatusCode) -> bool {
    let broken = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED;
    broken || status == StatusCode::TOO_MANY_REQUESTS
}
