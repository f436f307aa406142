//! How much memory a Worker's isolate holds after a garbage collection. RSS also
//! counts garbage and pages that V8 has not returned, so this asks V8 itself, over
//! workerd's inspector (the Chrome DevTools protocol on a WebSocket). Memory that
//! workerd holds outside V8 is not included. Every reading opens a connection of
//! its own, so that the inspector keeps nothing alive between two of them.
use crate::http1::{self, Url};
use futures_util::{SinkExt, StreamExt};
use serde_json::{json, Value};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::{client_async, tungstenite::Message, WebSocketStream};

const LIMIT: Duration = Duration::from_secs(60);
/// An idle workerd may leave a command unanswered until the next request, so this
/// long after a command a request follows, and again until the answer comes.
const PATIENCE: Duration = Duration::from_millis(20);
const SIZES: &str = "function() { return this.reduce((sum, memory) => sum + memory.buffer.byteLength, 0) }";

/// Bytes that are in use.
#[derive(Clone, Copy)]
pub struct Live {
    /// JavaScript objects, the objects of workerd behind them, and array buffers.
    pub heap: u64,
    /// WebAssembly memories at their full size. They never shrink.
    pub wasm: u64,
}

impl Live {
    pub fn kb(self) -> u64 {
        (self.heap + self.wasm) / 1024
    }
}

/// The inspector of a workerd that serves one Worker.
pub struct Inspector {
    /// Host and port of the inspector.
    pub host: String,
    /// A page of the Worker that opens no session.
    pub page: Url,
}

impl Inspector {
    /// Collects the garbage and counts what is left.
    pub async fn live(&self) -> Result<Live, String> {
        let count = async {
            let mut session = Session::open(self).await?;
            // Counting the memories collects garbage too. The second collection frees what the first has finalized.
            let wasm = session.wasm().await?;
            session.call("HeapProfiler.collectGarbage", json!({})).await?;
            let usage = session.call("Runtime.getHeapUsage", json!({})).await?;
            let parts = ["usedSize", "embedderHeapUsedSize", "backingStorageSize"];
            let heap = parts.iter().map(|part| bytes(&usage[part])).sum::<Result<u64, String>>()?;
            Ok(Live { heap, wasm })
        };
        timeout(LIMIT, count).await.map_err(|_| "no answer in time".to_owned()).flatten().map_err(|why| format!("inspector: {why}"))
    }
}

struct Session<'a> {
    socket: WebSocketStream<TcpStream>,
    page: &'a Url,
    /// The number of the last command.
    last: u64,
    /// The JavaScript context of the Worker, once it is known.
    context: Value,
}

impl Session<'_> {
    async fn open(inspector: &Inspector) -> Result<Session<'_>, String> {
        let Inspector { host, page } = inspector;
        let stream = TcpStream::connect(host).await.map_err(|e| e.to_string())?;
        // The configuration that worker.mjs writes names the Worker `main`.
        let (socket, _) = client_async(format!("ws://{host}/main"), stream).await.map_err(|e| e.to_string())?;
        Ok(Session { socket, page, last: 0, context: Value::Null })
    }

    /// The sizes of all WebAssembly memories together. `Runtime.getHeapUsage` does not count them.
    async fn wasm(&mut self) -> Result<u64, String> {
        self.call("Runtime.enable", json!({})).await?;
        let prototype = json!({"expression": "WebAssembly.Memory.prototype", "contextId": self.context});
        let prototype = self.call("Runtime.evaluate", prototype).await?;
        let memories = json!({"prototypeObjectId": prototype["result"]["objectId"]});
        let memories = self.call("Runtime.queryObjects", memories).await?;
        let sizes = json!({"objectId": memories["objects"]["objectId"], "functionDeclaration": SIZES, "returnByValue": true});
        let sizes = self.call("Runtime.callFunctionOn", sizes).await?;
        self.call("Runtime.disable", json!({})).await?;
        bytes(&sizes["result"]["value"])
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last += 1;
        let command = json!({"id": self.last, "method": method, "params": params});
        self.socket.send(Message::text(command.to_string())).await.map_err(|e| e.to_string())?;
        loop {
            let Ok(message) = timeout(PATIENCE, self.socket.next()).await else {
                http1::simple("GET", self.page, "", None).await.map_err(|e| e.to_string())?;
                continue;
            };
            let message = message.ok_or("closed")?.map_err(|e| e.to_string())?.into_data();
            let message: Value = serde_json::from_slice(&message).map_err(|e| e.to_string())?;
            if message["method"] == "Runtime.executionContextCreated" {
                self.context = message["params"]["context"]["id"].clone();
            }
            if message["id"] == self.last {
                return message.get("result").cloned().ok_or_else(|| format!("{method}: {message}"));
            }
        }
    }
}

fn bytes(number: &Value) -> Result<u64, String> {
    number.as_f64().map(|number| number as u64).ok_or_else(|| format!("not a number: {number}"))
}
