//! Signals that ask us to stop.

use std::fs;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that asks us to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// SIGHUP: the terminal is gone.
    HangUp,
    /// SIGINT: Ctrl-C.
    KeyPress,
    /// SIGTERM.
    Terminate,
}

impl Interrupt {
    const ALL: [Self; 3] = [Self::HangUp, Self::KeyPress, Self::Terminate];

    /// 128 plus the signal's number, as in a shell.
    pub(crate) fn exit_code(self) -> u8 {
        128 + self.number()
    }

    fn number(self) -> u8 {
        match self {
            Self::HangUp => 1,
            Self::KeyPress => 2,
            Self::Terminate => 15,
        }
    }

    fn kind(self) -> SignalKind {
        match self {
            Self::HangUp => SignalKind::hangup(),
            Self::KeyPress => SignalKind::interrupt(),
            Self::Terminate => SignalKind::terminate(),
        }
    }
}

/// Listens for all of them.
#[derive(Debug)]
pub(crate) struct Interrupts {
    hang_up: Option<Signal>,
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

impl Interrupts {
    /// From now on these signals no longer end the process. Signals that our parent ignored
    /// (`nohup`) remain ignored.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored_mask(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let [hang_up, interrupt, terminate] = Interrupt::ALL.map(|interrupt| {
            let is_ignored = ignored & (1 << (interrupt.number() - 1)) != 0;
            (!is_ignored).then(|| signal(interrupt.kind())).transpose()
        });
        Ok(Self { hang_up: hang_up?, interrupt: interrupt?, terminate: terminate? })
    }

    /// The next signal. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Interrupt {
        tokio::select! {
            () = received(&mut self.hang_up) => Interrupt::HangUp,
            () = received(&mut self.interrupt) => Interrupt::KeyPress,
            () = received(&mut self.terminate) => Interrupt::Terminate,
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// The signals that the process ignores, one bit each.
fn ignored_mask(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_proc_status() {
        assert_eq!(ignored_mask("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!(ignored_mask("nothing"), 0);
    }
}
