//! The review of a body as a decision that waits for it.

use super::endpoint::Api;
use super::review::Reviewed;
use super::review::review;
use crate::denial::Denial;
use crate::policy::Allowlist;
use crate::vendor_tools::VendorTool;

/// Decides about a request to a vendor's API when all of its body is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VendorCheck {
    api: Api,
    policy: Allowlist,
}

impl VendorCheck {
    pub(crate) fn new(api: Api, policy: Allowlist) -> Self {
        Self { api, policy }
    }

    /// What the decision depends on.
    pub(crate) fn condition(&self) -> String {
        format!("of the tools that the model's vendor runs: {}", self.policy.vendor_tools())
    }

    /// What to send instead of `body`, if anything, and what is not in it any more.
    pub(crate) fn decide(&self, body: &[u8]) -> Result<(Option<Vec<u8>>, Vec<VendorTool>), Denial> {
        let Reviewed { body, removed } = review(body, self.api, &self.policy)?;
        Ok((body, removed))
    }
}
