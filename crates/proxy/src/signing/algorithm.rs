//! The two signature algorithms of AWS.

/// How a signature is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// With a key shared with AWS, for one region.
    V4,
    /// With a key pair, for a set of regions.
    V4a,
}

impl Algorithm {
    /// The algorithm with this name, in any case.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::V4, Self::V4a].into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V4 => "AWS4-HMAC-SHA256",
            Self::V4a => "AWS4-ECDSA-P256-SHA256",
        }
    }
}
