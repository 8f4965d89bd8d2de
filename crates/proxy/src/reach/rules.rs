//! Rules for outgoing packets: the first rule whose conditions all hold decides.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use sandbox_packet_filter::{Condition, ICMP, LOOPBACK, Rule, TCP, UDP};
use sandbox_proxy_protocol::Reach;

use super::interfaces::Connected;
use crate::dns::REFUSED_V4;

/// The length of an ICMP answer whose quoted packet has the longest header, up to that packet's
/// ports.
const REPORTED: u32 = 20 + 8 + 60 + 8;

/// The rules for a proxy with these networks; a packet that no rule decides does not leave. `None`
/// if the proxy's address is on none of them.
pub(super) fn of(reach: &Reach, networks: &[Connected]) -> Option<Vec<Rule>> {
    let link = networks.iter().find(|network| network.address == reach.listen)?;
    let through_link = Condition::Through(link.interface);
    let mut rules = vec![
        Rule::accept([Condition::Through(LOOPBACK)]),
        Rule::drop([Condition::OtherFamily]),
        // Answers to the task, which are most of the traffic.
        Rule::accept([through_link.clone(), Condition::To(link.network)]),
        Rule::drop([through_link]),
    ];
    if let IpAddr::V4(dns) = reach.dns.ip() {
        let to_port = |protocol| {
            Rule::accept([
                Condition::to_host(dns),
                Condition::Protocol(protocol),
                Condition::Port(reach.dns.port()),
            ])
        };
        rules.extend([UDP, TCP].map(to_port));
    }
    // The gateway and other proxies: no exception opens their network.
    let others = networks.iter().filter(|network| network.interface != link.interface);
    rules.extend(others.map(|network| Rule::drop([Condition::To(network.network)])));
    let allowed: Vec<Ipv4Net> = reach.allow_addresses.iter().filter_map(v4_network).collect();
    // A machine may have hundreds of addresses, and nearly all are refused anyway.
    let reached = |address: &&Ipv4Addr| is_in(&allowed, **address) || !is_in(&REFUSED_V4, **address);
    rules.extend(
        reach.host_addresses.iter().filter(reached).map(|address| Rule::drop([Condition::to_host(*address)])),
    );
    rules.extend(allowed.iter().map(|network| Rule::accept([Condition::To(*network)])));
    rules.extend(REFUSED_V4.map(|network| Rule::drop([Condition::To(network)])));
    rules.push(Rule::accept([]));
    Some(rules)
}

/// Rules that report to `group` the answers with which the kernel refuses the task, because nothing
/// is served on a port. They go before the other rules.
pub(super) fn refusals(reach: &Reach, networks: &[Connected], group: u16) -> Option<Vec<Rule>> {
    let link = networks.iter().find(|network| network.address == reach.listen)?;
    let answers = |protocol, header: &[(u32, [u8; 4], [u8; 4])]| {
        let of_protocol = [Condition::Through(link.interface), Condition::Protocol(protocol)];
        let fields = header.iter().map(|&(offset, mask, value)| Condition::Header { offset, mask, value });
        Rule::report(of_protocol.into_iter().chain(fields).collect::<Vec<_>>(), group, REPORTED)
    };
    Some(vec![
        // A reset with an acknowledgement and with sequence number zero: there was no connection.
        answers(TCP, &[(4, [0xff; 4], [0; 4]), (12, [0, 0x14, 0, 0], [0, 0x14, 0, 0])]),
        // Destination unreachable: port unreachable.
        answers(ICMP, &[(0, [0xff, 0xff, 0, 0], [3, 3, 0, 0])]),
    ])
}

fn is_in(networks: &[Ipv4Net], address: Ipv4Addr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

fn v4_network(network: &IpNet) -> Option<Ipv4Net> {
    match network {
        IpNet::V4(network) => Some(*network),
        IpNet::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use sandbox_packet_filter::Verdict;

    use super::*;
    use crate::dns::AddressGuard;

    const LINK: u32 = 7;
    const EGRESS: u32 = 8;

    struct Packet {
        through: u32,
        to: Ipv4Addr,
        protocol: u8,
        port: u16,
    }

    fn packet(through: u32, to: &str) -> Packet {
        Packet { through, to: to.parse().unwrap(), protocol: TCP, port: 443 }
    }

    fn leaves(rules: &[Rule], packet: &Packet) -> bool {
        let holds = |condition: &Condition| match condition {
            Condition::Through(interface) => packet.through == *interface,
            Condition::To(network) => network.contains(&packet.to),
            Condition::Protocol(protocol) => packet.protocol == *protocol,
            Condition::Port(port) => packet.port == *port,
            Condition::OtherFamily | Condition::Header { .. } => false,
        };
        let deciding = rules.iter().find(|rule| rule.conditions.iter().all(holds));
        deciding.is_some_and(|rule| rule.verdict == Verdict::Accept)
    }

    fn reach(allow: &[&str], host: &[&str]) -> Reach {
        Reach {
            listen: [10, 199, 1, 2].into(),
            dns: "192.168.1.1:53".parse().unwrap(),
            allow_addresses: allow.iter().map(|network| network.parse().unwrap()).collect(),
            host_addresses: host.iter().map(|address| address.parse().unwrap()).collect(),
        }
    }

    fn networks() -> Vec<Connected> {
        [(LOOPBACK, "127.0.0.1/8"), (EGRESS, "10.89.0.5/24"), (LINK, "10.199.1.2/28")]
            .map(|(interface, place)| {
                let place: Ipv4Net = place.parse().unwrap();
                Connected { interface, address: place.addr(), network: place.trunc() }
            })
            .into()
    }

    #[test]
    fn only_the_task_public_addresses_and_the_name_server_are_reached() {
        let rules = of(&reach(&[], &["203.0.113.9", "1.2.3.4"]), &networks()).unwrap();
        for (through, to, expected) in [
            (LINK, "10.199.1.3", true),
            (LINK, "10.199.1.17", false),
            (LINK, "8.8.8.8", false),
            (LINK, "224.0.0.1", false),
            (LINK, "255.255.255.255", false),
            (EGRESS, "10.199.1.3", false),
            (EGRESS, "8.8.8.8", true),
            (EGRESS, "10.89.0.1", false),
            (EGRESS, "10.89.0.6", false),
            (EGRESS, "10.89.0.255", false),
            (EGRESS, "169.254.169.254", false),
            (EGRESS, "169.254.1.2", false),
            (EGRESS, "192.168.1.2", false),
            (EGRESS, "224.0.0.251", false),
            (EGRESS, "255.255.255.255", false),
            (EGRESS, "203.0.113.9", false),
            (EGRESS, "1.2.3.4", false),
            (EGRESS, "1.2.3.5", true),
            (LOOPBACK, "127.0.0.1", true),
            (LOOPBACK, "10.199.1.2", true),
            (EGRESS, "127.0.0.1", false),
            // An unknown interface.
            (9, "10.199.1.3", false),
        ] {
            assert_eq!(leaves(&rules, &packet(through, to)), expected, "{through} {to}");
        }
        for (protocol, port, expected) in
            [(UDP, 53, true), (TCP, 53, true), (TCP, 80, false), (UDP, 54, false), (1, 53, false)]
        {
            let to_dns = Packet { protocol, port, ..packet(EGRESS, "192.168.1.1") };
            assert_eq!(leaves(&rules, &to_dns), expected, "{protocol} {port}");
        }
        assert!(rules.iter().any(|rule| *rule == Rule::drop([Condition::OtherFamily])));
    }

    #[test]
    fn exceptions_open_neither_the_host_nor_the_proxies_network() {
        let open = of(&reach(&["0.0.0.0/0"], &["192.168.1.7", "1.2.3.4"]), &networks()).unwrap();
        for (to, expected) in [
            ("192.168.1.8", true),
            ("169.254.169.254", true),
            ("10.89.0.1", false),
            ("10.89.0.6", false),
            ("192.168.1.7", false),
            ("1.2.3.4", false),
        ] {
            assert_eq!(leaves(&open, &packet(EGRESS, to)), expected, "{to}");
        }
        let one = of(&reach(&["192.168.1.0/30", "fd00::/8"], &[]), &networks()).unwrap();
        assert!(
            leaves(&one, &packet(EGRESS, "192.168.1.3")) && !leaves(&one, &packet(EGRESS, "192.168.1.4"))
        );
    }

    #[test]
    fn private_addresses_of_the_host_get_no_rules_of_their_own() {
        let few = of(&reach(&[], &[]), &networks()).unwrap();
        assert_eq!(of(&reach(&[], &["192.168.1.7", "172.17.0.1"]), &networks()).unwrap(), few);
    }

    #[test]
    fn missing_address_of_the_proxy_yields_no_rules() {
        assert_eq!(of(&Reach { listen: [10, 199, 1, 4].into(), ..reach(&[], &[]) }, &networks()), None);
    }

    proptest! {
        /// The kernel lets pass exactly what the guard permits.
        #[test]
        fn kernel_agrees_with_the_guard(bits: u32, host: u32, allow: u32, prefix in 0_u8..=32) {
            let (address, host) = (Ipv4Addr::from(bits), Ipv4Addr::from(host));
            let allow = IpNet::from(Ipv4Net::new(Ipv4Addr::from(allow), prefix).unwrap());
            let reach = Reach { allow_addresses: vec![allow], host_addresses: vec![host], ..reach(&[], &[]) };
            let rules = of(&reach, &networks()).unwrap();
            let adjacent: Ipv4Net = "10.89.0.0/24".parse().unwrap();
            let own = vec![IpAddr::V4(host), [10, 89, 0, 5].into(), reach.listen.into()];
            for address in [address, host, Ipv4Addr::from(bits & 0xff | 0x0a59_0000)] {
                // Linux has no route to it, and the guard handles it separately.
                prop_assume!(!address.is_unspecified());
                let permits = AddressGuard::new(vec![allow], own.clone()).permits(address.into());
                let expected = permits && !adjacent.contains(&address) && address != reach.listen && !address.is_loopback();
                let leaves = leaves(&rules, &Packet { through: EGRESS, to: address, protocol: TCP, port: 443 });
                if address != reach.listen {
                    prop_assert_eq!(leaves, expected, "{}", address);
                }
            }
        }
    }
}
