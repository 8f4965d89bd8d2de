//! The worst panic there could be: its message shows the environment, in which the real values
//! came. A signal asks for it.

use tokio::signal::unix::{SignalKind, signal};

/// Does `work`, and panics in the midst of it when SIGUSR1 comes; when SIGUSR2 does, with the hook
/// of Rust's own.
#[expect(clippy::panic, clippy::expect_used, reason = "what this is for")]
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
