//! The signal that asks a process to end.

/// The signal that asks the first process to end, before it is killed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum StopSignal {
    /// SIGTERM.
    #[default]
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
    /// SIGHUP.
    Hup,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
    /// SIGKILL: ends the process without asking.
    Kill,
}

impl StopSignal {
    /// Its name, without `SIG`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Int => "INT",
            Self::Quit => "QUIT",
            Self::Hup => "HUP",
            Self::Usr1 => "USR1",
            Self::Usr2 => "USR2",
            Self::Kill => "KILL",
        }
    }

    /// Its number on Linux.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Hup => 1,
            Self::Int => 2,
            Self::Quit => 3,
            Self::Kill => 9,
            Self::Usr1 => 10,
            Self::Usr2 => 12,
            Self::Term => 15,
        }
    }
}
