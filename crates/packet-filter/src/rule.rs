//! Rules as data.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// The kernel's number of the loopback interface in every network namespace.
pub const LOOPBACK: u32 = 1;
/// The protocol's number.
pub const ICMP: u8 = 1;
/// The protocol's number.
pub const TCP: u8 = 6;
/// The protocol's number.
pub const UDP: u8 = 17;

/// The decision about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is dropped.
    Drop,
    /// It is sent.
    Accept,
    /// The next rule decides; the packet is reported, at most once a second, and sooner ones are
    /// not counted.
    Report {
        /// The receiver's group: see [`Reports`](crate::Reports).
        group: u16,
        /// Maximum number of reported bytes.
        bytes: u32,
    },
}

/// A condition on a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// It is not an IPv4 packet.
    OtherFamily,
    /// It leaves through the interface with this number.
    Through(u32),
    /// It goes to an address of this network. Requires an IPv4 packet.
    To(Ipv4Net),
    /// It has this protocol.
    Protocol(u8),
    /// It goes to this port. Requires TCP or UDP.
    Port(u16),
    /// Four bytes of its protocol's header match. Requires a condition on the protocol.
    Header {
        /// Offset in the header.
        offset: u32,
        /// The bits that are compared.
        mask: [u8; 4],
        /// Their value.
        value: [u8; 4],
    },
}

/// The decision about packets that meet all conditions, and that no earlier rule has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// An empty list matches every packet.
    pub conditions: Vec<Condition>,
    /// The decision.
    pub verdict: Verdict,
}

impl Rule {
    /// Lets packets pass.
    pub fn accept(conditions: impl Into<Vec<Condition>>) -> Self {
        Self { conditions: conditions.into(), verdict: Verdict::Accept }
    }

    /// Reports packets to `group`, at most `bytes` of each.
    pub fn report(conditions: impl Into<Vec<Condition>>, group: u16, bytes: u32) -> Self {
        Self { conditions: conditions.into(), verdict: Verdict::Report { group, bytes } }
    }

    /// Drops packets.
    pub fn drop(conditions: impl Into<Vec<Condition>>) -> Self {
        Self { conditions: conditions.into(), verdict: Verdict::Drop }
    }
}

impl Condition {
    /// It goes to `address`. Requires an IPv4 packet.
    #[must_use]
    pub fn to_host(address: Ipv4Addr) -> Self {
        Self::To(Ipv4Net::from(address))
    }
}
