//! Rules as data.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// The number that the kernel gives the loopback interface of every network namespace.
pub const LOOPBACK: u32 = 1;
/// The protocol's number.
pub const ICMP: u8 = 1;
/// The protocol's number.
pub const TCP: u8 = 6;
/// The protocol's number.
pub const UDP: u8 = 17;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It does not leave.
    Drop,
    /// It leaves.
    Accept,
    /// The next rule decides; the packet is reported, once a second at most, and packets that come
    /// sooner are not counted.
    Report {
        /// Whom it is reported to: see [`Reports`](crate::Reports).
        group: u16,
        /// How much of it, in bytes.
        bytes: u32,
    },
}

/// Something that holds for a packet or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// It is no IPv4 packet.
    OtherFamily,
    /// It leaves through the interface with this number.
    Through(u32),
    /// It goes to an address of this network. Only where the family is IPv4.
    To(Ipv4Net),
    /// It has this protocol.
    Protocol(u8),
    /// It goes to this port. Only where the protocol is TCP or UDP.
    Port(u16),
    /// Four bytes of its protocol's header are these. Only where the protocol is known.
    Header {
        /// Where in the header.
        offset: u32,
        /// The bits that are compared.
        mask: [u8; 4],
        /// What they are.
        value: [u8; 4],
    },
}

/// What becomes of a packet for which all conditions hold, and no earlier rule has decided about
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// None holds for every packet.
    pub conditions: Vec<Condition>,
    /// What becomes of it.
    pub verdict: Verdict,
}

impl Rule {
    /// Lets packets leave.
    pub fn accept(conditions: impl Into<Vec<Condition>>) -> Self {
        Self { conditions: conditions.into(), verdict: Verdict::Accept }
    }

    /// Reports packets to `group`, so many bytes of each.
    pub fn report(conditions: impl Into<Vec<Condition>>, group: u16, bytes: u32) -> Self {
        Self { conditions: conditions.into(), verdict: Verdict::Report { group, bytes } }
    }

    /// Keeps packets from leaving.
    pub fn drop(conditions: impl Into<Vec<Condition>>) -> Self {
        Self { conditions: conditions.into(), verdict: Verdict::Drop }
    }
}

impl Condition {
    /// It goes to `address`. Only where the family is IPv4.
    #[must_use]
    pub fn to_host(address: Ipv4Addr) -> Self {
        Self::To(Ipv4Net::from(address))
    }
}
