//! Reasons why requests are blocked.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason why a request was blocked: by the policy, or before its evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlockReason {
    /// SNI, `:authority`, Host and target name different hosts.
    IdentityMismatch,
    /// The framing of the message is ambiguous.
    Framing,
    /// The request head is larger than the limit.
    HeadTooLarge,
    /// The request did not arrive in time.
    Timeout,
    /// A limit of [`crate::Limits`] is reached, or requests cannot be recorded.
    Limit,
    /// The task is cut off from the network.
    Quarantine,
    /// The policy's budget is used up.
    Budget,
    /// The policy's own reason.
    #[serde(untagged)]
    Policy(allowlist::Reason),
}

impl BlockReason {
    /// The name of the reason in headers, records and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IdentityMismatch => "identity_mismatch",
            Self::Framing => "framing",
            Self::HeadTooLarge => "head_too_large",
            Self::Timeout => "timeout",
            Self::Limit => "limit",
            Self::Quarantine => "quarantine",
            Self::Budget => "budget",
            Self::Policy(reason) => reason.as_str(),
        }
    }
}

impl fmt::Display for BlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<allowlist::Reason> for BlockReason {
    fn from(reason: allowlist::Reason) -> Self {
        Self::Policy(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_has_one_name() {
        for (reason, name) in [
            (BlockReason::IdentityMismatch, "identity_mismatch"),
            (BlockReason::Framing, "framing"),
            (BlockReason::HeadTooLarge, "head_too_large"),
            (BlockReason::Timeout, "timeout"),
            (BlockReason::Limit, "limit"),
            (BlockReason::Quarantine, "quarantine"),
            (BlockReason::Budget, "budget"),
            (allowlist::Reason::PathNotAllowed.into(), "path_not_allowed"),
        ] {
            assert_eq!(reason.as_str(), name);
            assert_eq!(serde_json::to_value(reason).unwrap(), name);
            assert_eq!(serde_json::from_value::<BlockReason>(name.into()).unwrap(), reason);
        }
        assert!(serde_json::from_str::<BlockReason>("\"no_such_reason\"").is_err());
    }
}
