//! Messages on the channel after the start document.

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
        /// The reason why the kernel does not enforce the proxy's [`Reach`](crate::Reach). `None`
        /// if it does.
        unconfined: Option<String>,
    },
    /// An event.
    Record(Record),
    /// The answer to [`Command::Report`].
    Traffic(Traffic),
    /// The proxy cannot serve and exits.
    Failed {
        /// The failure, in one sentence without secrets.
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
        /// The new policy.
        policy: Allowlist,
    },
    /// The replacements of surrogates from the next request on. Responses are still searched for
    /// the previous values.
    SetReplacements {
        /// All replacements, including unchanged ones.
        replacements: ReplacementMap,
    },
    /// From now on every request is refused, regardless of the policy; connections are closed.
    Quarantine {},
    /// From the next request on, any public host may be reached, regardless of the policy; all
    /// other checks remain. The proxy ends this state itself. A new command replaces the last.
    Down {
        /// The duration, limited to [`crate::LONGEST_DOWN_MS`].
        for_ms: u64,
    },
    /// From the next request on, the policy alone decides again.
    Up {},
    /// The answer to an [`Event::Asked`](crate::Event::Asked); ignored if the question is closed.
    Answer {
        /// The question's number.
        question: u64,
        /// The decision about the request.
        verdict: Verdict,
        /// The source of the answer, for the log.
        by: String,
        /// With [`Verdict::Run`] and [`Verdict::Always`]: a policy to set in the same step, as by
        /// `SetPolicy`. Default none.
        #[serde(default)]
        policy: Option<Allowlist>,
    },
    /// Requests a report of the usage so far, in a [`ProxyMessage::Traffic`]; if the policy has a
    /// budget, the usage is recorded first.
    Report {},
    /// The owner is alive and reads records.
    Alive {},
    /// Lets requests in progress finish for [`crate::Limits::drain_ms`], then ends the proxy. The
    /// end of its input ends it at once.
    Drain {},
}
