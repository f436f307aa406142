//! The recorded line of a fact. Every [`Input`] has exactly one line and is read back
//! unchanged. All inputs share one flat object: every shipped component contains the
//! reader, and one object per input would make it big.

use super::fact::{Fact, Form};
use super::redact::{self, Redactor};
use super::text::Text;
use crate::boundary::{CallError, CallId, ExchangeId, Input, Side, Sink};
use crate::time::Time;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line<'a> {
    at: u64,
    input: Word,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// Names and values in order; a name may occur more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Vec<(String, Text<'static>)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// The kind of fact.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Tick,
    ClientBytes,
    ClientEof,
    ClientFlushed,
    ClientRequest,
    ClientGone,
    ClientTook,
    Head,
    Chunk,
    End,
    Failed,
    Uploaded,
    Waiting,
    Stop,
    Shutdown,
}

impl<'a> Line<'a> {
    pub(super) fn new(now: Time, input: &Input<'a>, redactor: &mut Redactor) -> Self {
        let bare = |input| Self {
            at: now.0,
            input,
            call: None,
            exchange: None,
            method: None,
            uri: None,
            status: None,
            headers: None,
            bytes: None,
            error: None,
            count: None,
        };
        let of = |input, call: &CallId| Self { call: Some(call.0), ..bare(input) };
        let with = |input, exchange: &ExchangeId| Self { exchange: Some(exchange.0), ..bare(input) };
        let text = |bytes: &'a [u8]| Some(Text(Cow::Borrowed(bytes)));
        let number = |count: &usize| u64::try_from(*count).ok();
        match input {
            Input::Tick => bare(Word::Tick),
            Input::Bytes(Side::Client, bytes) => Self { bytes: text(bytes), ..bare(Word::ClientBytes) },
            Input::Eof(Side::Client) => bare(Word::ClientEof),
            Input::Request(exchange, parts, body) => Self {
                method: Some(parts.method.to_string()),
                uri: Some(redact::url(&parts.uri.to_string())),
                headers: Some(pairs(&redactor.headers(&parts.headers))),
                bytes: Some(Text(Cow::Owned(body.to_vec()))),
                ..with(Word::ClientRequest, exchange)
            },
            Input::Gone(exchange) => with(Word::ClientGone, exchange),
            Input::Head(call, parts) => {
                let headers = Some(pairs(&redactor.headers(&parts.headers)));
                Self { status: Some(parts.status.as_u16()), headers, ..of(Word::Head, call) }
            }
            Input::Chunk(call, bytes) => Self { bytes: Some(Text(redact::body(bytes))), ..of(Word::Chunk, call) },
            Input::End(call) => of(Word::End, call),
            Input::Failed(call, error, words) => {
                let bytes = text(words.as_bytes()).filter(|_| !words.is_empty());
                Self { error: Some(Failure::from(*error)), bytes, ..of(Word::Failed, call) }
            }
            Input::Flushed(Sink::Side(Side::Client), count) => {
                Self { count: number(count), ..bare(Word::ClientFlushed) }
            }
            Input::Flushed(Sink::Call(call), count) => Self { count: number(count), ..of(Word::Uploaded, call) },
            Input::Flushed(Sink::Exchange(exchange), count) => {
                Self { count: number(count), ..with(Word::ClientTook, exchange) }
            }
            Input::Waiting(why) => Self { bytes: text(why.as_bytes()), ..bare(Word::Waiting) },
            Input::Stop => bare(Word::Stop),
            Input::Shutdown => bare(Word::Shutdown),
        }
    }

    pub(super) fn fact(self) -> Result<(Time, Fact), String> {
        let call = || self.call.map(CallId).ok_or("a call is missing");
        let exchange = || self.exchange.map(ExchangeId).ok_or("an exchange is missing");
        let count = || self.count.map(size).ok_or("a count is missing");
        let form = match self.input {
            Word::Tick => Form::Tick,
            Word::ClientBytes => Form::Bytes(Side::Client, given(self.bytes)?),
            Word::ClientEof => Form::Eof(Side::Client),
            Word::ClientFlushed => Form::Flushed(Sink::Side(Side::Client), count()?),
            Word::ClientRequest => {
                let method = self.method.ok_or("a method is missing")?.parse().map_err(|_| "not a method")?;
                let uri = self.uri.ok_or("a URI is missing")?.parse().map_err(|_| "not a URI")?;
                let headers = headers(&self.headers.ok_or("headers are missing")?)?;
                Form::Request(exchange()?, method, uri, headers, given(self.bytes)?.into())
            }
            Word::ClientGone => Form::Gone(exchange()?),
            Word::ClientTook => Form::Flushed(Sink::Exchange(exchange()?), count()?),
            Word::Head => {
                let status = self.status.ok_or("a status is missing")?;
                let status = StatusCode::from_u16(status).map_err(|error| error.to_string())?;
                Form::Head(call()?, status, headers(&self.headers.ok_or("headers are missing")?)?)
            }
            Word::Chunk => Form::Chunk(call()?, given(self.bytes)?),
            Word::End => Form::End(call()?),
            Word::Failed => {
                let error = self.error.ok_or("an error is missing")?;
                let words = self.bytes.map(|text| text.0.into_owned()).unwrap_or_default();
                Form::Failed(call()?, error.into(), String::from_utf8_lossy(&words).into_owned())
            }
            Word::Uploaded => Form::Flushed(Sink::Call(call()?), count()?),
            Word::Waiting => Form::Waiting(String::from_utf8_lossy(&given(self.bytes)?).into_owned()),
            Word::Stop => Form::Stop,
            Word::Shutdown => Form::Shutdown,
        };
        Ok((Time(self.at), Fact(form)))
    }
}

fn given(bytes: Option<Text<'_>>) -> Result<Vec<u8>, &'static str> {
    bytes.map(|text| text.0.into_owned()).ok_or("bytes are missing")
}

/// Saturates on a machine with a smaller address space.
pub(super) fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn pairs(headers: &HeaderMap) -> Vec<(String, Text<'static>)> {
    let text = |value: &HeaderValue| Text(Cow::Owned(value.as_bytes().to_vec()));
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

fn headers(pairs: &[(String, Text<'_>)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::with_capacity(pairs.len());
    for (name, value) in pairs {
        let key = HeaderName::try_from(name).map_err(|error| error.to_string())?;
        headers.append(key, HeaderValue::from_bytes(&value.0).map_err(|error| error.to_string())?);
    }
    Ok(headers)
}

/// A [`CallError`] by its name in the format.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Failure {
    Refused,
    Unresolved,
    ConnectTimeout,
    Tls,
    Denied,
    Reset,
    Protocol,
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused => Self::Refused,
            CallError::Unresolved => Self::Unresolved,
            CallError::ConnectTimeout => Self::ConnectTimeout,
            CallError::Tls => Self::Tls,
            CallError::Denied => Self::Denied,
            CallError::Reset => Self::Reset,
            CallError::Protocol => Self::Protocol,
        }
    }
}

impl From<Failure> for CallError {
    fn from(error: Failure) -> Self {
        match error {
            Failure::Refused => Self::Refused,
            Failure::Unresolved => Self::Unresolved,
            Failure::ConnectTimeout => Self::ConnectTimeout,
            Failure::Tls => Self::Tls,
            Failure::Denied => Self::Denied,
            Failure::Reset => Self::Reset,
            Failure::Protocol => Self::Protocol,
        }
    }
}
