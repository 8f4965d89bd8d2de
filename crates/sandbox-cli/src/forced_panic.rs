//! The worst possible panic, for tests: its message contains the environment, and with it the real
//! values. A signal triggers it.

use tokio::signal::unix::{SignalKind, signal};

/// Does `work`, and panics meanwhile on SIGUSR1; on SIGUSR2, with Rust's default hook.
#[expect(clippy::panic, clippy::expect_used, reason = "its purpose")]
pub(crate) async fn unless_asked<T>(work: impl Future<Output = T>) -> T {
    let mut ours = signal(SignalKind::user_defined1()).expect("a signal");
    let mut usual = signal(SignalKind::user_defined2()).expect("a signal");
    tokio::select! {
        result = work => return result,
        _ = ours.recv() => {}
        _ = usual.recv() => drop(std::panic::take_hook()),
    }
    panic!("forced: {:?}", std::env::vars_os());
}
