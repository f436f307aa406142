//! Converts a host's facts to the core's inputs. An impossible status (not three digits)
//! becomes a failed call, and invalid headers are dropped, so no fact can trap. Protocol
//! decisions do not belong here.

use crate::bindings::exports::mcp::proxy::machine;
use mcp_proxy_core::{CallError, CallId, ExchangeId, Input, Side, Sink};

/// Passes the fact to `take`, which borrows its bytes.
pub(crate) fn with(input: machine::Input, take: impl FnOnce(Input<'_>)) {
    match input {
        machine::Input::Tick => take(Input::Tick),
        machine::Input::Bytes((machine::Side::Client, bytes)) => take(Input::Bytes(Side::Client, &bytes)),
        machine::Input::Eof(machine::Side::Client) => take(Input::Eof(Side::Client)),
        machine::Input::Asked(asked) => take(requested(asked)),
        machine::Input::Gone(id) => take(Input::Gone(ExchangeId(id))),
        machine::Input::Head(head) => take(begun(head)),
        machine::Input::Chunk((id, bytes)) => take(Input::Chunk(CallId(id), &bytes)),
        machine::Input::End(id) => take(Input::End(CallId(id))),
        machine::Input::Failed((id, error, words)) => take(Input::Failed(CallId(id), call_error(error), &words)),
        machine::Input::Flushed((sink, count)) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            take(Input::Flushed(written(sink), count));
        }
        machine::Input::Waiting(why) => take(Input::Waiting(&why)),
        machine::Input::Stop => take(Input::Stop),
        machine::Input::Shutdown => take(Input::Shutdown),
    }
}

fn begun(head: machine::Head) -> Input<'static> {
    let id = CallId(head.call);
    let Ok(status) = http::StatusCode::from_u16(head.status) else {
        return Input::Failed(id, CallError::Protocol, "");
    };
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = status;
    parts.headers = valid(head.headers);
    Input::Head(id, parts)
}

/// An invalid method becomes TRACE, which the core refuses.
fn requested(asked: machine::Asked) -> Input<'static> {
    let mut parts = http::Request::new(()).into_parts().0;
    parts.method = http::Method::from_bytes(asked.method.as_bytes()).unwrap_or(http::Method::TRACE);
    parts.headers = valid(asked.headers);
    Input::Request(ExchangeId(asked.exchange), parts, asked.body.into())
}

fn valid(headers: Vec<(String, Vec<u8>)>) -> http::HeaderMap {
    let mut map = http::HeaderMap::new();
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), http::HeaderValue::try_from(value)) {
            // Drop headers beyond the map's capacity: no honest peer sends so many.
            map.try_append(name, value).ok();
        }
    }
    map
}

fn written(sink: machine::Sink) -> Sink {
    match sink {
        machine::Sink::Side(machine::Side::Client) => Sink::Side(Side::Client),
        machine::Sink::Call(id) => Sink::Call(CallId(id)),
        machine::Sink::Exchange(id) => Sink::Exchange(ExchangeId(id)),
    }
}

fn call_error(error: machine::CallError) -> CallError {
    match error {
        machine::CallError::Refused => CallError::Refused,
        machine::CallError::Unresolved => CallError::Unresolved,
        machine::CallError::ConnectTimeout => CallError::ConnectTimeout,
        machine::CallError::Tls => CallError::Tls,
        machine::CallError::Denied => CallError::Denied,
        machine::CallError::Reset => CallError::Reset,
        machine::CallError::Protocol => CallError::Protocol,
    }
}
