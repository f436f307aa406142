//! What to do with a call that did not succeed at once: retry it, resume it, or give it
//! up. A pure decision about one call; carrying it out does not belong here.

use super::call::{Call, Cursor, Exchange, Limits, Reason, State};
use super::classify::SendMode;
use super::said::no_answer;
use super::session_lost;
use crate::backoff;
use crate::boundary::CallError;
use crate::config::Config;
use crate::failure::{Delivered, Failure, Phase};
use crate::note::Note;
use crate::outgoing::Purpose;
use crate::rng::Rng;
use crate::time::{Time, Why};
use http::StatusCode;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Recovery {
    retries: u32,
    /// Bodies may say that the session is lost.
    trusts_bodies: bool,
    rng: Rng,
}

/// What to do with a call.
#[derive(Debug)]
pub(super) enum Next {
    /// Send it again, or resume its stream, at the time in this state.
    Wait(State, Option<Note>),
    /// No answer will come.
    Fail(Failure),
    /// The server does not know the session, and has not executed the request.
    SessionGone(Failure),
    /// The server has lost the session of the listening stream.
    ListenLost,
    /// The server has no listening stream.
    ListenRefused(Option<StatusCode>),
    /// The stream of an HTTP+SSE session ended.
    StreamLost(Option<CallError>),
    /// Nobody waits for the call.
    Drop,
}

impl Recovery {
    pub(super) fn new(config: &Config, rng: Rng) -> Self {
        Self { retries: config.retries, trusts_bodies: config.quirks.session_gone, rng }
    }

    pub(super) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// The call failed before its response began.
    pub(super) fn unreached(&mut self, now: Time, call: &mut Call, error: CallError, words: &str) -> Next {
        let failure = Failure::call(error, words, &call.url);
        match call.purpose {
            None => Next::Drop,
            Some(Purpose::Listen) => self.reconnect(now, call),
            Some(Purpose::Stream) => self.stream_unreached(now, call, failure, error.passing()),
            Some(_) if call.mode == SendMode::Stream => {
                call.cursor.unreached += 1;
                if call.cursor.unreached > self.retries {
                    return Next::Fail(Failure::stream(Some(error), &call.url));
                }
                self.reconnect(now, call)
            }
            Some(_) if call.stranded.is_some() && error.before_sending() => Next::SessionGone(failure),
            Some(_) => {
                let harmless = error.before_sending() || call.traits().repeatable;
                if !harmless || !error.passing() || call.outgoing.attempts > self.retries {
                    return Next::Fail(failure);
                }
                if !error.before_sending() {
                    call.outgoing.delivered = Delivered::Maybe;
                }
                self.retry(now, call, error)
            }
        }
    }

    /// The response ended or broke before it delivered the answer.
    pub(super) fn interrupted(&mut self, now: Time, call: &mut Call, error: Option<CallError>) -> Next {
        match call.purpose {
            Some(Purpose::Listen) => return self.reconnect(now, call),
            Some(Purpose::Stream) => return Next::StreamLost(error),
            _ if !call.traits().wants_answer() => return Next::Drop,
            _ if call.cursor.last_event.is_some() => return self.reconnect(now, call),
            _ => {}
        }
        if call.traits().repeatable && call.outgoing.attempts <= self.retries {
            call.outgoing.delivered = Delivered::Maybe;
            return self.retry(now, call, error.unwrap_or(CallError::Reset));
        }
        Next::Fail(match &call.encoding {
            None => Failure::stream(error, &call.url),
            Some(encoding) => Failure::body(StatusCode::OK, &no_answer(Some(encoding)), &[]),
        })
    }

    /// The server asked to retry later. It has not executed the request.
    pub(super) fn later(&self, now: Time, call: &Call, wait: Duration, status: StatusCode, limits: &Limits) -> Next {
        let budget = call.patience(limits).unwrap_or(Duration::MAX);
        if call.outgoing.attempts > self.retries || wait >= budget {
            return Next::Fail(Failure::status(status, &[]).undelivered());
        }
        Next::Wait(State::AwaitRetry(now.after(wait)), Some(Note::CallRepeated { wait, cause: None }))
    }

    /// A GET for messages returned no event stream.
    pub(super) fn no_stream(&mut self, now: Time, call: &mut Call, reason: &Reason) -> Next {
        let status = reason.status;
        if call.purpose != Some(Purpose::Listen) {
            let mut failure = Failure::stream(None, &call.url);
            failure.data.http_status = Some(status.as_u16());
            return Next::Fail(failure);
        }
        let unknown =
            status == StatusCode::NOT_FOUND || (self.trusts_bodies && session_lost::says_lost(status, &reason.body));
        // A server that still holds the old stream may refuse the new one as a second.
        let again = match status.as_u16() {
            409 => true,
            400 => call.cursor.opened,
            _ => passes(status),
        };
        if may_be_lost(call, status) && unknown {
            Next::ListenLost
        } else if again {
            self.reconnect(now, call)
        } else {
            Next::ListenRefused((!status.is_success()).then_some(status))
        }
    }

    /// The server refused to open the stream of an HTTP+SSE session.
    pub(super) fn stream_refused(&mut self, now: Time, call: &mut Call, status: StatusCode, failure: Failure) -> Next {
        self.stream_unreached(now, call, failure, passes(status))
    }

    /// The stream of an HTTP+SSE session could not be opened.
    fn stream_unreached(&mut self, now: Time, call: &mut Call, failure: Failure, passing: bool) -> Next {
        if !passing || call.cursor.unreached >= self.retries {
            return Next::Fail(failure);
        }
        let wait = backoff::retry(call.cursor.unreached, &mut self.rng);
        call.cursor.unreached += 1;
        Next::Wait(State::AwaitReconnect(now.after(wait)), None)
    }

    fn retry(&mut self, now: Time, call: &Call, cause: CallError) -> Next {
        let wait = backoff::retry(call.outgoing.attempts - 1, &mut self.rng);
        Next::Wait(State::AwaitRetry(now.after(wait)), Some(Note::CallRepeated { wait, cause: Some(cause) }))
    }

    fn reconnect(&mut self, now: Time, call: &mut Call) -> Next {
        let Cursor { eventless, messageless, hint, .. } = call.cursor;
        let wait = backoff::reconnect(eventless, messageless, hint, &mut self.rng);
        let listens = call.purpose == Some(Purpose::Listen);
        if eventless > 0 && listens {
            call.cursor.last_event = None;
        }
        call.cursor.eventless = eventless.saturating_add(1);
        call.cursor.messageless = messageless.saturating_add(1);
        let note = if listens { Note::ListenEnded(wait) } else { Note::StreamResumed(wait) };
        Next::Wait(State::AwaitReconnect(now.after(wait)), Some(note))
    }

    /// The body says that the session is gone, and the session had an id that can be
    /// unknown.
    pub(super) fn says_lost(&self, call: &Call, status: StatusCode, body: &[u8]) -> bool {
        let sent = call.mode == SendMode::Message && call.traits().wants_answer() && !call.outgoing.body.is_empty();
        let possible = call.outgoing.session.named && sent;
        self.trusts_bodies && possible && session_lost::says_lost(status, body)
    }
}

/// A refusal of the listening stream may mean that the server has lost the session. If
/// the stream was never open, the refusal proves nothing: many servers have no such
/// stream and answer 404.
pub(super) fn may_be_lost(call: &Call, status: StatusCode) -> bool {
    let listened = call.purpose == Some(Purpose::Listen) && call.outgoing.session.named && call.cursor.opened;
    listened && (status == StatusCode::NOT_FOUND || session_lost::may_say(status))
}

/// Retrying later may help.
fn passes(status: StatusCode) -> bool {
    let broken = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED;
    broken || status == StatusCode::TOO_MANY_REQUESTS
}

/// The failure of a call that hit a limit.
pub(super) fn expired(call: &Call, why: Why, limits: &Limits) -> Failure {
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
        Why::FirstByte => ("the response did not begin within", call.first_byte(limits), "--first-byte-timeout"),
        Why::Total => ("the request was not answered within", limits.total, "--total-timeout"),
        Why::Quiet
        | Why::Retry
        | Why::Reconnect
        | Why::Endpoint
        | Why::KeepAlive
        | Why::Reopen
        | Why::Round
        | Why::Heartbeat
        | Why::Unread
        | Why::Greeting
        | Why::Drain
        | Why::Leave => ("no sign of life from the server for", call.patience(limits), "--request-timeout"),
    };
    let failure = match call.stranded {
        Some(_) => Failure::stream(None, &call.url),
        None => Failure::late(phase, delivered, what, limit.unwrap_or_default(), option),
    };
    call.outgoing.failure(failure)
}
