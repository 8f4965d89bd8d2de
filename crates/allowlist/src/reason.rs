//! Reasons why requests are refused.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

/// The reason of a [`crate::Denial`], in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The method or URL is unreadable.
    Unreadable,
    /// An address is requested over TLS, where hosts have names.
    NoSni,
    /// The host is missing, or not a plain host name.
    Identity,
    /// A port other than the scheme's own.
    Port,
    /// CONNECT or TRACE.
    MethodForbidden,
    /// The path is ambiguous.
    Path,
    /// An outer policy refuses it.
    OuterPolicy,
    /// A rule of `deny` covers it.
    Denied,
    /// Host and path are allowed, with other methods.
    Method,
    /// Host and path are allowed, without the query.
    Query,
    /// The host is allowed, with other paths.
    PathNotAllowed,
    /// No rule names the host.
    Host,
    /// The host is the machine itself.
    Address,
    /// A push would update a ref that may not be pushed.
    RefNotAllowed,
    /// A push would delete a ref, or lose commits of one.
    RefLost,
    /// The body, on which the decision depends, is unreadable.
    Body,
    /// The body contains a vendor tool, or cannot be searched for one.
    VendorTool,
}

impl Reason {
    /// The reason as it appears in records and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::NoSni => "no_sni",
            Self::Identity => "identity",
            Self::Port => "port",
            Self::MethodForbidden => "method_forbidden",
            Self::Path => "path",
            Self::OuterPolicy => "outer_policy",
            Self::Denied => "denied",
            Self::Method => "method",
            Self::Query => "query",
            Self::PathNotAllowed => "path_not_allowed",
            Self::Host => "host",
            Self::Address => "address",
            Self::RefNotAllowed => "ref_not_allowed",
            Self::RefLost => "ref_lost",
            Self::Body => "body",
            Self::VendorTool => "vendor_tool",
        }
    }

    /// Whether another policy could permit the request; if not, the client must change it.
    #[must_use]
    pub fn is_the_operators(self) -> bool {
        match self {
            Self::OuterPolicy
            | Self::Denied
            | Self::Host
            | Self::PathNotAllowed
            | Self::Method
            | Self::Query
            | Self::Address
            | Self::RefNotAllowed
            | Self::RefLost
            | Self::VendorTool => true,
            Self::Unreadable
            | Self::NoSni
            | Self::Identity
            | Self::Port
            | Self::MethodForbidden
            | Self::Path
            | Self::Body => false,
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
    fn names() {
        for (reason, name) in [
            (Reason::Unreadable, "unreadable"),
            (Reason::NoSni, "no_sni"),
            (Reason::Identity, "identity"),
            (Reason::Port, "port"),
            (Reason::MethodForbidden, "method_forbidden"),
            (Reason::Path, "path"),
            (Reason::OuterPolicy, "outer_policy"),
            (Reason::Denied, "denied"),
            (Reason::Method, "method"),
            (Reason::Query, "query"),
            (Reason::PathNotAllowed, "path_not_allowed"),
            (Reason::Host, "host"),
            (Reason::Address, "address"),
            (Reason::RefNotAllowed, "ref_not_allowed"),
            (Reason::RefLost, "ref_lost"),
            (Reason::Body, "body"),
            (Reason::VendorTool, "vendor_tool"),
        ] {
            assert_eq!(reason.as_str(), name);
            assert_eq!(serde_json::to_value(reason).unwrap(), name);
            assert_eq!(serde_json::from_value::<Reason>(name.into()).unwrap(), reason);
        }
    }
}
