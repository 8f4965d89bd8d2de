//! The amount of network use that a policy permits to one task.

use serde::{Deserialize, Serialize};

use crate::byte_size;

/// The key `budget` of a policy: limits on one execution's use of allowed hosts. Once a part of it
/// is used up, every further request is refused. The default has no limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a mapping such as {requests: 1000, sent: 100m}")]
#[non_exhaustive]
pub struct Budget {
    /// Requests that are permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Bytes of request bodies. A body that exceeds them is cut off.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "byte_size::deserialize")]
    pub sent: Option<u64>,
    /// Bytes of response bodies. A body that exceeds them is cut off.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "byte_size::deserialize")]
    pub received: Option<u64>,
    /// Input tokens of models, cached or not, as reported by their vendor. The response that
    /// reports them is still passed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Output tokens of models, as reported by their vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
}

impl Budget {
    /// The lower limit of each kind.
    pub(crate) fn lowest(self, other: Self) -> Self {
        let lower = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        Self {
            requests: lower(self.requests, other.requests),
            sent: lower(self.sent, other.sent),
            received: lower(self.received, other.received),
            input_tokens: lower(self.input_tokens, other.input_tokens),
            output_tokens: lower(self.output_tokens, other.output_tokens),
        }
    }

    /// Whether responses must be read for reported tokens.
    #[must_use]
    pub fn bounds_tokens(&self) -> bool {
        self.input_tokens.is_some() || self.output_tokens.is_some()
    }
}
