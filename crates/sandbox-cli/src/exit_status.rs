//! The exit codes of the `sandbox` command.

use std::process::ExitCode;

use crate::interrupt::Interrupt;

/// The exit status of the `sandbox` command.
///
/// | Code | Meaning |
/// |---|---|
/// | the command's own | `run`, `exec`: the command ended by itself; `attach`, `wait`, `agent --each`: the code of the run |
/// | 0 | done |
/// | 1 | `agent`: any outcome but success, a busy or an unavailable API; `allowlist check`: a request is blocked; `allowlist lint`: there are warnings; `allowlist allow`: `deny` still forbids it, in whole or in part; `allowlist simulate`: a verdict changes; `allowlist diff`: the policies differ; `doctor`: a check fails; `verify`: a guarantee does not hold |
/// | 2 | wrong usage; `allowlist check`: an invalid line |
/// | 3 | `allowlist diff`: no difference was found, but some rules are not decided |
/// | 75 | `agent`, `run --bundle`: the API was busy or unavailable; try again later |
/// | 124 | the time limit ended it |
/// | 125 | the sandbox, its configuration or its engine failed |
/// | 126 | the program in the image cannot be executed |
/// | 127 | the program is not in the image |
/// | 129, 130, 143 | stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM; 143 also by `sandbox stop` |
/// | 141 | the reader of our stdout is gone, so the command was stopped, or output was lost |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// Done.
    Success,
    /// Done, with a negative result.
    Negative,
    /// The command line, or a line of input, is invalid.
    Usage,
    /// The agent's API asked to slow down, or was unavailable.
    TryLater,
    /// The time limit ended the command.
    Timeout,
    /// The sandbox, its configuration or its engine failed.
    Infrastructure,
    /// The program cannot be executed.
    NotExecutable,
    /// The image lacks the program.
    NotFound,
    /// A signal to us stopped it.
    Interrupted(Interrupt),
    /// The reader of our output is gone.
    OutputClosed,
    /// The command's own code.
    Command(u8),
}

impl ExitStatus {
    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::TryLater => 75,
            Self::Timeout => 124,
            Self::Infrastructure => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Interrupted(interrupt) => interrupt.exit_code(),
            Self::OutputClosed => 141,
            Self::Command(code) => code,
        }
    }

    /// The status for a command's code; an impossible code is an error of the sandbox.
    pub(crate) fn of_command(code: i64) -> Self {
        u8::try_from(code).map_or(Self::Infrastructure, Self::Command)
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_match_the_documentation() {
        for (status, code) in [
            (ExitStatus::Success, 0),
            (ExitStatus::Negative, 1),
            (ExitStatus::Usage, 2),
            (ExitStatus::TryLater, 75),
            (ExitStatus::Timeout, 124),
            (ExitStatus::Infrastructure, 125),
            (ExitStatus::NotExecutable, 126),
            (ExitStatus::NotFound, 127),
            (ExitStatus::Interrupted(Interrupt::HangUp), 129),
            (ExitStatus::Interrupted(Interrupt::KeyPress), 130),
            (ExitStatus::Interrupted(Interrupt::Terminate), 143),
            (ExitStatus::OutputClosed, 141),
            (ExitStatus::of_command(0), 0),
            (ExitStatus::of_command(77), 77),
            (ExitStatus::of_command(255), 255),
            (ExitStatus::of_command(256), 125),
            (ExitStatus::of_command(-1), 125),
        ] {
            assert_eq!(status.code(), code, "{status:?}");
        }
    }
}
