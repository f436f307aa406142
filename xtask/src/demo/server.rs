//! The demo's server, with the essentials of two transports: Streamable HTTP of
//! 2025-11-25 at `/mcp`, HTTP+SSE of 2024-11-05 at `/sse`. It forgets its session on
//! command, to show that the client does not notice.

#![expect(clippy::indexing_slicing, reason = "indexing a JSON value cannot panic: what is missing is null")]

use super::tools::{self, Tools};
use super::{Transcript, Who};
use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::TcpListener;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tiny_http::{Header, Method, Request, Response};

/// After this much silence, a stream sends a sign of life, and the server notices a
/// client that left.
const PULSE: Duration = Duration::from_secs(15);

pub(crate) struct Server {
    http: tiny_http::Server,
    state: Mutex<State>,
    tools: Tools,
    transcript: Transcript,
}

#[derive(Default)]
struct State {
    sessions: u32,
    /// The Streamable HTTP session.
    session: Option<String>,
    ended: bool,
    /// The message channels of the HTTP+SSE sessions.
    streams: HashMap<String, Sender<String>>,
}

impl State {
    fn new_session(&mut self) -> String {
        self.sessions += 1;
        format!("demo-{}", self.sessions)
    }
}

impl Server {
    pub(crate) fn start(transcript: Transcript) -> Result<Arc<Self>> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port on loopback")?;
        // Small events must not wait for each other; connections inherit this.
        socket2::SockRef::from(&listener).set_tcp_nodelay(true)?;
        let http = tiny_http::Server::from_listener(listener, None).map_err(|error| anyhow!("no server: {error}"))?;
        let server = Arc::new(Self { http, state: Mutex::default(), tools: Tools::default(), transcript });
        let accepting = Arc::clone(&server);
        std::thread::spawn(move || {
            for request in accepting.http.incoming_requests() {
                let server = Arc::clone(&accepting);
                std::thread::spawn(move || server.serve(request));
            }
        });
        Ok(server)
    }

    /// The URL for Streamable HTTP.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.http.server_addr())
    }

    /// The URL for HTTP+SSE.
    pub(crate) fn sse_url(&self) -> String {
        format!("http://{}/sse", self.http.server_addr())
    }

    /// The client ended the session, as it should.
    pub(crate) fn ended(&self) -> bool {
        self.state().ended
    }

    pub(crate) fn stop(&self) {
        self.http.unblock();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut request: Request) {
        let mut body = String::new();
        request.as_reader().read_to_string(&mut body).ok();
        let message: Value = serde_json::from_str(&body).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "(answer)" };
        let what = message["method"].as_str().unwrap_or(kind);
        let url = request.url().to_owned();
        let (path, query) = url.split_once('?').unwrap_or((&url, ""));
        self.transcript.add(Who::Server, format!("{} {path} {what}", request.method()));
        match (request.method(), path) {
            (_, "/mcp") => self.exchange(request, &message),
            (Method::Get, "/sse") => self.open(request),
            (Method::Post, "/messages") => self.take(request, query, &message),
            (_, "/sse" | "/messages") => respond(request, 405, None, ""),
            _ => respond(request, 404, None, ""),
        }
    }

    // ---- Streamable HTTP: the answer to a request is in the response --------

    fn exchange(&self, request: Request, message: &Value) {
        let session = request.headers().iter().find(|header| header.field.equiv("Mcp-Session-Id"));
        let session = session.map(|header| header.value.to_string());
        if message["method"] == "initialize" {
            let session = {
                let mut state = self.state();
                state.session = Some(state.new_session());
                state.session.clone()
            };
            respond(request, 200, session.as_deref(), &self.answer(message));
        } else if session != self.state().session {
            respond(request, 404, None, "");
        } else if *request.method() == Method::Post {
            self.post(request, message);
        } else if *request.method() == Method::Delete {
            self.state().ended = true;
            respond(request, 200, None, "");
        } else {
            respond(request, 405, None, "");
        }
    }

    fn post(&self, request: Request, message: &Value) {
        if message.get("method").is_none() || message.get("id").is_none() {
            self.tools.hear(message);
            respond(request, 202, None, "");
        } else if tools::is_talkative(message) {
            let mut events = Events::begin(request);
            // A client that left needs no answer.
            self.tools.answer(message, &mut |said| drop(events.send("message", said)));
            events.end();
        } else {
            if tools::name(message) == tools::FORGET {
                self.state().session = None;
            }
            respond(request, 200, None, &self.answer(message));
        }
    }

    fn answer(&self, message: &Value) -> String {
        let mut answer = String::new();
        self.tools.answer(message, &mut |said| said.clone_into(&mut answer));
        answer
    }

    // ---- HTTP+SSE: the stream is the session, and carries every answer -------

    fn open(&self, request: Request) {
        let (sender, messages) = channel();
        let session = {
            let mut state = self.state();
            let session = state.new_session();
            state.streams.insert(session.clone(), sender);
            session
        };
        let mut events = Events::begin(request);
        let mut sent = events.send("endpoint", &format!("/messages?sessionId={session}"));
        while sent.is_ok() {
            sent = match messages.recv_timeout(PULSE) {
                Ok(message) => events.send("message", &message),
                Err(RecvTimeoutError::Timeout) => events.pulse(),
                Err(RecvTimeoutError::Disconnected) => break,
            };
        }
        self.state().streams.remove(&session);
        events.end();
    }

    fn take(&self, request: Request, query: &str, message: &Value) {
        let session = query.strip_prefix("sessionId=").unwrap_or_default();
        let Some(stream) = self.state().streams.get(session).cloned() else {
            return respond(request, 404, None, "");
        };
        respond(request, 202, None, "");
        if message.get("method").is_none() || message.get("id").is_none() {
            return self.tools.hear(message);
        }
        if tools::name(message) == tools::FORGET {
            self.state().streams.remove(session);
        }
        self.tools.answer(message, &mut |said| drop(stream.send(said.to_owned())));
    }
}

fn respond(request: Request, status: u16, session: Option<&str>, body: &str) {
    let mut response = Response::from_string(body).with_status_code(status);
    let headers = [("Content-Type", Some("application/json")), ("Mcp-Session-Id", session)];
    for (name, value) in headers {
        let header = value.and_then(|value| Header::from_bytes(name, value).ok());
        header.into_iter().for_each(|header| response.add_header(header));
    }
    // A client that left needs no response.
    request.respond(response).ok();
}

/// A response that is an event stream, one event at a time.
struct Events {
    out: Box<dyn Write + Send>,
}

impl Events {
    fn begin(request: Request) -> Self {
        let mut out = request.into_writer();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        out.write_all(head.as_bytes()).ok();
        Self { out }
    }

    fn send(&mut self, event: &str, data: &str) -> io::Result<()> {
        self.chunk(&format!("event: {event}\ndata: {data}\n\n"))
    }

    fn pulse(&mut self) -> io::Result<()> {
        self.chunk(": here\n\n")
    }

    fn end(mut self) {
        self.out.write_all(b"0\r\n\r\n").ok();
        self.out.flush().ok();
    }

    fn chunk(&mut self, text: &str) -> io::Result<()> {
        write!(self.out, "{:x}\r\n{text}\r\n", text.len())?;
        self.out.flush()
    }
}
