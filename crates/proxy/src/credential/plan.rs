//! The changes to one request, decided from its head.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use allowlist::HostName;
use http::{HeaderMap, HeaderName};
use sandbox_proxy_protocol::Scheme;

use crate::scrub::Needles;
use crate::signing::{ChunkSigner, Pending};

/// A permitted request, as it would be sent.
pub(crate) struct Wire<'a> {
    /// The scheme with which it arrived, and with which it is forwarded.
    pub(crate) scheme: Scheme,
    /// The host that it is for.
    pub(crate) host: &'a HostName,
    /// Its method.
    pub(crate) method: &'a str,
    /// Path and query.
    pub(crate) target: &'a str,
    /// Its headers, without those that concern the client's connection only.
    pub(crate) headers: HeaderMap,
    /// The proxy's time, to check the client's clock.
    pub(crate) now: SystemTime,
}

/// The request that is sent instead.
pub(crate) struct Plan {
    /// The headers. Empty if they are known only once the body is: see [`BodyPlan::Hash`].
    pub(crate) headers: HeaderMap,
    /// Path and query, if they changed: the path never does.
    pub(crate) target: Option<String>,
    /// How the body is handled.
    pub(crate) body: BodyPlan,
    /// The number of surrogates that were replaced, including a recomputed signature.
    pub(crate) masked: u32,
    /// The names of these credentials, each once.
    pub(crate) credentials: Vec<String>,
    /// The number of header lines, cookies and signatures that were removed.
    pub(crate) dropped: u32,
    /// The region that the request was signed for.
    pub(crate) region: Option<String>,
    /// The values that the response must not contain.
    pub(crate) scrub: Option<Arc<Needles>>,
    /// The names that no trailer may have.
    pub(crate) no_trailers: Vec<HeaderName>,
    /// Warnings for the operator.
    pub(crate) warnings: Vec<String>,
}

/// How a request's body is handled.
pub(crate) enum BodyPlan {
    /// It is forwarded unchanged.
    Pass,
    /// It is read to its end: the signature needs its hash.
    Hash(Box<Pending>),
    /// Each of its chunks is signed again as it passes.
    Chunks(Box<ChunkSigner>),
}

impl Plan {
    /// A request that stays unchanged.
    pub(super) fn untouched(headers: HeaderMap) -> Self {
        Self {
            headers,
            target: None,
            body: BodyPlan::Pass,
            masked: 0,
            credentials: Vec::new(),
            dropped: 0,
            region: None,
            scrub: None,
            no_trailers: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({} masked, {} dropped)", self.masked, self.dropped)
    }
}
