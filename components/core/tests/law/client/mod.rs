//! The client of a run. A script says what the client does; a `Client` turns it
//! into facts of its transport, reads what the machine writes, and keeps the
//! books. Every law that is about the client asks the books, and so is written
//! once for all transports.

mod books;
mod http;
mod lines;

use super::message::{Line, Twist};
use super::record::{Command, Fact};
pub use books::Books;
use http::HttpClient;
pub use http::SESSION;
use lines::LinesClient;
use mcp_proxy_core::ClientTransport;

/// What a client does. A number names one of its responses, so that any script
/// can be played and shortened.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sends a message.
    Say(Line),
    /// Opens a stream for what the server says unasked.
    Listen,
    /// Loses the connection that carries a response.
    Lose(usize),
    /// Comes back for the rest of a stream, whether or not the machine knows that
    /// its connection is lost.
    Resume(usize),
    /// Takes what was written to it.
    Read(usize),
    /// Answers the last question, or says that it cannot.
    Answer(bool),
    /// Repeats a request that was answered by questions, counted from the last, under
    /// this id. The same request may be repeated again and again.
    Retry(usize, usize, Twist),
    /// Ends the session.
    Close,
}

/// A client of one transport.
pub trait Client {
    /// The fact that this act is. None, if the transport has no such thing, or
    /// nothing is there to do it with.
    fn act(&mut self, act: &Act) -> Option<Fact>;

    /// The fact that sends this text, whatever it is.
    fn say(&mut self, text: &str) -> Fact;

    /// What a good client does next by itself: it comes back for streams that it
    /// lost, answers questions and reads. None, once all is done.
    fn attend(&mut self) -> Option<Fact>;

    /// The machine is about to handle this fact.
    fn told(&mut self, fact: &Fact);

    /// The machine commands this.
    fn heard(&mut self, command: &Command);

    /// The machine has handled this fact, and everything it commanded was heard.
    fn settled(&mut self, fact: &Fact);

    fn books(&self) -> &Books;
}

/// The transports between a client and the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    /// Lines on stdio.
    Lines,
    /// Streamable HTTP.
    Http,
    /// HTTP of 2026-07-28: any number of clients without sessions.
    Modern,
}

impl ClientKind {
    pub const ALL: [Self; 3] = [Self::Lines, Self::Http, Self::Modern];
    /// Those with one client, which opens a session.
    pub const SESSIONS: [Self; 2] = [Self::Lines, Self::Http];

    pub fn transport(self) -> ClientTransport {
        match self {
            Self::Lines => ClientTransport::Lines,
            Self::Http | Self::Modern => ClientTransport::Http(http::transport()),
        }
    }

    /// A client that has done nothing yet.
    pub fn client(self) -> Box<dyn Client> {
        match self {
            Self::Lines => Box::new(LinesClient::default()),
            Self::Http => Box::new(HttpClient::default()),
            Self::Modern => Box::new(HttpClient::modern()),
        }
    }
}
