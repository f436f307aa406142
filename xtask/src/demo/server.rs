//! The demo's server: Streamable HTTP of 2025-11-25 in its essentials, with
//! one tool for each thing worth showing. It forgets its session when told to,
//! to show that nobody notices.

#![expect(clippy::indexing_slicing, reason = "indexing a JSON value cannot panic: what is missing is null")]

use super::{Transcript, Who};
use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::net::TcpListener;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tiny_http::{Header, Method, Request, Response};

/// The server and what it remembers.
pub(crate) struct Server {
    http: tiny_http::Server,
    state: Mutex<State>,
    transcript: Transcript,
}

#[derive(Default)]
struct State {
    session: Option<String>,
    sessions: u32,
    ended: bool,
    /// Who waits for the client's answer to a request of ours.
    asked: HashMap<String, Sender<Value>>,
}

impl Server {
    pub(crate) fn start(transcript: Transcript) -> Result<Arc<Self>> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port on loopback")?;
        // Small events must not wait for each other; connections inherit this.
        socket2::SockRef::from(&listener).set_tcp_nodelay(true)?;
        let http = tiny_http::Server::from_listener(listener, None).map_err(|error| anyhow!("no server: {error}"))?;
        let server = Arc::new(Self { http, state: Mutex::default(), transcript });
        let accepting = Arc::clone(&server);
        std::thread::spawn(move || {
            for request in accepting.http.incoming_requests() {
                let server = Arc::clone(&accepting);
                std::thread::spawn(move || server.serve(request));
            }
        });
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.http.server_addr())
    }

    /// The session was ended by the client, as it should be.
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
        self.transcript.add(Who::Server, format!("{} /mcp {what}", request.method()));
        let session = request.headers().iter().find(|header| header.field.equiv("Mcp-Session-Id"));
        let session = session.map(|header| header.value.to_string());
        if what == "initialize" {
            self.initialize(request, &message);
        } else if session != self.state().session {
            respond(request, 404, None, "");
        } else if *request.method() == Method::Post {
            self.post(request, &message);
        } else if *request.method() == Method::Delete {
            self.state().ended = true;
            respond(request, 200, None, "");
        } else {
            respond(request, 405, None, "");
        }
    }

    fn initialize(&self, request: Request, message: &Value) {
        let session = {
            let mut state = self.state();
            state.sessions += 1;
            let session = format!("demo-{}", state.sessions);
            state.session = Some(session.clone());
            session
        };
        let result = json!({"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "demo-server", "version": "1.0.0"}});
        respond(request, 200, Some(&session), &answer(message, &result));
    }

    fn post(&self, request: Request, message: &Value) {
        let tool = message["params"]["name"].as_str().unwrap_or_default();
        match (message["method"].as_str(), tool) {
            (None, _) => {
                let waiting = message["id"].as_str().and_then(|id| self.state().asked.remove(id));
                waiting.into_iter().for_each(|waiting| drop(waiting.send(message["result"].clone())));
                respond(request, 202, None, "");
            }
            (Some(_), _) if message.get("id").is_none() => respond(request, 202, None, ""),
            (Some("tools/list"), _) => {
                let tools: Vec<_> = ["add", "countdown", "ask", "forget"]
                    .iter()
                    .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
                    .collect();
                respond(request, 200, None, &answer(message, &json!({"tools": tools})));
            }
            (Some("tools/call"), "add") => {
                let numbers = &message["params"]["arguments"];
                let sum = numbers["a"].as_i64().unwrap_or(0) + numbers["b"].as_i64().unwrap_or(0);
                respond(request, 200, None, &answer(message, &text(&sum.to_string())));
            }
            (Some("tools/call"), "countdown") => countdown(request, message),
            (Some("tools/call"), "ask") => self.ask(request, message),
            (Some("tools/call"), "forget") => {
                self.state().session = None;
                respond(request, 200, None, &answer(message, &text("which session?")));
            }
            (Some(_), _) => respond(request, 200, None, &error(message)),
        }
    }

    /// A call in which the server asks the client's model for help.
    fn ask(&self, request: Request, message: &Value) {
        let (sender, answered) = channel();
        self.state().asked.insert("sample-1".to_owned(), sender);
        let question = json!({"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}});
        let params = json!({"messages": [question], "maxTokens": 10});
        let ask = json!({"jsonrpc": "2.0", "id": "sample-1", "method": "sampling/createMessage", "params": params});
        stream(request, |event| {
            event(&ask.to_string());
            let heard = answered.recv().unwrap_or_default();
            let said = heard["content"]["text"].as_str().unwrap_or("nothing").to_owned();
            event(&answer(message, &text(&format!("the model says {said}"))));
        });
    }
}

/// A call that reports its progress on an event stream.
fn countdown(request: Request, message: &Value) {
    let token = message["params"]["_meta"]["progressToken"].clone();
    stream(request, |event| {
        for done in 1..=3 {
            let params = json!({"progressToken": token, "progress": done, "total": 3});
            event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string());
        }
        event(&answer(message, &text("lift-off")));
    });
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn answer(request: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()
}

fn error(request: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no such method"}}).to_string()
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

/// Answers with an event stream, one event at a time.
fn stream(request: Request, write: impl FnOnce(&mut dyn FnMut(&str))) {
    let mut out = request.into_writer();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    out.write_all(head.as_bytes()).ok();
    write(&mut |data| {
        let event = format!("event: message\ndata: {data}\n\n");
        write!(out, "{:x}\r\n{event}\r\n", event.len()).ok();
        out.flush().ok();
    });
    out.write_all(b"0\r\n\r\n").ok();
    out.flush().ok();
}
