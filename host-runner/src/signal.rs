//! SIGTERM, SIGINT and SIGHUP. The first signal tells the component to stop: it answers
//! its open requests, ends the session and exits. A second signal, or a component that
//! does not exit, ends the process at once.

use std::time::Duration;

use tokio::time::timeout;

use crate::stdio::Stop;

/// How long the component may take to exit. It gives the server a second.
const GRACE: Duration = Duration::from_secs(3);

/// Waits for signals during the life of the process.
pub async fn watch(stop: Stop) {
    let Ok(mut signals) = Signals::new() else {
        // Without handlers a signal ends the process at once, which is safe.
        return;
    };
    let first = signals.next().await;
    stop.stop();
    let second = timeout(GRACE, signals.next()).await;
    std::process::exit(128 + second.unwrap_or(first));
}

#[cfg(unix)]
struct Signals(Vec<(tokio::signal::unix::Signal, i32)>);

#[cfg(unix)]
impl Signals {
    const HANG_UP: i32 = 1;
    const INTERRUPT: i32 = 2;
    const TERMINATE: i32 = 15;

    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut numbers = vec![Self::TERMINATE, Self::INTERRUPT];
        // A user who starts the proxy with nohup wants it to outlive the terminal.
        numbers.extend((!is_ignored(Self::HANG_UP)).then_some(Self::HANG_UP));
        let listen = |number| Ok((signal(SignalKind::from_raw(number))?, number));
        numbers.into_iter().map(listen).collect::<std::io::Result<_>>().map(Self)
    }

    async fn next(&mut self) -> i32 {
        std::future::poll_fn(|cx| {
            let came =
                self.0.iter_mut().find_map(|(signal, number)| signal.poll_recv(cx).is_ready().then_some(*number));
            came.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        })
        .await
    }
}

/// Whether the process was started with this signal ignored. Only Linux can tell without
/// calling C.
#[cfg(unix)]
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (number - 1)) != 0
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    const INTERRUPT: i32 = 2;

    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> i32 {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Self::INTERRUPT,
            Err(_) => std::future::pending().await,
        }
    }
}
