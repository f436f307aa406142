//! Another machine takes over: the world drops the first one with all its calls and
//! exchanges, and makes a second one from the last snapshot. Each machine numbers its own
//! calls, so this module maps the numbers.

use crate::caller::Reading;
use crate::world::World;
use mcp_proxy_core::{CallId, ClientTransport, HttpTransport, Input, Proxy, Sink, Time};

/// More calls than any machine makes.
const CALLS: u64 = 1 << 40;

impl World {
    pub(crate) fn restart(&mut self) {
        let ClientTransport::Http(client) = &self.config.client else { return };
        let Some(known) = &self.snapshot else { return };
        let client = HttpTransport { resumed: Some(known.clone()), ..client.clone() };
        let strikes = self.caller.as_mut().is_some_and(|caller| caller.luck.strikes());
        if !strikes || self.left.is_some() {
            return;
        }
        let calls: Vec<CallId> = self.calls.live().collect();
        for call in calls {
            self.cancel(call);
        }
        self.machine += 1;
        self.config.client = ClientTransport::Http(client);
        self.trace.line(self.now, format_args!("        another machine"));
        self.tape.stop();
        self.proxy = Proxy::new(&self.config, self.seed.wrapping_add(self.machine), Time(self.now + self.slept));
        self.exchanges.live.clear();
        self.model.restarted();
        self.quiet_since = self.now;
        let connections = self.caller.as_mut().map(|caller| std::mem::take(&mut caller.connections));
        for connection in connections.into_iter().flat_map(std::collections::BTreeMap::into_values) {
            if matches!(connection.reading, Reading::Reads | Reading::Stalls) {
                self.missed(connection.story, connection.initializes);
            }
        }
    }

    /// The world's id for a call of the current machine.
    pub(crate) fn outside(&self, call: CallId) -> CallId {
        CallId(call.0 + self.machine * CALLS)
    }

    /// The current machine's id for a call of the world; `None` for another machine's call.
    pub(crate) fn inside(&self, call: CallId) -> Option<CallId> {
        (call.0 / CALLS == self.machine).then_some(CallId(call.0 % CALLS))
    }

    /// A fact with the current machine's ids; `None` if it concerns another machine.
    pub(crate) fn fact<'a>(&self, input: Input<'a>) -> Option<Input<'a>> {
        Some(match input {
            Input::Head(call, parts) => Input::Head(self.inside(call)?, parts),
            Input::Chunk(call, bytes) => Input::Chunk(self.inside(call)?, bytes),
            Input::End(call) => Input::End(self.inside(call)?),
            Input::Failed(call, error, words) => Input::Failed(self.inside(call)?, error, words),
            Input::Flushed(Sink::Call(call), bytes) => Input::Flushed(Sink::Call(self.inside(call)?), bytes),
            other @ (Input::Tick
            | Input::Bytes(..)
            | Input::Eof(_)
            | Input::Request(..)
            | Input::Gone(_)
            | Input::Flushed(..)
            | Input::Waiting(_)
            | Input::Stop
            | Input::Shutdown) => other,
        })
    }
}
