//! `mcp-engine.wasm`: the core behind the WIT interface `machine`. It converts each case of
//! one vocabulary to the other. Decisions do not belong here, and the component imports
//! nothing.

mod config;
mod facts;

use bindings::exports::mcp::proxy::machine;
use mcp_proxy_core::{Exit, Output, Side, Source, Time, Why};
use std::cell::RefCell;

#[allow(unsafe_code, unreachable_pub, clippy::allow_attributes_without_reason, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "engine" });
    export!(Engine);
    use super::Engine;
}

struct Engine;

struct Proxy {
    machine: RefCell<mcp_proxy_core::Proxy>,
    /// Whether the host wants notes.
    notes: bool,
}

impl machine::Guest for Engine {
    type Proxy = Proxy;

    fn defaults(url: String) -> Result<machine::Config, machine::ConfigError> {
        config::defaults(url)
    }
}

impl machine::GuestProxy for Proxy {
    fn create(config: machine::Config, seed: u64, now: u64) -> Result<machine::Proxy, machine::ConfigError> {
        let notes = config.notes;
        let machine = mcp_proxy_core::Proxy::new(&config::read(config)?, seed, Time(now));
        Ok(machine::Proxy::new(Self { machine: RefCell::new(machine), notes }))
    }

    fn handle(&self, now: u64, input: machine::Input) {
        facts::with(input, |input| self.machine.borrow_mut().handle(Time(now), input));
    }

    fn poll(&self) -> Vec<machine::Output> {
        let mut machine = self.machine.borrow_mut();
        let outputs = std::iter::from_fn(|| machine.poll());
        outputs.filter(|output| self.notes || !matches!(output, Output::Note(_))).map(said).collect()
    }

    fn deadline(&self) -> Option<machine::Deadline> {
        let deadline = self.machine.borrow().deadline()?;
        Some(machine::Deadline { at: deadline.at.0, why: why(deadline.why) })
    }

    fn wants(&self, source: machine::Source) -> bool {
        let source = match source {
            machine::Source::Side(machine::Side::Client) => Source::Side(Side::Client),
            machine::Source::Call(id) => Source::Call(mcp_proxy_core::CallId(id)),
        };
        self.machine.borrow().wants(source)
    }
}

fn said(output: Output) -> machine::Output {
    match output {
        Output::Write(Side::Client, bytes) => machine::Output::Write((machine::Side::Client, bytes.into())),
        Output::Call(id, request) => {
            let (parts, body) = request.into_parts();
            machine::Output::Call(machine::Request {
                call: id.0,
                method: parts.method.as_str().to_owned(),
                url: parts.uri.to_string(),
                headers: config::headers(&parts.headers),
                body: body.into(),
            })
        }
        Output::Cancel(id) => machine::Output::Cancel(id.0),
        Output::Respond(id, parts) => machine::Output::Respond(machine::Respond {
            exchange: id.0,
            status: parts.status.as_u16(),
            headers: config::headers(&parts.headers),
        }),
        Output::Send(id, bytes) => machine::Output::Send((id.0, bytes.into())),
        Output::Finish(id) => machine::Output::Finish(id.0),
        Output::Abort(id) => machine::Output::Abort(id.0),
        Output::Snapshot(known) => machine::Output::Snapshot(config::snapshot(known)),
        Output::Note(note) => {
            let (tag, text) = mcp_proxy_words::words(&note);
            machine::Output::Note(machine::Note { blame: blame(note.blame()), tag: tag.to_owned(), text })
        }
        Output::Exit(exit) => machine::Output::Exit(match exit {
            Exit::Drained => machine::Exit::Drained,
            Exit::Stopped => machine::Exit::Stopped,
        }),
    }
}

fn why(why: Why) -> machine::Why {
    match why {
        Why::Retry => machine::Why::Retry,
        Why::Reconnect => machine::Why::Reconnect,
        Why::Quiet => machine::Why::Quiet,
        Why::FirstByte => machine::Why::FirstByte,
        Why::Endpoint => machine::Why::Endpoint,
        Why::Total => machine::Why::Total,
        Why::KeepAlive => machine::Why::KeepAlive,
        Why::Reopen => machine::Why::Reopen,
        Why::Heartbeat => machine::Why::Heartbeat,
        Why::Round => machine::Why::Round,
        Why::Unread => machine::Why::Unread,
        Why::Greeting => machine::Why::Greeting,
        Why::Drain => machine::Why::Drain,
        Why::Leave => machine::Why::Leave,
    }
}

fn blame(blame: mcp_proxy_core::Blame) -> machine::Blame {
    match blame {
        mcp_proxy_core::Blame::Nobody => machine::Blame::Nobody,
        mcp_proxy_core::Blame::Client => machine::Blame::Client,
        mcp_proxy_core::Blame::Server => machine::Blame::Server,
        mcp_proxy_core::Blame::Link => machine::Blame::Link,
        mcp_proxy_core::Blame::Bug => machine::Blame::Bug,
    }
}
