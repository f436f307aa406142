//! The vocabulary of the core in that of the WIT, case by case. The engine
//! translates the other way, and neither has a wildcard: a case that the core
//! has and the WIT has not does not compile here, one that only the WIT has
//! does not compile there. So the two cannot drift apart. The settings, which
//! the core does not let others list, are compared in `components/options/tests`.

use crate::machine;
use mcp_proxy_core as core;
use mcp_proxy_core::{
    CallError, ClientTransport, Exit, HttpTransport, Input, KeepAlive, Output, Quirks, Side, Sink, Snapshot, Transport,
    Why,
};
use std::time::Duration;

/// The configuration, of a host that reads notes; the core does not show its URL.
#[must_use]
pub fn config(config: &core::Config, url: &str) -> machine::Config {
    machine::Config {
        url: url.to_owned(),
        transport: match config.transport {
            Transport::Auto => machine::Transport::Auto,
            Transport::StreamableHttp => machine::Transport::StreamableHttp,
            Transport::Sse => machine::Transport::Sse,
        },
        era: match config.era {
            mcp_proxy_core::Era::Auto => machine::Era::Auto,
            mcp_proxy_core::Era::Legacy => machine::Era::Legacy,
            mcp_proxy_core::Era::Modern => machine::Era::Modern,
        },
        headers: headers(&config.headers),
        first_byte_timeout: config.first_byte_timeout.map(millis),
        endpoint_timeout: millis(config.endpoint_timeout),
        request_timeout: config.request_timeout.map(millis),
        total_timeout: config.total_timeout.map(millis),
        drain_timeout: millis(config.drain_timeout),
        retries: config.retries,
        max_message: u32::try_from(config.max_message).unwrap_or(u32::MAX),
        keep_alive: match config.keep_alive {
            KeepAlive::Auto => machine::KeepAlive::Auto,
            KeepAlive::Off => machine::KeepAlive::Off,
            KeepAlive::Every(silence) => machine::KeepAlive::Every(millis(silence)),
        },
        quirks: quirks(config.quirks),
        redirects: config.redirects,
        trace: config.trace,
        notes: true,
        http: match &config.client {
            ClientTransport::Lines => None,
            ClientTransport::Http(client) => Some(http_transport(client)),
        },
    }
}

fn http_transport(client: &HttpTransport) -> machine::HttpTransport {
    let HttpTransport {
        session,
        most_open,
        queue_bytes,
        replay_events,
        replay_bytes,
        hold,
        heartbeat,
        patience,
        recovers,
        challenges,
        states,
        resumed,
        // Only a shell with many machines for one server has these: the WIT has none.
        found: _,
        left: _,
    } = client;
    let size = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    machine::HttpTransport {
        session: session.to_str().unwrap_or_default().to_owned(),
        most_open: size(*most_open),
        queue_bytes: size(*queue_bytes),
        replay_events: size(*replay_events),
        replay_bytes: size(*replay_bytes),
        hold: millis(*hold),
        heartbeat: millis(*heartbeat),
        patience: millis(*patience),
        recovers: *recovers,
        challenges: *challenges,
        states: states.clone(),
        resumed: resumed.as_ref().map(snapshot),
    }
}

fn snapshot(known: &Snapshot) -> machine::Snapshot {
    machine::Snapshot {
        initialize: known.initialize.to_vec(),
        version: known.version.clone(),
        settings: known.settings.iter().map(|setting| setting.to_vec()).collect(),
    }
}

/// A fact.
#[must_use]
pub fn input(input: &Input<'_>) -> machine::Input {
    match input {
        Input::Tick => machine::Input::Tick,
        Input::Bytes(from, bytes) => machine::Input::Bytes((side(*from), bytes.to_vec())),
        Input::Eof(from) => machine::Input::Eof(side(*from)),
        Input::Request(exchange, parts, body) => machine::Input::Asked(machine::Asked {
            exchange: exchange.0,
            method: parts.method.to_string(),
            headers: headers(&parts.headers),
            body: body.to_vec(),
        }),
        Input::Gone(exchange) => machine::Input::Gone(exchange.0),
        Input::Head(call, parts) => machine::Input::Head(machine::Head {
            call: call.0,
            status: parts.status.as_u16(),
            headers: headers(&parts.headers),
        }),
        Input::Chunk(call, bytes) => machine::Input::Chunk((call.0, bytes.to_vec())),
        Input::End(call) => machine::Input::End(call.0),
        Input::Failed(call, error, words) => machine::Input::Failed((call.0, call_error(*error), (*words).to_owned())),
        Input::Flushed(sink, count) => machine::Input::Flushed((written(*sink), *count as u64)),
        Input::Waiting(why) => machine::Input::Waiting((*why).to_owned()),
        Input::Stop => machine::Input::Stop,
        Input::Shutdown => machine::Input::Shutdown,
    }
}

/// A command.
#[must_use]
pub fn output(output: Output) -> machine::Output {
    match output {
        Output::Write(to, bytes) => machine::Output::Write((side(to), bytes.into())),
        Output::Call(call, request) => {
            let (parts, body) = request.into_parts();
            machine::Output::Call(machine::Request {
                call: call.0,
                method: parts.method.to_string(),
                url: parts.uri.to_string(),
                headers: headers(&parts.headers),
                body: body.into(),
            })
        }
        Output::Cancel(call) => machine::Output::Cancel(call.0),
        Output::Respond(exchange, parts) => machine::Output::Respond(machine::Respond {
            exchange: exchange.0,
            status: parts.status.as_u16(),
            headers: headers(&parts.headers),
        }),
        Output::Send(exchange, bytes) => machine::Output::Send((exchange.0, bytes.into())),
        Output::Finish(exchange) => machine::Output::Finish(exchange.0),
        Output::Abort(exchange) => machine::Output::Abort(exchange.0),
        Output::Snapshot(known) => machine::Output::Snapshot(snapshot(&known)),
        Output::Note(note) => {
            let (tag, text) = mcp_proxy_words::words(&note);
            machine::Output::Note(machine::Note { blame: blame(note.blame()), tag: tag.to_owned(), text })
        }
        Output::Exit(Exit::Drained) => machine::Output::Exit(machine::Exit::Drained),
        Output::Exit(Exit::Stopped) => machine::Output::Exit(machine::Exit::Stopped),
    }
}

/// When a tick is due.
#[must_use]
pub fn deadline(deadline: core::Deadline) -> machine::Deadline {
    machine::Deadline { at: deadline.at.0, why: why(deadline.why) }
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

fn side(side: Side) -> machine::Side {
    match side {
        Side::Client => machine::Side::Client,
    }
}

fn written(sink: Sink) -> machine::Sink {
    match sink {
        Sink::Side(to) => machine::Sink::Side(side(to)),
        Sink::Call(call) => machine::Sink::Call(call.0),
        Sink::Exchange(exchange) => machine::Sink::Exchange(exchange.0),
    }
}

fn call_error(error: CallError) -> machine::CallError {
    match error {
        CallError::Refused => machine::CallError::Refused,
        CallError::Unresolved => machine::CallError::Unresolved,
        CallError::ConnectTimeout => machine::CallError::ConnectTimeout,
        CallError::Tls => machine::CallError::Tls,
        CallError::Denied => machine::CallError::Denied,
        CallError::Reset => machine::CallError::Reset,
        CallError::Protocol => machine::CallError::Protocol,
    }
}

fn blame(blame: core::Blame) -> machine::Blame {
    match blame {
        core::Blame::Nobody => machine::Blame::Nobody,
        core::Blame::Client => machine::Blame::Client,
        core::Blame::Server => machine::Blame::Server,
        core::Blame::Link => machine::Blame::Link,
        core::Blame::Bug => machine::Blame::Bug,
    }
}

fn headers(map: &http::HeaderMap) -> Vec<(String, Vec<u8>)> {
    map.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

fn quirks(quirks: Quirks) -> machine::Quirks {
    use machine::Quirks as Q;
    let Quirks {
        any_success,
        null_id,
        blank_lines,
        byte_order_mark,
        pretty_json,
        line_separators,
        late_answers,
        cookies,
        session_gone,
        stripped_prefix,
    } = quirks;
    let switches = [
        (any_success, Q::ANY_SUCCESS),
        (null_id, Q::NULL_ID),
        (blank_lines, Q::BLANK_LINES),
        (byte_order_mark, Q::BYTE_ORDER_MARK),
        (pretty_json, Q::PRETTY_JSON),
        (line_separators, Q::LINE_SEPARATORS),
        (late_answers, Q::LATE_ANSWERS),
        (cookies, Q::COOKIES),
        (session_gone, Q::SESSION_GONE),
        (stripped_prefix, Q::STRIPPED_PREFIX),
    ];
    switches.into_iter().filter(|(on, _)| *on).fold(Q::empty(), |all, (_, quirk)| all | quirk)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
