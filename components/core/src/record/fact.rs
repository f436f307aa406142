//! An [`Input`] that owns its data, as read from a recording. Each kind of input has one
//! counterpart here. The text of a recording does not belong here.

use crate::boundary::{CallError, CallId, ExchangeId, Input, Side, Sink};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};

#[derive(Debug, Clone)]
pub struct Fact(pub(super) Form);

#[derive(Debug, Clone)]
pub(super) enum Form {
    Tick,
    Bytes(Side, Vec<u8>),
    Eof(Side),
    Request(ExchangeId, Method, Uri, HeaderMap, Bytes),
    Gone(ExchangeId),
    Head(CallId, StatusCode, HeaderMap),
    Chunk(CallId, Vec<u8>),
    End(CallId),
    Failed(CallId, CallError, String),
    Flushed(Sink, usize),
    Waiting(String),
    Stop,
    Shutdown,
}

impl Fact {
    /// The input for a machine.
    #[must_use]
    pub fn input(&self) -> Input<'_> {
        match &self.0 {
            Form::Tick => Input::Tick,
            Form::Bytes(side, bytes) => Input::Bytes(*side, bytes),
            Form::Eof(side) => Input::Eof(*side),
            Form::Request(exchange, method, uri, headers, body) => {
                let mut parts = Request::new(()).into_parts().0;
                parts.method.clone_from(method);
                parts.uri.clone_from(uri);
                parts.headers.clone_from(headers);
                Input::Request(*exchange, parts, body.clone())
            }
            Form::Gone(exchange) => Input::Gone(*exchange),
            Form::Head(call, status, headers) => {
                let mut parts = Response::new(()).into_parts().0;
                parts.status = *status;
                parts.headers.clone_from(headers);
                Input::Head(*call, parts)
            }
            Form::Chunk(call, bytes) => Input::Chunk(*call, bytes),
            Form::End(call) => Input::End(*call),
            Form::Failed(call, error, words) => Input::Failed(*call, *error, words),
            Form::Flushed(sink, count) => Input::Flushed(*sink, *count),
            Form::Waiting(why) => Input::Waiting(why),
            Form::Stop => Input::Stop,
            Form::Shutdown => Input::Shutdown,
        }
    }
}
