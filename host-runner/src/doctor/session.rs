//! A short session of a client, through the component, as a real client would have it.

use std::time::{Duration, Instant};

use mcp_proxy_options::{KeepAlive, Options};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex},
    task::JoinHandle,
    time::timeout,
};
use wasmtime::component::Component;
use wasmtime_wasi::cli::{AsyncStdinStream, AsyncStdoutStream};

use crate::{
    auth::Authorizer,
    guest::{Ended, Finished, Guest, context},
    http::{Http, Watch},
};

/// The revision that the client asks for.
const REVISION: &str = "2025-11-25";
/// What fits into a pipe.
const PIPE: usize = 64 << 10;
/// The component gives up before; this is for a component that does not.
const MARGIN: Duration = Duration::from_secs(10);
/// How long one answer may take, unless the user wants it shorter.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Session {
    stdin: DuplexStream,
    stdout: Lines<BufReader<DuplexStream>>,
    stderr: DuplexStream,
    guest: JoinHandle<Finished>,
    patience: Duration,
    asked: u64,
}

/// The answer to a request: the result, or the error object.
pub(super) type Answer = Result<Value, Value>;

impl Session {
    /// Starts the component. Nobody is asked to log in.
    pub(super) fn start(component: &Component, options: &Options, http: Http, watch: &Watch) -> Self {
        let options = impatient(options);
        http.authorizer().into_iter().for_each(Authorizer::only_look);
        let (stdin, guest_stdin) = duplex(PIPE);
        let (guest_stdout, stdout) = duplex(PIPE);
        let (guest_stderr, stderr) = duplex(PIPE);
        let wasi = context(
            &options.guest_args(),
            &[],
            AsyncStdinStream::new(guest_stdin),
            AsyncStdoutStream::new(PIPE, guest_stdout),
            AsyncStdoutStream::new(PIPE, guest_stderr),
        );
        let guest = tokio::spawn(Guest::new(component.clone(), wasi, Box::new(watch.over(http))).run());
        let patience = options.request_timeout.unwrap_or(PATIENCE) + MARGIN;
        Self { stdin, stdout: BufReader::new(stdout).lines(), stderr, guest, patience, asked: 0 }
    }

    pub(super) async fn initialize(&mut self) -> Answer {
        let client = json!({ "name": "mcp-proxy doctor", "version": env!("CARGO_PKG_VERSION") });
        self.ask("initialize", json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": client })).await
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Answer {
        self.asked += 1;
        let id = self.asked;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        match timeout(self.patience, self.answer(id)).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(json!({ "message": "the component ended without an answer" })),
            Err(_elapsed) => Err(json!({ "message": "the component gave no answer" })),
        }
    }

    /// The same, and how long it took.
    pub(super) async fn timed(&mut self, method: &str) -> Option<Duration> {
        let begun = Instant::now();
        self.ask(method, json!({})).await.ok().map(|_| begun.elapsed())
    }

    pub(super) async fn notify(&mut self, method: &str) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method })).await;
    }

    /// Ends the session as a client does. Returns what the component had to say, or why it
    /// broke.
    pub(super) async fn end(self) -> Vec<String> {
        let Self { stdin, stdout, mut stderr, guest, patience, .. } = self;
        drop((stdin, stdout));
        let mut said = String::new();
        let ended = timeout(patience, async {
            let (finished, _) = tokio::join!(guest, stderr.read_to_string(&mut said));
            finished
        });
        let broke = match ended.await {
            Ok(Ok(Finished { ended: Ended::Broke(cause), .. })) => Some(format!("the component broke: {cause}")),
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_elapsed) => Some("the component did not end".to_owned()),
        };
        let mut said: Vec<String> = said.lines().map(str::to_owned).chain(broke).collect();
        said.dedup();
        said
    }

    async fn answer(&mut self, id: u64) -> Option<Answer> {
        loop {
            let line = self.stdout.next_line().await.ok()??;
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            match (message.get("method"), message.get("id")) {
                (None, Some(answered)) if *answered == json!(id) => {
                    let error = message.get("error").cloned();
                    return Some(error.map_or_else(|| Ok(message.get("result").cloned().unwrap_or_default()), Err));
                }
                // This client declares that it answers no questions.
                (Some(_), Some(asked)) => {
                    let error = json!({ "code": -32601, "message": "Method not found" });
                    self.write(&json!({ "jsonrpc": "2.0", "id": asked, "error": error })).await;
                }
                _ => {}
            }
        }
    }

    /// A component that no longer reads has ended, which the next read shows.
    async fn write(&mut self, message: &Value) {
        let _ = self.stdin.write_all(format!("{message}\n").as_bytes()).await;
    }
}

/// A person waits for the result.
fn impatient(options: &Options) -> Options {
    let mut options = options.clone();
    let limit = options.request_timeout.unwrap_or(PATIENCE).min(PATIENCE);
    options.request_timeout = Some(limit);
    options.connect_timeout = options.connect_timeout.min(limit);
    options.retries = 0;
    options.keep_alive = KeepAlive::Off;
    options.host.record = None;
    options
}
