//! The requests into which a masked secret may be inserted, and how strictly.

use allowlist::{Glob, HostPattern};
use serde::{Deserialize, Serialize};

use crate::HeaderPattern;

/// The only places for the real value of a masked secret. The default has none: without scopes and
/// headers, [`prepare_secrets`](crate::prepare_secrets) refuses it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Injection {
    /// The hosts that receive it.
    pub scopes: Vec<HostPattern>,
    /// The headers that carry it. A header that is named exactly and contains none of the task's
    /// secrets is removed from requests to these hosts.
    pub headers: Vec<HeaderPattern>,
    /// In `Basic` credentials, a pattern for the other half of the pair: the user if the secret is
    /// the password, and vice versa. It prevents a container from inserting its own key there. The
    /// default is anything; an empty pattern requires an empty half.
    pub basic_user: Option<Glob>,
    /// Whether a header without any replacement may be sent. Default false: it is another party's
    /// credential. If several entries, including signing credentials, concern one header, each must
    /// allow it.
    pub allow_foreign_credentials: bool,
    /// Whether it may be sent over plain HTTP. Default false.
    pub allow_plaintext: bool,
    /// Whether a response may reveal the real value to the container. Default false: it is replaced
    /// with its surrogate.
    pub allow_echo: bool,
}
