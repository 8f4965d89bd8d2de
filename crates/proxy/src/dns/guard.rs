//! Decides which addresses the proxy connects to: public ones, and those that the operator allowed.
//!
//! The gate decides by name; this guard keeps an allowed name from leading into the host's own
//! network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// IPv4 networks that are not public (IANA's special-purpose registry, and multicast).
pub(crate) const REFUSED_V4: [Ipv4Net; 15] = [
    v4([0, 0, 0, 0], 8),       // this network; 0.0.0.0 is unspecified
    v4([10, 0, 0, 0], 8),      // private
    v4([100, 64, 0, 0], 10),   // carrier-grade NAT
    v4([127, 0, 0, 0], 8),     // loopback
    v4([169, 254, 0, 0], 16),  // link-local, with the metadata service of clouds
    v4([172, 16, 0, 0], 12),   // private
    v4([192, 0, 0, 0], 24),    // protocol assignments
    v4([192, 0, 2, 0], 24),    // documentation
    v4([192, 88, 99, 0], 24),  // 6to4 relays
    v4([192, 168, 0, 0], 16),  // private
    v4([198, 18, 0, 0], 15),   // benchmarking
    v4([198, 51, 100, 0], 24), // documentation
    v4([203, 0, 113, 0], 24),  // documentation
    v4([224, 0, 0, 0], 4),     // multicast
    v4([240, 0, 0, 0], 4),     // reserved, with the broadcast address
];

/// The only public IPv6 network: global unicast.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The parts of it that are not public, in addition to [`GATEWAYS_V6`].
const REFUSED_V6: [Ipv6Net; 3] = [
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), // protocol assignments: Teredo, benchmarking, ORCHID
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), // documentation
];

/// IPv6 networks that lead to any IPv4 address through an unknown gateway: no exception opens them.
const GATEWAYS_V6: [Ipv6Net; 3] = [
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), // NAT64
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), // NAT64, local use
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),    // 6to4
];

/// IPv6 networks whose last four bytes are the IPv4 address that is reached.
const EMBEDDED_V4: [Ipv6Net; 2] = [
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), // IPv4-mapped
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), // IPv4-translated
];

/// Judges addresses.
#[derive(Debug)]
pub(crate) struct AddressGuard {
    allow: Vec<IpNet>,
    own: Vec<IpAddr>,
}

impl AddressGuard {
    /// A guard that permits public addresses and those in `allow`, but never one in `own`: a proxy
    /// that connects to itself would do so until its connections are used up.
    pub(crate) fn new(allow: Vec<IpNet>, own: Vec<IpAddr>) -> Self {
        Self { allow, own: own.into_iter().map(reached).collect() }
    }

    /// Whether the proxy may connect to `address`.
    pub(crate) fn permits(&self, address: IpAddr) -> bool {
        if self.is_own(address) || is_gateway(address) {
            return false;
        }
        let address = reached(address);
        is_public(address) || self.allow.iter().any(|net| net.contains(&address))
    }

    /// Whether `address` is the proxy's or its machine's: no allowed network opens it.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        let address = reached(address);
        self.own.contains(&address) || address.is_unspecified()
    }
}

/// The address that a connection to `address` would reach.
fn reached(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if EMBEDDED_V4.iter().any(|net| net.contains(&v6)) => {
            let [.., a, b, c, d] = v6.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        other => other,
    }
}

fn is_gateway(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if GATEWAYS_V6.iter().any(|net| net.contains(&v6)))
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !REFUSED_V4.iter().any(|net| net.contains(&v4)),
        IpAddr::V6(v6) => GLOBAL_V6.contains(&v6) && !REFUSED_V6.iter().any(|net| net.contains(&v6)),
    }
}

const fn v4(octets: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::from_octets(octets), prefix)
}

const fn v6(segments: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::from_segments(segments), prefix)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn guard(allow: &[&str], own: &[&str]) -> AddressGuard {
        let allow = allow.iter().map(|net| net.parse().unwrap()).collect();
        AddressGuard::new(allow, own.iter().map(|address| address.parse().unwrap()).collect())
    }

    #[test]
    fn edges_of_every_refused_network_are_exact() {
        // The address before the network, its first and its last one, and the one after it; `-` if
        // that neighbour is refused for another reason.
        let cases = [
            ("-", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
            ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
            ("100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
            ("126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
            ("169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"),
            ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
            ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
            ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
            ("192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"),
            ("192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
            ("198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
            ("198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"),
            ("203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"),
            ("223.255.255.255", "224.0.0.0", "239.255.255.255", "-"),
            ("-", "240.0.0.0", "255.255.255.255", "-"),
            // Everything outside of global unicast.
            ("-", "::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"),
            ("3fff:1000::", "4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "-"),
            (
                "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "2001::",
                "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
                "2001:200::",
            ),
            ("2001:db7:ffff::", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"),
            ("2001:ffff:ffff::", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"),
            ("3ffe:ffff::", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
        ];
        let guard = guard(&[], &[]);
        for (before, first, last, behind) in cases {
            for (address, expected) in [(before, true), (first, false), (last, false), (behind, true)] {
                if address != "-" {
                    assert_eq!(guard.permits(address.parse().unwrap()), expected, "{address}");
                }
            }
        }
    }

    #[test]
    fn reserved_addresses_are_refused() {
        let refused = [
            "169.254.169.254",
            "127.0.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::8.8.8.8",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "2002:808:808::1",
            "2002:a00:1::1",
            "2001::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fdff::1",
            "ff02::1",
            "100::1",
            "5f00::1",
        ];
        let guard = guard(&[], &[]);
        for address in refused {
            assert!(!guard.permits(address.parse().unwrap()), "{address}");
        }
        for address in
            ["8.8.8.8", "::ffff:8.8.8.8", "::ffff:0:8.8.8.8", "2606:4700::1111", "2a00:1450:4001::200e"]
        {
            assert!(guard.permits(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn exceptions_open_networks_but_never_the_proxy() {
        let guard = guard(&["10.20.0.0/16", "fd00::/8", "::/0"], &["10.20.0.5", "1.2.3.4", "2606:4700::5"]);
        let cases = [
            ("10.20.1.1", true),
            ("::ffff:10.20.1.1", true),
            ("10.21.0.0", false),
            ("::ffff:10.21.0.0", false),
            ("fd00::1", true),
            ("10.20.0.5", false),
            ("::ffff:10.20.0.5", false),
            ("1.2.3.4", false),
            ("2606:4700::5", false),
            ("::", false),
            ("64:ff9b::a14:101", false),
            ("2002:a14:101::1", false),
        ];
        for (address, expected) in cases {
            assert_eq!(guard.permits(address.parse().unwrap()), expected, "{address}");
        }
    }

    proptest! {
        #[test]
        fn embedded_address_is_judged_like_the_address_itself(bits: u32, allow: u32, prefix in 0_u8..=32) {
            let allowed = Ipv4Net::new(Ipv4Addr::from(allow), prefix).unwrap();
            let guard = AddressGuard::new(vec![IpNet::V4(allowed)], Vec::new());
            let address = Ipv4Addr::from(bits);
            let [a, b] = [bits >> 16, bits & 0xffff].map(|half| u16::try_from(half).unwrap());
            let expected = guard.permits(IpAddr::V4(address));
            prop_assert_eq!(guard.permits(IpAddr::V6(address.to_ipv6_mapped())), expected);
            let translated = Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, a, b);
            prop_assert_eq!(guard.permits(IpAddr::V6(translated)), expected);
            for gateway in [Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b), Ipv6Addr::new(0x2002, a, b, 0, 0, 0, 0, 1)] {
                prop_assert!(!guard.permits(IpAddr::V6(gateway)));
            }
        }
    }
}
