//! One HTTP exchange over `wasi:http`: upload, head, body. Pollables live as long as
//! their streams and are dropped before them.

use bytes::Bytes;
use http::Request;
use mcp_proxy_core::CallError;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme,
};
use wasip2::io::poll::Pollable;
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

/// Size limit of all headers of a request. A host refuses more, and wasmtime does so by
/// ending the component.
const LONGEST_HEADERS: usize = 96 << 10;
/// Size limit of one read.
const READ: u64 = 256 << 10;

/// An exchange under way.
pub(crate) struct Call {
    upload: Option<Upload>,
    download: Download,
}

/// A pollable is a child of its stream and must be dropped first. Most exchanges are over
/// before they need one.
struct Upload {
    ready: Option<Pollable>,
    stream: OutputStream,
    body: OutgoingBody,
    rest: Bytes,
}

/// Fields drop in order: children first.
enum Download {
    Head { ready: Pollable, future: FutureIncomingResponse },
    Body { ready: Option<Pollable>, stream: InputStream, _body: IncomingBody, _response: IncomingResponse },
}

/// The result of a read.
pub(crate) enum News {
    Nothing,
    Head(http::response::Parts),
    Chunk(Vec<u8>),
    End,
    Failed(Broken),
}

/// Why an exchange failed, and the host's text about it.
pub(crate) struct Broken {
    pub(crate) error: CallError,
    pub(crate) words: String,
}

impl From<CallError> for Broken {
    fn from(error: CallError) -> Self {
        Self { error, words: String::new() }
    }
}

impl Call {
    pub(crate) fn start(request: Request<Bytes>, options: Option<RequestOptions>) -> Result<Self, Broken> {
        let (parts, body) = request.into_parts();
        let outgoing = outgoing(&parts, body.len())?;
        // Asking for the body gives the request one, chunked and empty.
        let upload = if body.is_empty() { None } else { Some(outgoing.body().map_err(|()| CallError::Protocol)?) };
        let future = outgoing_handler::handle(outgoing, options).map_err(broken)?;
        let download = Download::Head { ready: future.subscribe(), future };
        let upload = match upload {
            None => None,
            Some(upload) => {
                let stream = upload.write().map_err(|()| CallError::Protocol)?;
                Some(Upload { ready: None, stream, body: upload, rest: body })
            }
        };
        Ok(Self { upload, download })
    }

    /// Creates the pollables to wait for.
    pub(crate) fn prepare(&mut self) {
        if let Some(upload) = &mut self.upload {
            upload.ready.get_or_insert_with(|| upload.stream.subscribe());
        }
        if let Download::Body { ready, stream, .. } = &mut self.download {
            ready.get_or_insert_with(|| stream.subscribe());
        }
    }

    pub(crate) fn uploads(&self) -> bool {
        self.upload.is_some()
    }

    /// The pollable of an unfinished upload.
    pub(crate) fn upload(&self) -> Option<&Pollable> {
        self.upload.as_ref()?.ready.as_ref()
    }

    /// The pollable of the response.
    pub(crate) fn download(&self) -> Option<&Pollable> {
        match &self.download {
            Download::Head { ready, .. } => Some(ready),
            Download::Body { ready, .. } => ready.as_ref(),
        }
    }

    /// The response has begun, so reading it returns bytes to hold.
    pub(crate) fn has_body(&self) -> bool {
        matches!(self.download, Download::Body { .. })
    }

    /// Uploads as much as the host accepts now and returns the count. A broken upload
    /// shows in the response.
    pub(crate) fn feed(&mut self) -> usize {
        let Some(mut upload) = self.upload.take() else { return 0 };
        let all = upload.rest.len();
        while !upload.rest.is_empty() {
            let Ok(room) = upload.stream.check_write() else { return all };
            if room == 0 {
                let count = all - upload.rest.len();
                self.upload = Some(upload);
                return count;
            }
            let size = usize::try_from(room).unwrap_or(usize::MAX).min(upload.rest.len());
            if upload.stream.write(&upload.rest.split_to(size)).is_err() {
                return all;
            }
        }
        let Upload { ready, stream, body, .. } = upload;
        drop(ready);
        drop(stream);
        drop(OutgoingBody::finish(body, None));
        all
    }

    /// Reads what is available, without waiting.
    pub(crate) fn read(&mut self) -> News {
        match &self.download {
            Download::Head { future, .. } => match future.get() {
                None => News::Nothing,
                Some(Ok(Ok(response))) => self.begin_body(response),
                Some(Ok(Err(code))) => News::Failed(broken(code)),
                Some(Err(())) => News::Failed(CallError::Protocol.into()),
            },
            Download::Body { stream, .. } => match stream.read(READ) {
                Ok(bytes) if bytes.is_empty() => News::Nothing,
                Ok(bytes) => News::Chunk(bytes),
                Err(StreamError::Closed) => News::End,
                Err(StreamError::LastOperationFailed(_)) => News::Failed(CallError::Reset.into()),
            },
        }
    }

    fn begin_body(&mut self, response: IncomingResponse) -> News {
        let Some(head) = head(&response) else { return News::Failed(CallError::Protocol.into()) };
        let Ok(body) = response.consume() else { return News::Failed(CallError::Protocol.into()) };
        let Ok(stream) = body.stream() else { return News::Failed(CallError::Protocol.into()) };
        self.download = Download::Body { ready: None, stream, _body: body, _response: response };
        News::Head(head)
    }
}

/// The host never sees a request that fails here.
fn outgoing(parts: &http::request::Parts, length: usize) -> Result<OutgoingRequest, Broken> {
    let refused = |words: String| Broken { error: CallError::Denied, words };
    let mut headers: Vec<(String, Vec<u8>)> =
        parts.headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect();
    if length > 0 {
        headers.push(("content-length".to_owned(), length.to_string().into_bytes()));
    }
    let size = |(name, value): &(String, Vec<u8>)| name.len() + value.len();
    if headers.iter().map(size).sum::<usize>() > LONGEST_HEADERS {
        return Err(refused(format!("the request has more than {} KiB of headers", LONGEST_HEADERS >> 10)));
    }
    let fields = Fields::from_list(&headers).map_err(|_| refused("the host refuses the request's headers".into()))?;
    let request = OutgoingRequest::new(fields);
    let method = match parts.method {
        http::Method::GET => Method::Get,
        http::Method::DELETE => Method::Delete,
        _ => Method::Post,
    };
    let https = parts.uri.scheme() == Some(&http::uri::Scheme::HTTPS);
    let scheme = if https { Scheme::Https } else { Scheme::Http };
    let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let set = request
        .set_method(&method)
        .and_then(|()| request.set_scheme(Some(&scheme)))
        .and_then(|()| request.set_authority(authority))
        .and_then(|()| request.set_path_with_query(Some(path)));
    set.map_err(|()| refused("the host refuses the request's URL".into()))?;
    Ok(request)
}

fn head(response: &IncomingResponse) -> Option<http::response::Parts> {
    let mut head = http::Response::new(()).into_parts().0;
    head.status = http::StatusCode::from_u16(response.status()).ok()?;
    for (name, value) in response.headers().entries() {
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), http::HeaderValue::try_from(value)) {
            head.headers.append(name, value);
        }
    }
    Some(head)
}

/// A host puts its explanation into the codes that have room for text.
fn broken(code: ErrorCode) -> Broken {
    let error = call_error(&code);
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have no room for words")]
    let words = match code {
        ErrorCode::TlsAlertReceived(alert) => alert.alert_message,
        ErrorCode::DnsError(payload) => payload.rcode,
        ErrorCode::InternalError(words) => words,
        _ => None,
    };
    Broken { error, words: words.unwrap_or_default() }
}

/// The distinction that matters: can the request have reached the server?
#[expect(clippy::wildcard_enum_match_arm, reason = "of the many others none tells whether it has")]
fn call_error(code: &ErrorCode) -> CallError {
    match code {
        ErrorCode::ConnectionRefused
        | ErrorCode::DestinationNotFound
        | ErrorCode::DestinationUnavailable
        | ErrorCode::DestinationIpUnroutable
        | ErrorCode::ConnectionLimitReached => CallError::Refused,
        ErrorCode::DnsTimeout | ErrorCode::DnsError(_) => CallError::Unresolved,
        ErrorCode::ConnectionTimeout => CallError::ConnectTimeout,
        ErrorCode::TlsProtocolError | ErrorCode::TlsCertificateError | ErrorCode::TlsAlertReceived(_) => CallError::Tls,
        ErrorCode::DestinationIpProhibited | ErrorCode::HttpRequestDenied => CallError::Denied,
        ErrorCode::ConnectionTerminated | ErrorCode::ConnectionReadTimeout | ErrorCode::ConnectionWriteTimeout => {
            CallError::Reset
        }
        _ => CallError::Protocol,
    }
}
