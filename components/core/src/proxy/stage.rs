//! The end of a run: drain open requests, end the server's session, exit. Before the exit,
//! every open request gets an answer, unless the client can no longer get one. There is one
//! exit. The answers' contents belong to `failure`.

use super::Proxy;
use crate::boundary::Exit;
use crate::era::legacy::Conclusion;
use crate::failure::{Delivered, Failure, Phase};
use crate::outgoing::{Outgoing, Purpose};
use crate::time::{Deadline, Time, Why};
use bytes::Bytes;
use std::time::Duration;

/// How long the server may take to confirm the end of the session.
pub(super) const GOODBYE: Duration = Duration::from_secs(2);
/// The same after a stop, when the user waits.
const STOPPED_GOODBYE: Duration = Duration::from_secs(1);
/// The same when the proxy can no longer reach the client.
const HURRIED_GOODBYE: Duration = Duration::from_millis(500);

/// The stage of the machine's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client may send messages.
    Running,
    /// The client closed its side; the proxy still answers open requests.
    Draining(Time),
    /// The proxy is ending the session.
    Leaving(Time, Exit),
    /// The machine has exited.
    Over,
}

impl Stage {
    pub(super) fn deadline(self) -> Option<Deadline> {
        match self {
            Self::Draining(at) => Some(Deadline { at, why: Why::Drain }),
            Self::Leaving(at, _) => Some(Deadline { at, why: Why::Leave }),
            Self::Running | Self::Over => None,
        }
    }
}

impl Proxy {
    pub(super) fn start_draining(&mut self) {
        self.stage = Stage::Draining(self.now.after(self.config.drain_timeout));
    }

    pub(super) fn draining(&self) -> bool {
        matches!(self.stage, Stage::Draining(_))
    }

    pub(super) fn stage_tick(&mut self) {
        match self.stage {
            Stage::Draining(at) if at <= self.now => {
                let limit = self.config.drain_timeout.as_secs_f64();
                let why = format!(
                    "the client closed its side and the answer did not come within {limit} s (--drain-timeout)"
                );
                self.answer_the_rest(&why);
                self.leave(GOODBYE, Exit::Drained);
            }
            Stage::Leaving(at, exit) if at <= self.now => {
                self.back.stop_all();
                self.advance();
                self.exit(exit);
            }
            Stage::Running | Stage::Draining(_) | Stage::Leaving(..) | Stage::Over => {}
        }
    }

    /// Leaves if nothing is left to drain. Returns `true` if so.
    pub(super) fn leave_when_done(&mut self) -> bool {
        let done = self.draining() && self.route.idle() && self.era.legacy.idle() && self.back.held().busy == 0;
        if done {
            self.leave(GOODBYE, Exit::Drained);
        }
        done
    }

    /// The user wants the proxy to stop now: wait for nothing.
    pub(super) fn stop(&mut self) {
        let soon = self.now.after(STOPPED_GOODBYE);
        match self.stage {
            Stage::Running | Stage::Draining(_) => {
                self.answer_the_rest("the proxy was told to stop before the answer came");
                self.end_exchanges();
                self.leave(STOPPED_GOODBYE, Exit::Drained);
            }
            Stage::Leaving(at, exit) => self.stage = Stage::Leaving(at.min(soon), exit),
            Stage::Over => {}
        }
    }

    pub(super) fn shutdown(&mut self) {
        if self.dismissed() {
            self.answer_the_rest("the proxy is shutting down");
        }
        self.route.close_all();
        self.end_exchanges();
        if matches!(self.stage, Stage::Running | Stage::Draining(_)) {
            self.leave(HURRIED_GOODBYE, Exit::Stopped);
        }
    }

    /// The server confirmed the end, or will not.
    pub(super) fn said_goodbye(&mut self) {
        if let Stage::Leaving(_, exit) = self.stage {
            self.exit(exit);
        }
    }

    pub(super) fn leave(&mut self, patience: Duration, exit: Exit) {
        self.stage = Stage::Leaving(self.now.after(patience), exit);
        self.era.legacy.end();
        self.back.stop_all();
        if !self.era.legacy.named() {
            self.advance();
            return self.exit(exit);
        }
        self.send(Outgoing::new(Purpose::Goodbye, Bytes::new()));
    }

    pub(super) fn answer_the_rest(&mut self, why: &str) {
        for (key, id) in self.route.close_all() {
            self.ledger.closed(&id);
            let attempts = self.era.attempts(key);
            self.concluded(key, Conclusion::Failed);
            let failure = |delivered| Failure::new(Phase::Drain, delivered, why);
            let known = self.era.legacy.withdraw(key).or_else(|| self.back.forget(self.now, key));
            let unknown = || {
                let mut failure = failure(if attempts > 0 { Delivered::Yes } else { Delivered::Maybe });
                failure.data.attempt = attempts;
                failure
            };
            let failure = known.map_or_else(unknown, |outgoing| outgoing.failure(failure(Delivered::No)));
            self.write_failure(&id, &failure);
        }
    }
}
