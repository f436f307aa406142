//! What went wrong, in the words of wasi:http, so that the component can tell
//! "never reached the server" (safe to try again) from "broke afterwards".
//!
//! | meaning | codes |
//! |---|---|
//! | nothing was sent | DNS-error, connection-refused, connection-timeout, destination-unavailable, TLS-*, connection-limit-reached (the server refused the stream unprocessed) |
//! | may have been received | connection-terminated, HTTP-protocol-error, connection-read-timeout |
//! | refused here | HTTP-request-denied |

use std::{error::Error as StdError, io};

use ::http::Uri;
use hyper_util::client::legacy;
use wasmtime_wasi_http::Error;

use super::{dial::NameNotFound, proxy::Way};
use crate::note;

/// Why there is no response.
pub(super) fn of_exchange(uri: &Uri, via: Option<&Way>, error: &legacy::Error) -> Error {
    let (code, cause) = if error.is_connect() { of_connect(error) } else { of_sent(error) };
    if let Some(cause) = cause {
        let host = uri.authority().map_or("?", |authority| authority.as_str());
        let via = via.map_or_else(String::new, |way| format!(" through the proxy {}", way.proxy()));
        note::http(&format!("cannot connect to {host}{via}: {cause}"));
    }
    code
}

/// Why a response's body stopped.
pub(super) fn of_body(error: &hyper::Error) -> Error {
    if error.is_incomplete_message() {
        return Error::HttpResponseIncomplete;
    }
    of_sent(error).0
}

/// The code, and the cause in words where a user can do something about it.
fn of_sent(error: &(dyn StdError + 'static)) -> (Error, Option<String>) {
    for cause in chain(error) {
        if let Some(error) = cause.downcast_ref::<h2::Error>() {
            let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
            let code = if refused { Error::ConnectionLimitReached } else { Error::ConnectionTerminated };
            return (code, None);
        }
        // TLS 1.3 refuses a client's certificate only after the first request.
        if let Some(error @ rustls::Error::AlertReceived(_)) = cause.downcast_ref() {
            return (of_tls(error), Some(tls_cause(error)));
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
        if cause.is::<NameNotFound>() {
            let (rcode, info_code) = (Some("name not found".to_owned()), None);
            return (Error::DnsError { rcode, info_code }, Some(last));
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
    use rustls::Error::{AlertReceived, InvalidCertificate, NoCertificatesPresented};
    if let AlertReceived(alert) = error {
        return Error::TlsAlertReceived { alert_id: Some(u8::from(*alert)), alert_message: Some(format!("{alert:?}")) };
    }
    if matches!(error, InvalidCertificate(_) | NoCertificatesPresented) {
        return Error::TlsCertificateError;
    }
    Error::TlsProtocolError
}

fn tls_cause(error: &rustls::Error) -> String {
    use rustls::{AlertDescription, CertificateError, InvalidMessage};
    if *error == CertificateError::UnknownIssuer.into() {
        return format!("{error}; a private CA is trusted with --ca-cert FILE");
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

/// `io::Error` hides what it wraps from `source`.
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
            (code(io::Error::other(io::Error::other(certificate))), "TlsCertificateError"),
            (code(io::Error::other(alert)), "TlsAlertReceived"),
            (code(rustls::Error::HandshakeNotComplete), "TlsProtocolError"),
        ];
        for (code, expected) in cases {
            assert!(code.starts_with(expected), "{code} is not {expected}");
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
