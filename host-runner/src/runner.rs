//! Runs components one after the other. If one crashes, the runner answers its open
//! requests and starts a new one for the same client and server. After two crashes in a
//! short time it gives up, since the cause may recur at once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mcp_proxy_options::Options;
use wasmtime::component::Component;
use wasmtime_wasi_http::WasiHttpHooks;

use crate::{
    auth::Wait,
    guest::{self, Ended, Guest, context},
    http::Http,
    journal::Journal,
    note,
    record::{Mask, Recording},
    signal,
    stdio::{Input, Output, Stderr, Stdin, Stop},
};

/// If the last crash is not older than this, the runner gives up.
const TOO_SOON: Duration = Duration::from_secs(10);

/// Tell a component to keep the journal, and the next one which session to continue.
const JOURNAL: &str = "MCP_PROXY_JOURNAL";
const SESSION: &str = "MCP_PROXY_SESSION";
/// Tells a component that the end of a second stdin means stop.
const STOP: &str = "MCP_PROXY_STOP";

pub async fn run(component: Component, options: &Options, http: Http, recording: Option<Recording>) -> i32 {
    let input = Input::new();
    let reader = input.clone();
    // A client that no longer reads has nothing more to ask.
    let output = Output::new(move || reader.close());
    let stop = Stop::new();
    tokio::spawn(signal::watch(stop.clone()));
    let journal = Journal::new(input.clone(), output.clone());
    if let Some(authorizer) = http.authorizer() {
        let asked = journal.clone();
        authorizer.serve(move || asked.is_asked(), Wait::new(stop.clone()));
    }
    let mask = options.log_bodies.then(|| http.mask());
    let mut runner = Runner { component, input, stop, output, journal, mask, args: options.guest_args() };
    let code = runner.run(Box::new(http), recording).await;
    runner.output.drain().await;
    code
}

struct Runner {
    component: Component,
    input: Input,
    stop: Stop,
    output: Output,
    journal: Journal,
    /// Masks credentials in lines on stderr; set only when those show messages.
    mask: Option<Arc<Mask>>,
    args: Vec<String>,
}

impl Runner {
    async fn run(&mut self, mut http: Box<dyn WasiHttpHooks>, mut recording: Option<Recording>) -> i32 {
        let journal = self.journal.clone();
        let mut last: Option<Instant> = None;
        loop {
            let guest = self.guest(&journal, http, recording.take());
            // A spawned task, because switching between tasks and the runtime's main
            // future costs a system call each time.
            let finished = match tokio::spawn(guest.run()).await {
                Ok(finished) => finished,
                Err(error) => return broken(&error.to_string()),
            };
            let cause = match finished.ended {
                Ended::Exited(code) => return code,
                Ended::Broke(cause) => cause,
            };
            http = finished.http;
            let half = self.output.in_line();
            if !half {
                self.output.say(journal.last_words().into()).await;
            }
            let soon = last.replace(Instant::now()).is_some_and(|last| last.elapsed() < TOO_SOON);
            if half || soon {
                return broken(&cause);
            }
            note::line(&format!(
                "mcp-proxy: the component broke: {cause}; open requests were answered, and a new one goes on"
            ));
            journal.restart();
            // A recording covers one component.
            self.args.retain(|arg| arg != mcp_proxy_options::RECORD);
        }
    }

    fn guest(&self, journal: &Journal, http: Box<dyn WasiHttpHooks>, recording: Option<Recording>) -> Guest {
        let mut env = vec![(JOURNAL, "1".to_owned()), (STOP, "1".to_owned())];
        env.extend(journal.session().map(|session| (SESSION, session)));
        let stderr = Stderr::new(recording, Some(journal.clone()), self.mask.clone());
        let stdin = Stdin::new(self.input.clone(), self.stop.clone());
        let wasi = context(&self.args, &env, stdin, self.output.clone(), stderr);
        Guest::new(self.component.clone(), wasi, http)
    }
}

fn broken(cause: &str) -> i32 {
    note::line(&format!("mcp-proxy: the component broke: {cause}"));
    guest::BROKEN
}
