//! Receives the answer of a login: a server on this machine, for one browser and one
//! answer. It shows how the login ended. Foreign requests change nothing.

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use ::http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY},
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
};
use url::form_urlencoded;

use super::page;

/// The path of the callback.
const PATH: &str = "/callback";

/// An answer in the browser, which waits for its page.
pub(crate) struct Answer {
    pub(crate) code: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) page: oneshot::Sender<Result<String, String>>,
}

/// The server; it ends when it is dropped.
pub(crate) struct Callback {
    address: SocketAddr,
    listener: TcpListener,
}

impl Callback {
    /// Listens at a port, or at any free one.
    pub(crate) async fn open(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        Ok(Self { address: listener.local_addr()?, listener })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The URL for the authorization server.
    pub(crate) fn url(&self) -> String {
        redirect(self.port())
    }

    /// Waits for the answer with this `state`. The server shows its page, and stops.
    pub(crate) async fn answer(&self, state: &str) -> Answer {
        let (sender, mut answers) = mpsc::channel(1);
        let service = Arc::new(Service { state: state.to_owned(), sender });
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        tokio::spawn(serve(stream, service.clone()));
                    }
                }
                Some(answer) = answers.recv() => return answer,
            }
        }
    }
}

pub(crate) fn redirect(port: u16) -> String {
    format!("http://127.0.0.1:{port}{PATH}")
}

async fn serve(stream: tokio::net::TcpStream, service: Arc<Service>) {
    let handle = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.respond(request).await) }
    });
    // A browser that leaves needs nothing.
    drop(http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), handle).await);
}

struct Service {
    state: String,
    sender: mpsc::Sender<Answer>,
}

impl Service {
    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET || request.uri().path() != PATH {
            return page(StatusCode::NOT_FOUND, page::failed("There is nothing here."));
        }
        let (page_sender, shown) = oneshot::channel();
        let query = request.uri().query().unwrap_or_default();
        let Some(answer) = read(query, &self.state, page_sender) else {
            crate::note::line("mcp-proxy: ignored an answer to another login (its state is not ours)");
            return page(StatusCode::BAD_REQUEST, page::failed("This answer belongs to another login."));
        };
        if self.sender.send(answer).await.is_err() {
            return page(StatusCode::GONE, page::failed("This login is over."));
        }
        match shown.await {
            Ok(Ok(server)) => page(StatusCode::OK, page::done(&server)),
            Ok(Err(cause)) => page(StatusCode::BAD_REQUEST, page::failed(&cause)),
            Err(_gone) => page(StatusCode::GONE, page::failed("mcp-proxy has ended.")),
        }
    }
}

/// The answer in a query, if it is the one to our request.
fn read(query: &str, state: &str, page: oneshot::Sender<Result<String, String>>) -> Option<Answer> {
    let value = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    if value("state")? != state {
        return None;
    }
    let describe = |error: String| match value("error_description") {
        Some(text) => format!("{error}: {text}"),
        None => error,
    };
    Some(Answer { code: value("code"), issuer: value("iss"), error: value("error").map(describe), page })
}

fn page(status: StatusCode, html: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(html));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_with_our_state_counts() {
        let cases = [
            ("", None),
            ("code=c", None),
            ("code=c&state=other", None),
            ("code=c&state=ours", Some((Some("c"), None, None))),
            ("state=ours&code=a%20b&iss=https%3A%2F%2Fas", Some((Some("a b"), Some("https://as"), None))),
            ("error=access_denied&state=ours", Some((None, None, Some("access_denied")))),
            ("error=x&error_description=no+way&state=ours", Some((None, None, Some("x: no way")))),
            ("state=other&state=ours&code=c", None),
        ];
        for (query, expected) in cases {
            let answer = read(query, "ours", oneshot::channel().0);
            let parts = answer
                .as_ref()
                .map(|answer| (answer.code.as_deref(), answer.issuer.as_deref(), answer.error.as_deref()));
            assert_eq!(parts, expected, "{query}");
        }
    }
}
