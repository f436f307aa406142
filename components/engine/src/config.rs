//! Converts the configuration between WIT and the core, in both directions. Decisions do
//! not belong here. `read` takes the host's record apart by name, so a forgotten setting
//! does not compile.

use crate::bindings::exports::mcp::proxy::machine;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_proxy_core::{
    ClientTransport, Config, ConfigError, Era, HttpTransport, KeepAlive, Quirks, Snapshot, Transport,
};
use std::time::Duration;

/// # Errors
/// If the URL cannot work.
pub(crate) fn defaults(url: String) -> Result<machine::Config, machine::ConfigError> {
    let config = new(&url)?;
    Ok(machine::Config {
        url,
        transport: match config.transport {
            Transport::Auto => machine::Transport::Auto,
            Transport::StreamableHttp => machine::Transport::StreamableHttp,
            Transport::Sse => machine::Transport::Sse,
        },
        era: match config.era {
            Era::Auto => machine::Era::Auto,
            Era::Legacy => machine::Era::Legacy,
            Era::Modern => machine::Era::Modern,
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
            KeepAlive::Every(time) => machine::KeepAlive::Every(millis(time)),
        },
        quirks: quirks(config.quirks),
        redirects: config.redirects,
        trace: config.trace,
        notes: false,
        http: None,
    })
}

/// # Errors
/// If the configuration cannot work.
pub(crate) fn read(from: machine::Config) -> Result<Config, machine::ConfigError> {
    // Only the engine needs `notes`.
    let machine::Config {
        url,
        transport,
        era,
        headers,
        first_byte_timeout,
        endpoint_timeout,
        request_timeout,
        total_timeout,
        drain_timeout,
        retries,
        max_message,
        keep_alive,
        quirks,
        redirects,
        trace,
        notes: _,
        http,
    } = from;
    let mut config = new(&url)?;
    config.transport = transport_of(transport);
    config.era = era_of(era);
    for (name, value) in headers {
        let header = HeaderName::try_from(&name).ok().zip(HeaderValue::try_from(value).ok());
        let (header, mut value) = header.ok_or_else(|| machine::ConfigError::Header(name.clone()))?;
        value.set_sensitive(true);
        config.headers.try_append(header, value).map_err(|_| machine::ConfigError::Header(name))?;
    }
    config.first_byte_timeout = first_byte_timeout.map(Duration::from_millis);
    config.endpoint_timeout = Duration::from_millis(endpoint_timeout);
    config.request_timeout = request_timeout.map(Duration::from_millis);
    config.total_timeout = total_timeout.map(Duration::from_millis);
    config.drain_timeout = Duration::from_millis(drain_timeout);
    config.retries = retries;
    config.max_message = usize::try_from(max_message).unwrap_or(usize::MAX);
    config.keep_alive = match keep_alive {
        machine::KeepAlive::Auto => KeepAlive::Auto,
        machine::KeepAlive::Off => KeepAlive::Off,
        machine::KeepAlive::Every(time) => KeepAlive::Every(Duration::from_millis(time)),
    };
    config.quirks = borne(quirks);
    config.redirects = redirects;
    config.trace = trace;
    if let Some(client) = http {
        config.client = ClientTransport::Http(http_transport(client)?);
    }
    Ok(config)
}

fn transport_of(transport: machine::Transport) -> Transport {
    match transport {
        machine::Transport::Auto => Transport::Auto,
        machine::Transport::StreamableHttp => Transport::StreamableHttp,
        machine::Transport::Sse => Transport::Sse,
    }
}

fn era_of(era: machine::Era) -> Era {
    match era {
        machine::Era::Auto => Era::Auto,
        machine::Era::Legacy => Era::Legacy,
        machine::Era::Modern => Era::Modern,
    }
}

fn http_transport(from: machine::HttpTransport) -> Result<HttpTransport, machine::ConfigError> {
    let size = |size| usize::try_from(size).unwrap_or(usize::MAX);
    Ok(HttpTransport {
        session: HeaderValue::try_from(from.session).map_err(|_| machine::ConfigError::Session)?,
        most_open: size(from.most_open),
        queue_bytes: size(from.queue_bytes),
        replay_events: size(from.replay_events),
        replay_bytes: size(from.replay_bytes),
        hold: Duration::from_millis(from.hold),
        heartbeat: Duration::from_millis(from.heartbeat),
        patience: Duration::from_millis(from.patience),
        recovers: from.recovers,
        challenges: from.challenges,
        states: from.states,
        resumed: from.resumed.map(|known| Snapshot {
            initialize: known.initialize.into(),
            version: known.version,
            settings: known.settings.into_iter().map(Into::into).collect(),
        }),
        // The interface has no such setting: an embedder's machines each ask the server.
        found: None,
        left: Vec::new(),
    })
}

pub(crate) fn snapshot(known: Snapshot) -> machine::Snapshot {
    machine::Snapshot {
        initialize: known.initialize.into(),
        version: known.version,
        settings: known.settings.into_iter().map(Into::into).collect(),
    }
}

fn new(url: &str) -> Result<Config, machine::ConfigError> {
    Config::new(url).map_err(|error| match error {
        ConfigError::Url(url) => machine::ConfigError::Url(url),
    })
}

pub(crate) fn headers(map: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    map.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
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
    let on = [
        (Q::ANY_SUCCESS, any_success),
        (Q::NULL_ID, null_id),
        (Q::BLANK_LINES, blank_lines),
        (Q::BYTE_ORDER_MARK, byte_order_mark),
        (Q::PRETTY_JSON, pretty_json),
        (Q::LINE_SEPARATORS, line_separators),
        (Q::LATE_ANSWERS, late_answers),
        (Q::COOKIES, cookies),
        (Q::SESSION_GONE, session_gone),
        (Q::STRIPPED_PREFIX, stripped_prefix),
    ];
    on.into_iter().filter(|(_, on)| *on).fold(Q::empty(), |all, (quirk, _)| all | quirk)
}

fn borne(quirks: machine::Quirks) -> Quirks {
    use machine::Quirks as Q;
    Quirks {
        any_success: quirks.contains(Q::ANY_SUCCESS),
        null_id: quirks.contains(Q::NULL_ID),
        blank_lines: quirks.contains(Q::BLANK_LINES),
        byte_order_mark: quirks.contains(Q::BYTE_ORDER_MARK),
        pretty_json: quirks.contains(Q::PRETTY_JSON),
        line_separators: quirks.contains(Q::LINE_SEPARATORS),
        late_answers: quirks.contains(Q::LATE_ANSWERS),
        cookies: quirks.contains(Q::COOKIES),
        session_gone: quirks.contains(Q::SESSION_GONE),
        stripped_prefix: quirks.contains(Q::STRIPPED_PREFIX),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
