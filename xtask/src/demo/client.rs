//! The demo's client: plays a script through the proxy's stdin and stdout and requires
//! every answer.

#![expect(clippy::indexing_slicing, reason = "indexing a JSON value cannot panic: what is missing is null")]

use super::server::Server;
use super::{Transcript, Who};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Client<'a> {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    transcript: &'a Transcript,
    next_id: u64,
}

/// Plays the script; returns a summary.
pub(crate) fn play(program: &Path, server: &Server, transcript: &Transcript) -> Result<String> {
    let mut proxy = Command::new(program)
        .args(["--verbose", &server.url()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start mcp-proxy")?;
    let log = follow_log(&mut proxy, transcript)?;
    let input = proxy.stdin.take().context("no stdin")?;
    let output = BufReader::new(proxy.stdout.take().context("no stdout")?).lines();
    let mut client = Client { input, output, transcript, next_id: 0 };
    let answers = client.script()?;
    let Client { input, mut output, .. } = client;
    transcript.add(Who::Client, "(closes its side)");
    drop(input);
    ensure!(output.next().is_none(), "the proxy said more than it was asked");
    let status = proxy.wait()?;
    log.join().ok();
    ensure!(status.success(), "the proxy ended with {status}");
    ensure!(server.ended(), "the session was not ended");
    Ok(format!("{answers} requests, {answers} answers, session ended, exit code 0"))
}

fn follow_log(proxy: &mut Child, transcript: &Transcript) -> Result<std::thread::JoinHandle<()>> {
    let stderr = proxy.stderr.take().context("no stderr")?;
    let transcript = transcript.clone();
    Ok(std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            transcript.add(Who::Log, line);
        }
    }))
}

impl Client<'_> {
    fn script(&mut self) -> Result<u64> {
        let info = json!({"name": "demo-client", "version": "1.0.0"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"sampling": {}}, "clientInfo": info});
        let server = self.ask("initialize", &hello)?;
        ensure!(server["serverInfo"]["name"] == "demo-server", "unexpected server: {server}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        let tools = self.ask("tools/list", &json!({}))?;
        ensure!(tools["tools"].as_array().is_some_and(|tools| tools.len() == 4), "unexpected tools: {tools}");
        self.expect("add", &json!({"a": 40, "b": 2}), "42")?;
        self.expect("countdown", &json!({}), "lift-off")?;
        self.expect("ask", &json!({}), "the model says Paris")?;
        self.expect("forget", &json!({}), "which session?")?;
        self.expect("add", &json!({"a": 1, "b": 2}), "3")?;
        Ok(self.next_id)
    }

    fn expect(&mut self, tool: &str, arguments: &Value, text: &str) -> Result<()> {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": tool}});
        let result = self.ask("tools/call", &params)?;
        ensure!(result["content"][0]["text"] == text, "{tool}: expected {text:?}, got {result}");
        Ok(())
    }

    /// Sends a request and reads until its answer, playing the model meanwhile.
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let line = self.output.next().context("the proxy left before its answer")??;
            self.transcript.add(Who::Proxy, &line);
            let message: Value = serde_json::from_str(&line).context("not JSON on stdout")?;
            if message["method"] == "sampling/createMessage" {
                let content = json!({"type": "text", "text": "Paris"});
                let result = json!({"role": "assistant", "content": content, "model": "demo"});
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))?;
            } else if message["id"] == id {
                ensure!(message.get("error").is_none(), "{method} failed: {line}");
                return Ok(message["result"].clone());
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        self.transcript.add(Who::Client, message.to_string());
        writeln!(self.input, "{message}").context("the proxy takes no more")
    }
}
