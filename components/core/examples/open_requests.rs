//! Runs calls while other requests are open, to count instructions:
//!
//! ```sh
//! cargo build --release -p mcp-proxy-core --example open_requests
//! valgrind --tool=callgrind target/release/examples/open_requests OPEN CALLS
//! ```
//!
//! Run it with two numbers of calls and divide the difference.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it stops if the machine misbehaves")]

use mcp_proxy_core::{CallId, Config, Era, Input, Output, Proxy, Side, Sink, Time};

fn main() {
    #[expect(clippy::disallowed_methods, reason = "only the core itself knows no environment")]
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().unwrap());
    let (open, calls) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1000));
    let mut config = Config::new("http://server.test/mcp").unwrap();
    config.era = Era::Legacy;
    let mut shell = Shell { proxy: Proxy::new(&config, 1, Time(0)), last: None };
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    shell.call(initialize, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
    for id in 1..=open {
        shell.line(&request(id));
    }
    for id in open + 1..=open + calls {
        shell.call(&request(id), &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}

fn request(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo"}}}}"#)
}

struct Shell {
    proxy: Proxy,
    /// The call that the machine made last.
    last: Option<CallId>,
}

impl Shell {
    /// The client sends a request, and the server answers it at once.
    fn call(&mut self, line: &str, answer: &str) {
        self.line(line);
        let call = self.last.take().unwrap();
        let head = http::Response::builder().header("content-type", "application/json").body(()).unwrap();
        self.tell(Input::Head(call, head.into_parts().0));
        self.tell(Input::Chunk(call, answer.as_bytes()));
        self.tell(Input::End(call));
    }

    fn line(&mut self, line: &str) {
        self.tell(Input::Bytes(Side::Client, format!("{line}\n").as_bytes()));
    }

    fn tell(&mut self, input: Input<'_>) {
        self.proxy.handle(Time(0), input);
        while let Some(output) = self.proxy.poll() {
            if let Output::Call(call, request) = output {
                self.last = Some(call);
                self.proxy.handle(Time(0), Input::Flushed(Sink::Call(call), request.body().len()));
            } else if let Output::Write(side, line) = output {
                self.proxy.handle(Time(0), Input::Flushed(Sink::Side(side), line.len()));
            }
        }
        std::hint::black_box((self.proxy.deadline(), self.proxy.wants(mcp_proxy_core::Source::Side(Side::Client))));
    }
}
