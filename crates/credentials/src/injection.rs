//! Where a masked secret may be put into a request, and how strictly.

use allowlist::{Glob, HostPattern};

use crate::HeaderPattern;

/// Where the real value of a masked secret goes, and nowhere else. By default that is nowhere at
/// all: without scopes and headers, [`prepare_secrets`](crate::prepare_secrets) refuses it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injection {
    /// The hosts that get it.
    pub scopes: Vec<HostPattern>,
    /// The headers that carry it. A header that is named exactly and carries none of the task's
    /// secrets is removed from requests to these hosts.
    pub headers: Vec<HeaderPattern>,
    /// In `Basic` credentials, what the other half of the pair must look like: the user where the
    /// secret is the password, and the reverse. It keeps a container from putting a key of its own
    /// there. Default anything; a pattern without text lets nothing stand there.
    pub basic_user: Option<Glob>,
    /// Whether a header in which nothing was replaced may travel. Default not: it is another
    /// party's credential. Of several entries that concern one header, signing credentials among
    /// them, each has to allow it.
    pub allow_foreign_credentials: bool,
    /// Whether it may be sent over plain HTTP. Default not.
    pub allow_plaintext: bool,
    /// Whether a response may bring the real value back into the container. Default not: it is
    /// replaced by its surrogate.
    pub allow_echo: bool,
}
