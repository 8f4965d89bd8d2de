//! How much of the network a policy lets one task use.

use serde::{Deserialize, Serialize};

use crate::byte_size;

/// The key `budget` of a policy: what one execution may use of what the policy allows. Once a part
/// of it is used up, every further request is refused. The default bounds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a mapping such as {requests: 1000, sent: 100m}")]
#[non_exhaustive]
pub struct Budget {
    /// Requests that are permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Bytes of the bodies of requests. A body is broken off where it exceeds them.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "byte_size::deserialize")]
    pub sent: Option<u64>,
    /// Bytes of the bodies of responses. A body is broken off where it exceeds them.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "byte_size::deserialize")]
    pub received: Option<u64>,
    /// Tokens that models read, from a cache or not, as their vendor reports it. The response that
    /// reports them is still passed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens that models wrote, as their vendor reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
}

impl Budget {
    /// Whether responses have to be read for what they report.
    #[must_use]
    pub fn bounds_tokens(&self) -> bool {
        self.input_tokens.is_some() || self.output_tokens.is_some()
    }
}
