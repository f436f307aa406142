//! SIGTERM and SIGINT. The first closes the component's stdin, which makes it
//! finish what is open and exit by itself; the second, or a component that does
//! not come to an end, ends the process at once.

use std::time::Duration;

use tokio::time::timeout;

use crate::stdio::Input;

/// On top of the component's own drain time.
const GRACE: Duration = Duration::from_secs(2);

/// Exit code of a process that was ended by signal `number`.
fn exit_code(number: i32) -> i32 {
    128 + number
}

/// Waits for signals for as long as the process lives.
pub async fn watch(input: Input, drain: Duration) {
    let Ok(mut signals) = Signals::new() else {
        // Without handlers a signal ends the process at once, which is safe.
        return;
    };
    let first = signals.next().await;
    input.close();
    let second = timeout(drain.saturating_add(GRACE), signals.next()).await;
    std::process::exit(exit_code(second.unwrap_or(first)));
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    const TERMINATE: i32 = 15;
    const INTERRUPT: i32 = 2;

    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> i32 {
        std::future::poll_fn(|cx| {
            if self.terminate.poll_recv(cx).is_ready() {
                return std::task::Poll::Ready(Self::TERMINATE);
            }
            self.interrupt.poll_recv(cx).map(|_| Self::INTERRUPT)
        })
        .await
    }
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

#[cfg(test)]
mod tests {
    use super::exit_code;

    #[test]
    fn a_signal_s_exit_code_is_128_and_its_number() {
        assert_eq!((exit_code(15), exit_code(2)), (143, 130));
    }
}
