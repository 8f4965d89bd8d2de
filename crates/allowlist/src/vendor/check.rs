//! The review of a body, once it is complete.

use super::endpoint::Api;
use super::review::Reviewed;
use super::review::review;
use crate::denial::Denial;
use crate::policy::Allowlist;
use crate::vendor_tools::VendorTool;

/// Decides about a request to a vendor's API once its body is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VendorCheck {
    api: Api,
    policy: Allowlist,
}

impl VendorCheck {
    pub(crate) fn new(api: Api, policy: Allowlist) -> Self {
        Self { api, policy }
    }

    /// The condition of the decision.
    pub(crate) fn condition(&self) -> String {
        format!("of the tools that the model's vendor runs: {}", self.policy.vendor_tools())
    }

    /// The replacement of `body`, if any, and the tools that were removed from it.
    pub(crate) fn decide(&self, body: &[u8]) -> Result<(Option<Vec<u8>>, Vec<VendorTool>), Denial> {
        let Reviewed { body, removed } = review(body, self.api, &self.policy)?;
        Ok((body, removed))
    }
}
