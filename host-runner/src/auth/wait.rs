//! Tells the component that the host waits for a person, so that no time limit of the
//! component ends the request that waits, and the client may learn why nothing happens.

use std::time::{Duration, Instant};

use crate::{note, stdio::Stop};

/// A wait this short needs no words.
const SHORT: Duration = Duration::from_secs(1);
/// How often to tell the component. No sensible time limit of a request is that short.
const INTERVAL: Duration = Duration::from_millis(500);

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
        let mut unsaid = Some(why);
        let begun = Instant::now();
        loop {
            if let Ok(done) = tokio::time::timeout(INTERVAL, &mut task).await {
                return done;
            }
            match unsaid.take_if(|_| begun.elapsed() >= SHORT) {
                Some(why) => {
                    note::line(&format!("mcp-proxy: {why}"));
                    self.0.tell(why);
                }
                None => self.0.tell(""),
            }
        }
    }
}
