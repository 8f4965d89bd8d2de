//! What becomes of one request, decided from its head.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use allowlist::HostName;
use http::{HeaderMap, HeaderName};
use sandbox_proxy_protocol::Scheme;

use crate::scrub::Needles;
use crate::signing::{ChunkSigner, Pending};

/// A permitted request, as it would go out.
pub(crate) struct Wire<'a> {
    /// How it arrived, which is how it goes on.
    pub(crate) scheme: Scheme,
    /// Whom it is for.
    pub(crate) host: &'a HostName,
    /// Its method.
    pub(crate) method: &'a str,
    /// Path and query.
    pub(crate) target: &'a str,
    /// Its headers, without those that concern the client's connection only.
    pub(crate) headers: HeaderMap,
    /// The time of the proxy, to see that the client's is right.
    pub(crate) now: SystemTime,
}

/// What goes out instead.
pub(crate) struct Plan {
    /// The headers. Empty where they are known only when the body is: see [`BodyPlan::Hash`].
    pub(crate) headers: HeaderMap,
    /// Path and query, where they changed: the path never does.
    pub(crate) target: Option<String>,
    /// What happens to the body.
    pub(crate) body: BodyPlan,
    /// Surrogates that were replaced, a recomputed signature included.
    pub(crate) masked: u32,
    /// Header lines, cookies and signatures that were removed.
    pub(crate) dropped: u32,
    /// What the request was signed for.
    pub(crate) region: Option<String>,
    /// What the answer must not bring back.
    pub(crate) scrub: Option<Arc<Needles>>,
    /// What no trailer may be called.
    pub(crate) no_trailers: Vec<HeaderName>,
    /// What the operator wants to know.
    pub(crate) warnings: Vec<String>,
}

/// What happens to a request's body.
pub(crate) enum BodyPlan {
    /// Nothing.
    Pass,
    /// It is read to its end: the signature needs its hash.
    Hash(Box<Pending>),
    /// Each of its chunks is signed again as it passes.
    Chunks(Box<ChunkSigner>),
}

impl Plan {
    /// A request that stays as it is.
    pub(super) fn untouched(headers: HeaderMap) -> Self {
        Self {
            headers,
            target: None,
            body: BodyPlan::Pass,
            masked: 0,
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
