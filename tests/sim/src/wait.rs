//! Checks the responses that wait for their answer, so that they can be one JSON body:
//! which of them may wait, how long, and what may follow. Streams are in `story`.

use crate::caller::Heard;
use crate::event::Event;
use crate::story::{Story, answered};
use crate::world::World;
use mcp_proxy_core::ExchangeId;
use serde_json::Value;

impl World {
    /// How long the response to this POST may wait. It may not wait at all if the POST is
    /// not one request, or if the client asks for progress.
    pub(crate) fn may_wait(&self, posted: &Value) -> u64 {
        let streams = posted.is_array() || posted.pointer("/params/_meta/progressToken").is_some();
        self.caller.as_ref().filter(|_| !streams).map_or(0, |caller| caller.manners.hold)
    }

    /// The machine has accepted a request, and its response waits. Until the response
    /// begins, the client has no event id to return with.
    pub(crate) fn wait(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchanges.live.get_mut(&id) else { return };
        if exchange.waits().is_none() || !exchange.asked.allowed.contains(&200) {
            return self.model.reproach(format!("exchange {} gets no head", id.0));
        }
        exchange.asked.allowed = vec![200];
        self.grant(id);
    }

    /// A body that holds a whole story: the answer. A cancelled request gets none.
    pub(crate) fn answer(&mut self, id: ExchangeId, bytes: &[u8]) -> Vec<Heard> {
        let over = self.stories.stories.get(&id.0).is_some_and(Story::over);
        let text = String::from_utf8_lossy(bytes).into_owned();
        let event = Event { id: None, kind: Some("message".to_owned()), data: Some(text) };
        let heard = self.event(id, event);
        let once = self.exchanges.live.get(&id).is_some_and(|exchange| exchange.at == 1);
        if over || !once || heard.as_ref().is_none_or(|heard| answered(&heard.value).is_none()) {
            self.model.reproach(format!("exchange {} is more than an answer, or less: {heard:?}", id.0));
        }
        heard.into_iter().collect()
    }

    /// Checks what must hold for exchanges after every step.
    pub(crate) fn look_at_exchanges(&mut self) {
        let tick = self.proxy.deadline().map(|deadline| deadline.at.0);
        let late = |until: u64| tick.is_none_or(|tick| tick > until);
        if let Some((until, id)) = self.exchanges.waiting().filter(|(until, _)| late(*until)) {
            self.model.reproach(format!("exchange {} gets no head at {until}", id.0));
        }
        let now = self.now + self.slept;
        let mut wrong = Vec::new();
        for (id, exchange) in &self.exchanges.live {
            let story = exchange.story.and_then(|story| self.stories.stories.get(&story));
            if exchange.hurries(now) && story.is_some_and(Story::not_begun) && !self.ending() {
                wrong.push(format!("exchange {} is a stream before there is need of one", id.0));
            }
            if exchange.goes_on() && (exchange.has_body() || story.is_some_and(Story::over)) {
                wrong.push(format!("exchange {} has said everything, and goes on", id.0));
            }
        }
        self.model.reproaches.extend(wrong);
    }
}
