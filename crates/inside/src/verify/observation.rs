//! The observation of a check.

use std::fmt::Display;
use std::io;

use nix::errno::Errno;

/// The observation of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) held: bool,
    pub(super) detail: String,
}

impl Observation {
    pub(super) fn held(detail: impl Into<String>) -> Self {
        Self { held: true, detail: detail.into() }
    }

    pub(super) fn broken(detail: impl Into<String>) -> Self {
        Self { held: false, detail: detail.into() }
    }

    /// A property that could not be observed does not hold.
    pub(super) fn unknown(what: impl Display, error: impl Display) -> Self {
        Self::broken(format!("cannot look at {what}: {error}"))
    }

    /// Holds if there are no problems.
    pub(super) fn from_problems(problems: &[String], good: impl Into<String>) -> Self {
        if problems.is_empty() { Self::held(good) } else { Self::broken(problems.join("; ")) }
    }

    /// An attempt that must end in one of `expected`: another error is not the expected refusal.
    pub(super) fn refused<T>(what: &str, attempt: nix::Result<T>, expected: &[Errno]) -> Self {
        match attempt.map(drop) {
            Ok(()) => Self::broken(format!("{what}: succeeded")),
            Err(error) if expected.contains(&error) => Self::held(format!("{what}: {error}")),
            Err(error) => Self::broken(format!("{what}: {error}, which is not a refusal")),
        }
    }

    /// All of several attempts hold.
    pub(super) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        let parts: Vec<Self> = parts.into_iter().collect();
        let shown: Vec<&str> =
            parts.iter().filter(|part| !part.held).map(|part| part.detail.as_str()).collect();
        if shown.is_empty() {
            let good: Vec<String> = parts.into_iter().map(|part| part.detail).collect();
            Self::held(good.join("; "))
        } else {
            Self::broken(shown.join("; "))
        }
    }
}

/// The kernel's number for `error`.
pub(super) fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or_default())
}

/// An operation of the standard library with the kernel's errors.
pub(super) fn kernel<T>(result: io::Result<T>) -> nix::Result<T> {
    result.map_err(|error| errno(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_expected_refusal_holds() {
        let refused = |attempt| Observation::refused("it", attempt, &[Errno::EPERM]).held;
        assert!(refused(Err(Errno::EPERM)));
        assert!(!refused(Err(Errno::ENOENT)));
        assert!(!refused(Ok(())));
    }

    #[test]
    fn first_broken_part_is_the_detail() {
        let seen =
            Observation::all([Observation::held("a"), Observation::broken("b"), Observation::held("c")]);
        assert_eq!(seen, Observation::broken("b"));
        assert_eq!(
            Observation::all([Observation::held("a"), Observation::held("c")]),
            Observation::held("a; c")
        );
    }
}
