//! The side of the client: its bytes or exchanges ⇄ messages. Retries and the
//! server's session must not enter.

pub(crate) mod http;
pub(crate) mod lines;

use crate::config::{ClientTransport, Config};
use crate::rng::Rng;
use http::HttpFront;
use lines::LineFront;

/// How the client speaks to the machine.
#[derive(Debug)]
pub(crate) enum Front {
    Lines(LineFront),
    Http(Box<HttpFront>),
}

impl Front {
    pub(crate) fn new(config: &Config, rng: &mut Rng) -> Self {
        match &config.client {
            ClientTransport::Lines => Self::Lines(LineFront::new(config.max_message, config.quirks)),
            ClientTransport::Http(client) => {
                let epoch = u32::try_from(rng.next() >> 32).unwrap_or_default();
                Self::Http(Box::new(HttpFront::new(client.clone(), config.max_message, epoch)))
            }
        }
    }

    /// Bytes of the client that are no message yet.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Lines(front) => front.held(),
            Self::Http(_) => 0,
        }
    }
}
