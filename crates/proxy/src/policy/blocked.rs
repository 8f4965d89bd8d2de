//! The reason why a request is blocked, as a message for its client.

use std::fmt::Display;

use allowlist::{Denial, HostName, PushReport, Reason};
use sandbox_proxy_protocol::BlockReason;

/// The file that a message asks its reader to change.
const ALLOWLIST: &str = ".sandbox/network-allowlist.yaml";

/// The reason why a request is blocked, and the change that would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocked {
    reason: BlockReason,
    message: String,
    push: Option<PushReport>,
}

impl Blocked {
    /// `message` must be one sentence without details of the machine.
    pub(crate) fn new(reason: impl Into<BlockReason>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), push: None }
    }

    /// The reason, for programs.
    pub(crate) fn reason(&self) -> BlockReason {
        self.reason
    }

    /// One sentence with the fix, for people and agents.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The answer to git's client, if a push is refused because of a ref.
    pub(crate) fn push_report(&self) -> Option<&PushReport> {
        self.push.as_ref()
    }

    /// The same refusal, with the reason why no answer of the operator changed it.
    pub(crate) fn because(&self, why: impl Display) -> Self {
        Self { message: format!("{} ({why})", self.message), ..self.clone() }
    }

    /// SNI, `:authority`, Host and target do not all name the same host.
    pub(crate) fn identity_mismatch() -> Self {
        Self::new(
            BlockReason::IdentityMismatch,
            "the request names a host other than the one its connection was made for: open a connection of its own \
             for each host, with the same name in SNI, Host and URL",
        )
    }

    /// The host is this machine, which an allowed network does not open.
    pub(crate) fn own_address(host: &HostName) -> Self {
        Self::new(
            Reason::Address,
            format!(
                "{host} resolves to the machine that the sandbox runs on, which a network in `upstream.allow_addresses` does not open: to \
                 allow one of its services, add it to `services` in .sandbox/sandbox.yaml"
            ),
        )
    }

    /// The host resolves only to addresses that are refused.
    pub(crate) fn address(host: &HostName) -> Self {
        Self::new(
            Reason::Address,
            format!(
                "{host} resolves to a private or reserved address: to allow it, add its network to `upstream.allow_addresses` \
                 in .sandbox/sandbox.yaml"
            ),
        )
    }
}

impl From<Denial> for Blocked {
    fn from(denial: Denial) -> Self {
        let push = denial.push_report().cloned();
        Self { push, ..Self::new(denial.reason(), denial.message_naming(ALLOWLIST)) }
    }
}

#[cfg(test)]
mod tests {
    use allowlist::{Allowlist, Decision};

    use super::*;

    #[test]
    fn denial_names_the_file_to_change() {
        let Decision::Deny(denial) = Allowlist::default().judge("GET", "https://a.example/x") else {
            panic!("an empty policy allows something");
        };
        let blocked = Blocked::from(denial);
        assert_eq!(blocked.reason(), Reason::Host.into());
        assert_eq!(
            blocked.message(),
            "a.example is not allowed: to allow it, add \"a.example\" to `domains` in .sandbox/network-allowlist.yaml, or \
             for this path only {host: \"a.example\", path: \"/x\"} to `url_prefixes`"
        );
    }
}
