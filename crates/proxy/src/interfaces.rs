//! The machine's own addresses.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

/// Every address of every interface, loopback ones left out: nothing of the proxy's listens there, the guard refuses them anyway,
/// and an operator who opens one means it.
pub(crate) fn own_addresses() -> std::io::Result<Vec<IpAddr>> {
    let addresses = getifaddrs()?.filter_map(|interface| interface.address.as_ref().and_then(ip));
    Ok(addresses.filter(|address| !address.is_loopback()).collect())
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_left_out() {
        assert!(
            own_addresses()
                .unwrap()
                .iter()
                .all(|address| !address.is_loopback() && !address.is_unspecified())
        );
    }
}
