//! The machine's own addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockaddrStorage;

/// An IPv4 address of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connected {
    /// The kernel's number of the interface.
    pub(crate) interface: u32,
    pub(crate) address: Ipv4Addr,
    /// The network that the interface reaches without a gateway.
    pub(crate) network: Ipv4Net,
}

/// Every address of every interface, except loopback: the proxy does not listen there, the guard
/// refuses these addresses anyway, and an operator who opens one does so on purpose.
pub(crate) fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let addresses = getifaddrs()?.filter_map(|interface| interface.address.as_ref().and_then(ip));
    Ok(addresses.filter(|address| !address.is_loopback()).collect())
}

/// Every IPv4 address of every interface.
pub(crate) fn connected() -> io::Result<Vec<Connected>> {
    getifaddrs()?.filter_map(|interface| connected_by(&interface).transpose()).collect()
}

fn connected_by(interface: &InterfaceAddress) -> io::Result<Option<Connected>> {
    let Some(IpAddr::V4(address)) = interface.address.as_ref().and_then(ip) else { return Ok(None) };
    let mask = match interface.netmask.as_ref().and_then(ip) {
        Some(IpAddr::V4(mask)) => mask,
        _ => Ipv4Addr::BROADCAST,
    };
    let network = Ipv4Net::with_netmask(address, mask).map_err(io::Error::other)?.trunc();
    let interface = if_nametoindex(interface.interface_name.as_str())?;
    Ok(Some(Connected { interface, address, network }))
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_exclude_loopback() {
        assert!(
            own_addresses()
                .unwrap()
                .iter()
                .all(|address| !address.is_loopback() && !address.is_unspecified())
        );
    }

    #[test]
    fn loopback_is_connected() {
        let loopback = connected().unwrap().into_iter().find(|connected| connected.address.is_loopback());
        let network = "127.0.0.0/8".parse().unwrap();
        assert_eq!(loopback, Some(Connected { interface: 1, address: Ipv4Addr::LOCALHOST, network }));
    }
}
