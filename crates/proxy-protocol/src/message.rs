//! What goes over the channel after the start document.

use allowlist::Allowlist;
use sandbox_credentials::wire::ReplacementMap;
use serde::{Deserialize, Serialize};

use crate::{Record, Traffic, Verdict};

/// A line from the proxy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "nearly all messages are records, and none is kept")]
pub enum ProxyMessage {
    /// Every socket is bound and the policy is in force.
    Ready {
        /// [`crate::PROTOCOL_VERSION`] of the proxy.
        protocol: u32,
        /// Why the kernel does not hold the proxy to its [`Reach`](crate::Reach). `None`: it does.
        unconfined: Option<String>,
    },
    /// Something happened.
    Record(Record),
    /// The answer to [`Command::Report`].
    Traffic(Traffic),
    /// The proxy cannot serve and ends.
    Failed {
        /// What failed, in one sentence, free of secrets.
        reason: String,
    },
}

/// A line to the proxy, after [`ProxyMessage::Ready`]. Of `SetPolicy`, `SetReplacements`,
/// `Quarantine`, `Down` and `Up`, each is answered with one
/// [`Event::Policy`](crate::Event::Policy), in their order, once it is in force. Its line may hold
/// secrets: see [`to_secret_line`](crate::to_secret_line).
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// A new policy, in force from the next request on, or once the shield is up again.
    SetPolicy {
        /// What the task may reach from now on.
        policy: Allowlist,
    },
    /// What takes the place of surrogates from the next request on. Answers are still searched for
    /// the values of before.
    SetReplacements {
        /// All of them, those that did not change too.
        replacements: ReplacementMap,
    },
    /// From now on every request is refused, whatever the policy says; connections are closed.
    Quarantine {},
    /// From the next request on, any public host may be asked, whatever the policy says; everything
    /// else that a request is checked for stays. The proxy itself ends that. A new one takes the
    /// place of the last.
    Down {
        /// For how long. At most [`crate::LONGEST_DOWN_MS`] count.
        for_ms: u64,
    },
    /// From the next request on, the policy alone decides again.
    Up {},
    /// The answer to an [`Event::Asked`](crate::Event::Asked); one to a question that is over
    /// changes nothing about it.
    Answer {
        /// Which.
        question: u64,
        /// What is to become of the request.
        verdict: Verdict,
        /// Who says so, for the log.
        by: String,
        /// With [`Verdict::Always`]: a policy to set in the same step, as by `SetPolicy`. Default
        /// none.
        #[serde(default)]
        policy: Option<Allowlist>,
    },
    /// The proxy is to report what was used so far, in a [`ProxyMessage::Traffic`]; it is on record
    /// before where the policy has a budget.
    Report {},
    /// The owner lives and reads records.
    Alive {},
    /// The proxy is to let requests in progress end for [`crate::Limits::drain_ms`], and then to
    /// end. The end of its input ends it at once.
    Drain {},
}
