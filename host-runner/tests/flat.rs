//! The built component makes many calls to a real server: what it leaves in the
//! host's table does not depend on how many. One entry a call would end it
//! after a million.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
};

use host_runner::{
    engine,
    guest::{Ended, Guest, context},
    http::Http,
};
use mcp_proxy_options::{Command, Shell, parse};
use wasmtime::component::Component;
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};

#[tokio::test]
async fn a_call_leaves_nothing_in_the_host_s_table() {
    let url = serve();
    let few = entries(&url, 10).await;
    let many = entries(&url, 1000).await;
    assert_eq!(few, many, "entries after 10 calls and after 1,000");
}

/// How many entries are left after a session with so many calls.
async fn entries(url: &str, calls: usize) -> usize {
    let Ok(Command::Run(options)) = parse(Shell::Native, [url.to_owned()], &|_| None) else { panic!() };
    let http = Http::new(&options, &|_| None).unwrap();
    let call = |n| format!("{{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"tools/call\"}}\n");
    let input: String = (0..calls).map(call).collect();
    let output = MemoryOutputPipe::new(1 << 20);
    let stderr = MemoryOutputPipe::new(1 << 20);
    let wasi = context(&options.guest_args(), &[], MemoryInputPipe::new(input), output.clone(), stderr.clone());
    let finished = Guest::new(component(), wasi, Box::new(http)).run().await;
    let (said, notes) = (text(&output), text(&stderr));
    assert_eq!(finished.ended, Ended::Exited(0), "{notes}");
    assert_eq!(said.matches("\"result\"").count(), calls, "{notes}");
    finished.entries
}

fn text(pipe: &MemoryOutputPipe) -> String {
    String::from_utf8_lossy(&pipe.contents()).into_owned()
}

fn component() -> Component {
    let dist = env::var_os("MCP_PROXY_DIST").map(PathBuf::from);
    let dist = dist.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../dist")));
    let file = dist.join("mcp-proxy.wasm");
    Component::from_file(&engine::engine().unwrap(), &file).expect("cargo xtask build makes the component")
}

/// A server that answers every request with a result, for as long as the test lasts.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || while answer(stream.as_ref().unwrap()).is_some() {});
        }
    });
    url
}

/// One exchange; `None` at the end of the connection.
fn answer(mut stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let head: Vec<String> = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let length =
        head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    let id: String = body.split_once("\"id\":")?.1.chars().take_while(char::is_ascii_digit).collect();
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}");
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", answer.len());
    stream.write_all(format!("{head}{answer}").as_bytes()).ok()
}
