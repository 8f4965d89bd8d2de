//! The part of an object's name that identifies one execution.

use std::fmt;

use rand::RngExt as _;

/// Derived from the execution context id, safe for the engine, and different for each execution:
/// objects left by one are never mistaken for those of the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectId(String);

impl ObjectId {
    /// The length of the context id that is used: names stay readable, and short enough for a host
    /// name (63 characters).
    const KEPT: usize = 24;

    pub(crate) fn random(context: &str) -> Self {
        Self::with_suffix(context, rand::rng().random())
    }

    fn with_suffix(context: &str, suffix: u32) -> Self {
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }
        };
        let kept: String = context.chars().take(Self::KEPT).map(safe).collect();
        let kept = kept.trim_matches('-');
        let kept = if kept.is_empty() { "context" } else { kept };
        Self(format!("{kept}-{suffix:08x}"))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_any_context_is_accepted_by_the_engine() {
        for (context, expected) in [
            ("conversation-42", "conversation-42-0000000a"),
            ("Ünïcode / ../x", "n-code------x-0000000a"),
            ("///", "context-0000000a"),
            ("a-very-long-context-id-that-goes-on", "a-very-long-context-id-t-0000000a"),
        ] {
            assert_eq!(ObjectId::with_suffix(context, 10).to_string(), expected);
        }
    }
}
