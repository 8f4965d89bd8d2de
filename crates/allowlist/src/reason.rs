//! Why a request is refused.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

/// The reason of a [`crate::Denial`], in the order in which requests are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The method or URL could not be read at all.
    Unreadable,
    /// A TLS client named no host.
    NoSni,
    /// The host is missing, given twice, or no plain host name.
    Identity,
    /// SNI, `:authority`, Host and target name different hosts.
    IdentityMismatch,
    /// A port other than the scheme's own.
    Port,
    /// CONNECT or TRACE.
    MethodForbidden,
    /// A path that could be read in two ways.
    Path,
    /// Host and path are allowed, with other methods.
    Method,
    /// Host and path are allowed, without the query.
    Query,
    /// The host is allowed, with other paths.
    PathNotAllowed,
    /// No rule names the host.
    Host,
    /// The host resolves only to addresses that are off limits.
    Address,
    /// The message could be delimited in two ways.
    Framing,
    /// The request head is larger than the limit.
    HeadTooLarge,
    /// The request head did not arrive in time.
    Timeout,
    /// As many requests as the limit are in progress, or they cannot be recorded.
    Limit,
    /// The task is cut off from the network.
    Quarantine,
}

impl Reason {
    /// The reason as it stands in headers, records and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::NoSni => "no_sni",
            Self::Identity => "identity",
            Self::IdentityMismatch => "identity_mismatch",
            Self::Port => "port",
            Self::MethodForbidden => "method_forbidden",
            Self::Path => "path",
            Self::Method => "method",
            Self::Query => "query",
            Self::PathNotAllowed => "path_not_allowed",
            Self::Host => "host",
            Self::Address => "address",
            Self::Framing => "framing",
            Self::HeadTooLarge => "head_too_large",
            Self::Timeout => "timeout",
            Self::Limit => "limit",
            Self::Quarantine => "quarantine",
        }
    }

    /// The status that a refused client gets; `NoSni` has none on the wire, where a TLS alert takes its place.
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::Unreadable | Self::Identity | Self::Framing => 400,
            Self::Timeout => 408,
            Self::IdentityMismatch => 421,
            Self::HeadTooLarge => 431,
            Self::Limit => 503,
            Self::NoSni
            | Self::Port
            | Self::MethodForbidden
            | Self::Path
            | Self::Method
            | Self::Query
            | Self::PathNotAllowed
            | Self::Host
            | Self::Address
            | Self::Quarantine => 403,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_statuses() {
        for (reason, name, status) in [
            (Reason::Unreadable, "unreadable", 400),
            (Reason::NoSni, "no_sni", 403),
            (Reason::Identity, "identity", 400),
            (Reason::IdentityMismatch, "identity_mismatch", 421),
            (Reason::Port, "port", 403),
            (Reason::MethodForbidden, "method_forbidden", 403),
            (Reason::Path, "path", 403),
            (Reason::Method, "method", 403),
            (Reason::Query, "query", 403),
            (Reason::PathNotAllowed, "path_not_allowed", 403),
            (Reason::Host, "host", 403),
            (Reason::Address, "address", 403),
        ] {
            assert_eq!((reason.as_str(), reason.http_status()), (name, status));
            assert_eq!(serde_json::to_value(reason).unwrap(), name);
            assert_eq!(serde_json::from_value::<Reason>(name.into()).unwrap(), reason);
        }
    }
}
