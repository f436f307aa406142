//! Tells the component that the host waits for a person, so that no time limit of the
//! component ends the request that waits, and the client may learn why nothing happens.

use std::time::Duration;

use crate::{note, stdio::Stop};

/// A wait this short needs no words.
const SHORT: Duration = Duration::from_secs(1);
/// How often to repeat it. No time limit of the component is that short.
const INTERVAL: Duration = Duration::from_secs(3);

/// A handle on the component's ear.
#[derive(Clone)]
pub struct Wait(Stop);

impl Wait {
    pub fn new(stop: Stop) -> Self {
        Self(stop)
    }

    /// Runs the task, and says why it takes long.
    pub(super) async fn during<T>(&self, why: &str, task: impl Future<Output = T>) -> T {
        tokio::pin!(task);
        if let Ok(done) = tokio::time::timeout(SHORT, &mut task).await {
            return done;
        }
        note::line(&format!("mcp-proxy: {why}"));
        self.0.tell(why);
        loop {
            match tokio::time::timeout(INTERVAL, &mut task).await {
                Ok(done) => return done,
                Err(_elapsed) => self.0.tell(""),
            }
        }
    }
}
