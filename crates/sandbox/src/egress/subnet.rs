//! The subnets of task networks.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// The range of task networks: 4,096 subnets.
const RANGE: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 199, 0, 0), 16);
/// Two hosts, and space for a gateway that is not created.
const PREFIX: u8 = 28;
const COUNT: u32 = 1 << (PREFIX - RANGE.prefix_len());
/// So many collisions in a row mean that something else uses the whole range.
const ATTEMPTS: usize = 64;

/// One task's subnet and the addresses in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subnet(u32);

impl Subnet {
    /// The subnets to try, in order. `seed` spreads the tasks of several processes; the engine
    /// reports which subnet is taken.
    pub(super) fn candidates(seed: u32) -> impl Iterator<Item = Self> {
        (0..COUNT).take(ATTEMPTS).map(move |step| Self(seed.wrapping_add(step) % COUNT))
    }

    pub(super) fn network(self) -> Ipv4Net {
        Ipv4Net::new_assert(self.host(0), PREFIX)
    }

    pub(super) fn proxy(self) -> Ipv4Addr {
        self.host(2)
    }

    pub(super) fn task(self) -> Ipv4Addr {
        self.host(3)
    }

    /// The range and the number of attempts, for an error.
    pub(super) fn exhausted() -> (String, usize) {
        (RANGE.to_string(), ATTEMPTS)
    }

    fn host(self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(RANGE.addr().to_bits() + self.0 * (1 << (32 - PREFIX)) + number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn addresses_are_in_their_subnet_and_subnets_in_the_range() {
        for seed in [0, 1, COUNT - 1, COUNT, u32::MAX] {
            let subnets: Vec<Subnet> = Subnet::candidates(seed).collect();
            assert_eq!(subnets.iter().map(|subnet| subnet.0).collect::<HashSet<_>>().len(), ATTEMPTS);
            for subnet in subnets {
                let network = subnet.network();
                assert_eq!(network.trunc(), network);
                assert!(RANGE.contains(&network), "{network}");
                assert!(network.contains(&subnet.proxy()) && network.contains(&subnet.task()));
            }
        }
    }

    #[test]
    fn proxy_is_2_and_task_is_3() {
        let subnet = Subnet(17);
        assert_eq!(subnet.network().to_string(), "10.199.1.16/28");
        assert_eq!(subnet.proxy().to_string(), "10.199.1.18");
        assert_eq!(subnet.task().to_string(), "10.199.1.19");
    }
}
