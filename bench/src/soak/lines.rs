//! A proxy on stdio as its client sees it: lines out, lines in. Everything that
//! is written goes out in as few writes as possible, and while it does, lines
//! are read; so neither side can wait for the other for ever. Nothing is kept
//! but what is on its way.
use super::STALL;
use crate::link::{self, Pipes, Proc, Reader, Writer};
use bytes::{Buf, Bytes, BytesMut};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const ROOM: usize = 256 * 1024;
const EXIT: Duration = Duration::from_secs(10);
const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":"initialize","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"soak","version":"1"}}}"#;
const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

pub struct Lines {
    proc: Proc,
    writer: Option<Writer>,
    reader: Reader,
    input: BytesMut,
    /// So much of `input` has no line end.
    scanned: usize,
    output: BytesMut,
    log: String,
}

enum Moved {
    In(io::Result<usize>),
    Out(io::Result<usize>),
}

impl Lines {
    /// Starts the command; its stderr goes to `log`.
    pub async fn start(command: &[String], log: &str) -> Result<Lines, String> {
        let mut proc = link::spawn(command, log, Pipes::Pipe).map_err(|e| format!("cannot start {}: {e}", command[0]))?;
        let (writer, reader) = proc.io.take().ok_or("no pipes")?;
        let (input, output) = (BytesMut::with_capacity(ROOM), BytesMut::new());
        let mut lines = Lines { proc, writer: Some(writer), reader, input, scanned: 0, output, log: log.into() };
        lines.say(INITIALIZE);
        let answer = lines.next().await?;
        if memchr::memmem::find(&answer, b"\"serverInfo\"").is_none() {
            return Err(format!("initialize: {}", String::from_utf8_lossy(&answer)));
        }
        lines.say(INITIALIZED);
        Ok(lines)
    }

    pub fn sid(&self) -> i32 {
        self.proc.sid
    }

    /// Queues a line; it leaves with the next read that has to wait.
    pub fn say(&mut self, line: &[u8]) {
        self.output.extend_from_slice(line);
        self.output.extend_from_slice(b"\n");
    }

    /// The next line of the proxy.
    pub async fn next(&mut self) -> Result<Bytes, String> {
        loop {
            if let Some(line) = self.line() {
                return Ok(line);
            }
            match timeout(STALL, self.wait()).await {
                Ok(Moved::In(Ok(1..)) | Moved::Out(Ok(_))) => {}
                Ok(Moved::In(_) | Moved::Out(Err(_))) => return Err(self.obituary().await),
                Err(_) => return Err(format!("no line for {} s; {}", STALL.as_secs(), self.stderr())),
            }
        }
    }

    /// Writes all that is queued, without taking a line.
    pub async fn flush(&mut self) -> Result<(), String> {
        while !self.output.is_empty() {
            match timeout(STALL, self.wait()).await {
                Ok(Moved::In(Ok(1..)) | Moved::Out(Ok(_))) => {}
                Ok(Moved::In(_) | Moved::Out(Err(_))) => return Err(self.obituary().await),
                Err(_) => return Err("the proxy does not read".into()),
            }
        }
        Ok(())
    }

    /// A line that has come, if the next one has come.
    fn line(&mut self) -> Option<Bytes> {
        let Some(end) = memchr::memchr(b'\n', &self.input[self.scanned..]) else {
            self.scanned = self.input.len();
            return None;
        };
        let line = self.input.split_to(self.scanned + end).freeze();
        self.input.advance(1);
        self.scanned = 0;
        Some(line)
    }

    async fn wait(&mut self) -> Moved {
        if self.input.capacity() - self.input.len() < ROOM / 16 {
            self.input.reserve(ROOM);
        }
        let Lines { writer, reader, input, output, .. } = self;
        let Some(writer) = writer.as_mut().filter(|_| !output.is_empty()) else {
            return Moved::In(reader.read_buf(input).await);
        };
        tokio::select! {
            biased;
            wrote = writer.write_buf(output) => Moved::Out(wrote),
            read = reader.read_buf(input) => Moved::In(read),
        }
    }

    /// Closes stdin and waits for the end; what is wrong with it.
    pub async fn finish(mut self) -> Result<(), String> {
        self.writer = None;
        match timeout(EXIT, self.proc.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(format!("ended with {status} after the end of input; {}", self.stderr())),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("still there {} s after the end of input", EXIT.as_secs())),
        }
    }

    async fn obituary(&mut self) -> String {
        let status = match timeout(EXIT, self.proc.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "closed stdout, but did not end".into(),
        };
        format!("the proxy is gone ({status}); {}", self.stderr())
    }

    /// How much it has written to stderr, and the end of that.
    fn stderr(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let end = String::from_utf8_lossy(&text[text.len().saturating_sub(300)..]).trim().replace('\n', " · ");
        format!("{} bytes on stderr, the last: {end}", text.len())
    }

    pub fn stderr_bytes(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |log| log.len())
    }
}
