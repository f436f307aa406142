//! The client side: converts between the client's bytes or exchanges and messages.
//! Retries and the server's session do not belong here.

pub(crate) mod http;
pub(crate) mod lines;

use crate::config::{ClientTransport, Config};
use crate::rng::Rng;
use http::HttpFront;
use lines::LineFront;

/// The client's transport.
#[derive(Debug)]
pub(crate) enum Front {
    Lines(Box<LineFront>),
    Http(Box<HttpFront>),
}

impl Front {
    pub(crate) fn new(config: &Config, rng: &mut Rng) -> Self {
        match &config.client {
            ClientTransport::Lines => Self::Lines(Box::new(LineFront::new(config.max_message, config.quirks))),
            ClientTransport::Http(client) => {
                let epoch = u32::try_from(rng.next() >> 32).unwrap_or_default();
                Self::Http(Box::new(HttpFront::new(client.clone(), config.max_message, epoch)))
            }
        }
    }

    /// Bytes from the client that do not form a message yet.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Lines(front) => front.held(),
            Self::Http(_) => 0,
        }
    }
}
