//! Maps failures to wasi:http error codes, so that the component can tell "never reached
//! the server" (safe to retry) from "broke afterwards".
//!
//! | meaning | codes |
//! |---|---|
//! | nothing was sent | DNS-error, connection-refused, connection-timeout, destination-unavailable, TLS-alert-received, connection-limit-reached (the server refused the stream unprocessed) |
//! | may have been received | connection-terminated, HTTP-protocol-error, internal-error, connection-read-timeout |
//! | refused here | HTTP-request-denied |
//!
//! The client should learn the cause, but few codes have room for text. Of the TLS codes
//! only TLS-alert-received has, so every TLS failure uses it; its alert-id is set only if
//! the server sent an alert. DNS-error carries text in `rcode`, and internal-error says
//! what HTTP-protocol-error cannot. The text is one short line without credentials.

use std::{error::Error as StdError, io};

use ::http::Uri;
use hyper_util::client::legacy;
use wasmtime_wasi_http::Error;

use super::{dial::NameNotFound, hop::Http2WithoutTls, proxy::Way, trust};
use crate::note;

/// Longest cause in characters. A peer can make it long through the names in its
/// certificate.
const LONGEST: usize = 300;

/// Why there is no response.
pub(super) fn of_exchange(uri: &Uri, via: Option<&Way>, error: &legacy::Error) -> Error {
    let (mut code, cause) = if error.is_connect() { of_connect(error) } else { of_sent(error) };
    if let Some(cause) = cause {
        let host = uri.authority().map_or("?", |authority| authority.as_str());
        let via = via.map_or_else(String::new, |way| format!(" through the proxy {}", way.address()));
        note::http(&format!("cannot connect to {host}{via}: {cause}"));
        explain(&mut code, words(&format!("{cause}{via}")));
    }
    code
}

/// Why there is no response, in words.
pub(super) fn of_exchange_in_words(uri: &Uri, via: Option<&Way>, error: &legacy::Error) -> String {
    let (_, cause) = if error.is_connect() { of_connect(error) } else { of_sent(error) };
    in_words(uri, via, cause)
}

/// Why there is no connection, in words.
pub(super) fn of_dialing_in_words(uri: &Uri, via: Option<&Way>, error: &(dyn StdError + 'static)) -> String {
    in_words(uri, via, of_connect(error).1)
}

fn in_words(uri: &Uri, via: Option<&Way>, cause: Option<String>) -> String {
    let host = uri.authority().map_or("?", |authority| authority.as_str());
    let via = via.map_or_else(String::new, |way| format!(" through the proxy {}", way.address()));
    words(&format!("no answer from {host}{via}: {}", cause.unwrap_or_else(|| "the connection broke".to_owned())))
}

/// Adds the cause if the code has room for text.
fn explain(code: &mut Error, words: String) {
    use Error::{DnsError, InternalError, TlsAlertReceived};
    if let TlsAlertReceived { alert_message: room, .. } | DnsError { rcode: room, .. } | InternalError(room) = code {
        *room = Some(words);
    }
}

/// One short line without control characters: part of a cause may come from a peer.
fn words(cause: &str) -> String {
    let words = cause.split(|letter: char| letter.is_whitespace() || letter.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        None => line,
        Some(_) => line.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

/// Why the body of a response stopped.
pub(super) fn of_body(error: &hyper::Error) -> Error {
    if error.is_incomplete_message() {
        return Error::HttpResponseIncomplete;
    }
    of_sent(error).0
}

/// The code, and the cause in words if the user can fix it.
fn of_sent(error: &(dyn StdError + 'static)) -> (Error, Option<String>) {
    for cause in chain(error) {
        if let Some(error) = cause.downcast_ref::<h2::Error>() {
            let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
            let code = if refused { Error::ConnectionLimitReached } else { Error::ConnectionTerminated };
            return (code, None);
        }
        // In TLS 1.3 a server rejects the client's certificate only after the first
        // request.
        if let Some(error @ rustls::Error::AlertReceived(_)) = cause.downcast_ref() {
            return (of_tls(error), Some(tls_cause(error)));
        }
        if cause.is::<Http2WithoutTls>() {
            return (Error::InternalError(None), Some(cause.to_string()));
        }
        if cause.downcast_ref().is_some_and(hyper::Error::is_parse) {
            return (Error::HttpProtocolError, None);
        }
    }
    (Error::ConnectionTerminated, None)
}

fn of_connect(error: &(dyn StdError + 'static)) -> (Error, Option<String>) {
    let mut last = error.to_string();
    for cause in chain(error) {
        last = cause.to_string();
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            return (of_tls(error), Some(tls_cause(error)));
        }
        // While connecting, only TLS reads the server's bytes.
        if cause.is::<Http2WithoutTls>() {
            return (Error::TlsAlertReceived { alert_id: None, alert_message: None }, Some(last));
        }
        if cause.is::<NameNotFound>() {
            return (Error::DnsError { rcode: None, info_code: None }, Some(last));
        }
        if let Some(code) = cause.downcast_ref::<io::Error>().and_then(of_io) {
            return (code, Some(last));
        }
    }
    (Error::DestinationUnavailable, Some(last))
}

fn of_io(error: &io::Error) -> Option<Error> {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
    let kind = error.kind();
    if kind == ConnectionRefused {
        return Some(Error::ConnectionRefused);
    }
    if kind == TimedOut {
        return Some(Error::ConnectionTimeout);
    }
    let unroutable = kind == HostUnreachable || kind == NetworkUnreachable;
    unroutable.then_some(Error::DestinationIpUnroutable)
}

fn of_tls(error: &rustls::Error) -> Error {
    let alert_id = if let rustls::Error::AlertReceived(alert) = error { Some(u8::from(*alert)) } else { None };
    Error::TlsAlertReceived { alert_id, alert_message: None }
}

fn tls_cause(error: &rustls::Error) -> String {
    use rustls::{AlertDescription, CertificateError, InvalidMessage};
    if *error == CertificateError::UnknownIssuer.into() {
        return format!("{error}; --ca-cert FILE trusts a private CA, or the server's own certificate");
    }
    if trust::is_ca(error) {
        return "the server's certificate is a CA (CaUsedAsEndEntity); \
                --ca-cert FILE trusts it if FILE has exactly this certificate"
            .to_owned();
    }
    if *error == rustls::Error::AlertReceived(AlertDescription::CertificateRequired) {
        return format!(
            "{error}; the server wants --client-cert and --client-key, which only the URL's own origin gets"
        );
    }
    if *error == InvalidMessage::InvalidContentType.into() {
        return "the server does not speak TLS there; is it an http:// URL?".to_owned();
    }
    error.to_string()
}

/// An error and its causes, outermost first.
fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| cause(*error))
}

/// `source` does not return the error that an `io::Error` wraps.
fn cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    let wrapped = error.downcast_ref().and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(error: impl StdError + 'static) -> String {
        format!("{:?}", of_connect(&error).0)
    }

    #[test]
    fn failures_to_connect_have_codes_of_their_own() {
        let io = |kind: io::ErrorKind| io::Error::from(kind);
        let certificate = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
        let cases = [
            (code(io(io::ErrorKind::ConnectionRefused)), "ConnectionRefused"),
            (code(io(io::ErrorKind::TimedOut)), "ConnectionTimeout"),
            (code(io(io::ErrorKind::NetworkUnreachable)), "DestinationIpUnroutable"),
            (code(io(io::ErrorKind::ConnectionReset)), "DestinationUnavailable"),
            (code(NameNotFound::new("unknown")), "DnsError"),
            (code(io::Error::other(io::Error::other(certificate))), "TlsAlertReceived { alert_id: None"),
            (code(io::Error::other(alert)), "TlsAlertReceived { alert_id: Some(116)"),
            (code(rustls::Error::HandshakeNotComplete), "TlsAlertReceived { alert_id: None"),
            (code(io::Error::other(Http2WithoutTls)), "TlsAlertReceived { alert_id: None"),
        ];
        for (code, expected) in cases {
            assert!(code.starts_with(expected), "{code} is not {expected}");
        }
    }

    /// The error that a component receives.
    fn told((mut code, cause): (Error, Option<String>)) -> String {
        explain(&mut code, words(&cause.unwrap()));
        format!("{code:?}")
    }

    #[test]
    fn a_cause_is_told_where_the_code_has_room_for_it() {
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure);
        let cases = [
            (of_connect(&expired), r#"alert_message: Some("invalid peer certificate: Expired")"#),
            (of_connect(&alert), r#"alert_id: Some(40), alert_message: Some("received fatal alert: "#),
            (of_sent(&alert), r#"alert_id: Some(40), alert_message: Some("received fatal alert: "#),
            (of_connect(&NameNotFound::new("no\nsuch  name")), r#"rcode: Some("no such name")"#),
            (of_connect(&io::Error::from(io::ErrorKind::ConnectionRefused)), "ConnectionRefused"),
            (
                of_sent(&io::Error::other(Http2WithoutTls)),
                r#"InternalError(Some("the server speaks HTTP/2 without TLS"#,
            ),
        ];
        for (failure, expected) in cases {
            let told = told(failure);
            assert!(told.contains(expected), "{told} has no {expected}");
        }
    }

    #[test]
    fn words_are_one_short_line() {
        let long = "ü".repeat(LONGEST + 1);
        let cut = format!("{}…", "ü".repeat(LONGEST - 1));
        let cases = [
            ("a cause", "a cause"),
            (" a\r\n\u{2028}cause\u{85}\t", "a cause"),
            ("\x1b]0;a\x07b\u{9b}c\x00\x7f", "]0;a b c"),
            (&long[2..], &long[2..]),
            (&long, &cut),
        ];
        for (cause, expected) in cases {
            assert_eq!(words(cause), expected, "{cause:?}");
        }
    }

    #[test]
    fn a_stream_refused_by_the_server_was_not_processed() {
        let refused = h2::Error::from(h2::Reason::REFUSED_STREAM);
        let cancelled = h2::Error::from(h2::Reason::CANCEL);
        assert!(matches!(of_sent(&refused).0, Error::ConnectionLimitReached));
        assert!(matches!(of_sent(&cancelled).0, Error::ConnectionTerminated));
        assert!(matches!(of_sent(&io::Error::other("x")).0, Error::ConnectionTerminated));
    }
}
