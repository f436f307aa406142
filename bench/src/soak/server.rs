//! The mock as a child of ours, on a port of its own.
use super::beside_us;
use crate::client;
use crate::http1::{self, Url};
use crate::link::{self, Pipes, Proc};
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{sleep, timeout, Instant};

const START: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

pub struct Server {
    proc: Proc,
    control: Url,
}

impl Server {
    pub async fn start() -> Result<Server, String> {
        let command = [beside_us("mock").display().to_string(), "--port".into(), "0".into(), "--reply".into(), "json".into()];
        let mut proc = link::spawn(&command, "/dev/null", Pipes::Pipe).map_err(|e| format!("cannot start the mock: {e}"))?;
        let (_, output) = proc.io.take().ok_or("no pipes")?;
        let mut address = String::new();
        let read = timeout(START, BufReader::new(output).read_line(&mut address)).await;
        read.map_err(|_| "the mock does not start")?.map_err(|e| e.to_string())?;
        let control = Url::parse(address.trim()).ok_or("the mock says no address")?;
        Ok(Server { proc, control })
    }

    pub fn sid(&self) -> i32 {
        self.proc.sid
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.control.host)
    }

    pub async fn stats(&self) -> Value {
        client::mock_stats(&self.control).await
    }

    pub async fn count(&self, what: &str) -> u64 {
        self.stats().await[what].as_u64().unwrap_or(0)
    }

    /// Waits until a counter has come so far.
    pub async fn reaches(&self, what: &str, count: u64, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        loop {
            let is = self.count(what).await;
            if is >= count {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("the server has {is} {what}, not {count}"));
            }
            sleep(LOOK).await;
        }
    }

    /// Waits until a counter has fallen so far.
    pub async fn falls_to(&self, what: &str, count: u64, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        loop {
            let is = self.count(what).await;
            if is <= count {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("the server still has {is} {what}, not {count}"));
            }
            sleep(LOOK).await;
        }
    }

    /// Lets all calls go that it holds.
    pub async fn release(&self) -> Result<(), String> {
        let url = Url { path: "/release".into(), ..self.control.clone() };
        http1::simple("POST", &url, "", Some(b"")).await.map(|_| ()).map_err(|e| format!("release: {e}"))
    }
}
