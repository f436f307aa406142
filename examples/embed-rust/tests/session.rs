//! Whole sessions through the example, of clients of both eras: with the
//! reference server "everything" on either transport, and with a server of
//! 2026-07-28. `cargo xtask test engine` provides the servers and the engine. Another host has to pass the same: `EMBED_HOST` is its command,
//! word by word on lines of their own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it counted"
)]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

#[test]
fn a_session_over_streamable_http() {
    session("streamableHttp", "mcp");
}

#[test]
fn a_session_over_sse() {
    session("sse", "sse");
}

#[test]
fn a_bad_url_is_told_and_nothing_runs() {
    let output = host("ftp://nowhere").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("ftp://nowhere"), "{told}");
}

#[test]
fn nobody_listens_and_the_client_is_told() {
    let mut client = Client::start(&format!("http://127.0.0.1:{}/mcp", free_port()));
    client.say(&initialize());
    let answer = client.hear(0);
    assert!(answer["error"]["message"].as_str().unwrap().contains("refused"), "{answer}");
    client.leave();
}

#[test]
fn a_legacy_client_of_a_modern_server() {
    let server = Server::modern();
    let mut client = Client::start(&format!("http://127.0.0.1:{}/mcp", server.port));
    client.say(&initialize());
    assert_eq!(client.hear(0)["result"]["protocolVersion"], "2025-06-18");
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client.say(&call(1, "echo", &json!({"text": "hello"})));
    assert_eq!(client.hear(1)["result"]["content"][0]["text"], "hello");
    // The server asks in its results, and the client gets a request for each question.
    client.say(&call(2, "two_rounds", &json!({})));
    client.fill_in("name", "Ada");
    client.fill_in("city", "London");
    let answer = client.hear(2);
    assert_eq!(answer["result"]["content"][0]["text"], "Ada from London", "{answer}");
    assert!(answer["result"].get("resultType").is_none(), "{answer}");
    client.leave();
}

#[test]
fn a_modern_client_of_a_legacy_server() {
    for (transport, route) in [("streamableHttp", "mcp"), ("sse", "sse")] {
        let server = Server::start(transport);
        let mut client = Client::start(&format!("http://127.0.0.1:{}/{route}", server.port));
        client.say(&modern(call(1, "echo", &json!({"message": "hello"}))));
        let answer = client.hear(1);
        assert_eq!(answer["result"]["content"][0]["text"], "Echo: hello", "{answer}");
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        // The server's question is a result, and the next request has the answer.
        client.say(&modern(call(2, "trigger-elicitation-request", &json!({}))));
        let asked = client.hear(2);
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let mut again = modern(call(3, "trigger-elicitation-request", &json!({})));
        again["params"]["inputResponses"] = json!({ key: {"action": "accept", "content": {"name": "Ada"}} });
        again["params"]["requestState"] = asked["result"]["requestState"].clone();
        client.say(&again);
        let answer = client.hear(3);
        assert!(answer["result"]["content"].to_string().contains("Name: Ada"), "{answer}");
        client.leave();
    }
}

fn session(transport: &str, route: &str) {
    let server = Server::start(transport);
    let mut client = Client::start(&format!("http://127.0.0.1:{}/{route}", server.port));
    client.say(&initialize());
    assert!(client.hear(0)["result"]["serverInfo"]["name"].is_string());
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let tools = client.hear(1)["result"]["tools"].as_array().unwrap().len();
    assert!(tools > 5);
    client.say(&echo(2, "hello"));
    assert_eq!(client.hear(2)["result"]["content"][0]["text"], "Echo: hello");
    // The client closes its side with a request open: it is still answered.
    client.say(&echo(3, &"long ".repeat(50_000)));
    drop(client.stdin.take());
    assert!(client.hear(3)["result"]["content"][0]["text"].as_str().unwrap().len() > 250_000);
    client.leave();
    println!("{transport}: {tools} tools, echo, drained, exit 0");
}

fn initialize() -> Value {
    let info = json!({"name": "test", "version": "1"});
    let capabilities = json!({"elicitation": {}});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn echo(id: u64, text: &str) -> Value {
    call(id, "echo", &json!({"message": text}))
}

fn call(id: u64, name: &str, arguments: &Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// The request as one of 2026-07-28.
fn modern(mut request: Value) -> Value {
    request["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    request
}

/// A client of the example.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Client {
    fn start(url: &str) -> Self {
        let mut child = host(url).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take(), lines, child }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The answer to this request; the server may say other things before.
    fn hear(&mut self, id: u64) -> Value {
        let mut messages = self.lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        messages.find(|message| message["id"] == id && message.get("method").is_none()).expect("an answer")
    }

    /// Waits for a form with this property and fills it in.
    fn fill_in(&mut self, property: &str, value: &str) {
        let mut messages = self.lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let form = messages.find(|message| message["method"] == "elicitation/create").expect("a question");
        assert!(form["params"]["requestedSchema"]["properties"].get(property).is_some(), "{form}");
        let result = json!({"action": "accept", "content": {property: value}});
        self.say(&json!({"jsonrpc": "2.0", "id": form["id"], "result": result}));
    }

    /// Closes stdin and insists on a clean end.
    fn leave(mut self) {
        drop(self.stdin.take());
        let rest = self.lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains("\"result\""));
        assert_eq!(rest, None, "each request is answered once");
        assert!(self.child.wait().unwrap().success());
    }
}

fn host(url: &str) -> Command {
    let engine = root().join("dist/mcp-engine.wasm");
    assert!(engine.exists(), "no {}: cargo xtask test engine", engine.display());
    let other = std::env::var("EMBED_HOST").unwrap_or_else(|_| env!("CARGO_BIN_EXE_embed-rust").to_owned());
    let mut words = other.lines();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(engine).arg(url);
    command
}

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// The reference server "everything".
    fn start(transport: &str) -> Self {
        let port = free_port();
        let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let mut command = node(script);
        command.arg(transport).env("PORT", port.to_string());
        Self::ready(port, &mut command, &format!("on port {port}"))
    }

    /// A server of 2026-07-28.
    fn modern() -> Self {
        let port = free_port();
        Self::ready(port, node("modern-server.mjs").arg(port.to_string()), "listening on")
    }

    /// Starts it, and waits until it has said this.
    fn ready(port: u16, command: &mut Command, ready: &str) -> Self {
        // One says so on stdout, the other on stderr.
        let (read, write) = std::io::pipe().unwrap();
        let child = command.stdout(write.try_clone().unwrap()).stderr(write).spawn().unwrap();
        let mut lines = BufReader::new(read).lines();
        assert!(lines.by_ref().any(|line| line.unwrap().contains(ready)), "the server did not start");
        // It goes on talking, and must not be stopped by a full pipe.
        std::thread::spawn(move || lines.count());
        Self { child, port }
    }
}

/// A script of the end-to-end tests.
fn node(script: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(root().join("tests/e2e").join(script));
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The repository, as cargo tells at run time: clones may share a target folder.
fn root() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..")
}
