//! The sans-IO state machine of mcp-proxy.
//!
//! One [`Proxy`] connects one client to one server. It uses no sockets, clocks or
//! threads: a shell feeds it facts ([`Input`]) and executes its commands ([`Output`]).
//!
//! ```
//! use mcp_proxy_core::{Config, Input, Output, Proxy, Side, Time};
//!
//! let config = Config::new("http://127.0.0.1:3000/mcp")?;
//! let mut proxy = Proxy::new(&config, 42, Time(0));
//! let line = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
//! proxy.handle(Time(0), Input::Bytes(Side::Client, line));
//! proxy.handle(Time(0), Input::Bytes(Side::Client, b"\n"));
//! let called = std::iter::from_fn(|| proxy.poll()).any(|output| matches!(output, Output::Call(..)));
//! assert!(called);
//! # Ok::<(), mcp_proxy_core::ConfigError>(())
//! ```

mod back;
mod backoff;
mod boundary;
mod config;
mod era;
mod failure;
mod flow;
mod front;
mod index;
mod ledger;
mod note;
mod outgoing;
mod proxy;
mod quirks;
pub mod record;
mod rng;
mod route;
mod time;
mod timetable;
pub mod wire;

pub use boundary::{CallError, CallId, ExchangeId, Exit, Input, Output, Side, Sink, Source};
pub use config::{
    ClientTransport, Config, ConfigError, Detection, Era, Found, HttpTransport, KeepAlive, Snapshot, Transport,
};
pub use front::http::ModernRequest;
pub use ledger::{Entry, last_words};
pub use note::{Blame, Exchange, Note, Outcome};
pub use proxy::Proxy;
pub use quirks::Quirks;
pub use time::{Deadline, Time, Why};
