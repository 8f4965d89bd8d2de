//! The name server of proxies.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::ProxyError;

/// The host's configuration, and the one behind systemd's stub, which listens where no container
/// can reach it.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];
const PORT: u16 = 53;

/// The first name server of the host that a container can reach. Blocks on the file system.
pub(super) fn host_resolver() -> Result<SocketAddr, ProxyError> {
    first_usable(&FILES.map(Path::new))
}

fn first_usable(files: &[&Path]) -> Result<SocketAddr, ProxyError> {
    let usable = files.iter().find_map(|path| parse(&fs::read_to_string(path).ok()?));
    usable.ok_or_else(|| {
        let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        ProxyError::NoResolver { looked_at: names.join(" and ") }
    })
}

/// The first usable `nameserver` line.
fn parse(text: &str) -> Option<SocketAddr> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let address = (words.next() == Some("nameserver")).then(|| words.next())??.parse().ok()?;
        reachable(address).then_some(SocketAddr::new(address, PORT))
    })
}

/// Egress is IPv4 only, and a loopback address is the container's own there.
fn reachable(address: IpAddr) -> bool {
    address.is_ipv4() && !address.is_loopback() && !address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_reachable_name_server_is_chosen() {
        for (text, expected) in [
            (
                "# nameserver 9.9.9.9\nsearch lan\nnameserver 192.0.2.1\nnameserver 192.0.2.2\n",
                Some("192.0.2.1:53"),
            ),
            ("nameserver 127.0.0.53\n", None),
            ("nameserver 127.0.0.1\nnameserver\t192.0.2.7 # office\n", Some("192.0.2.7:53")),
            (
                "nameserver ::1\nnameserver fe80::1%eth0\nnameserver 2001:db8::1\nnameserver 192.0.2.3",
                Some("192.0.2.3:53"),
            ),
            ("nameserver\nnameserver here\nnameservers 192.0.2.1\n", None),
            ("", None),
        ] {
            assert_eq!(parse(text).map(|address| address.to_string()).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn second_file_is_used_behind_a_stub_and_the_error_names_the_setting() {
        let dir = tempfile::tempdir().unwrap();
        let (stub, real) = (dir.path().join("stub"), dir.path().join("real"));
        fs::write(&stub, "nameserver 127.0.0.53\n").unwrap();
        let error = first_usable(&[&stub, &real]).unwrap_err().to_string();
        assert!(error.contains("real") && error.contains("upstream.dns"), "{error}");
        fs::write(&real, "nameserver 192.0.2.9\n").unwrap();
        assert_eq!(first_usable(&[&stub, &real]).unwrap().to_string(), "192.0.2.9:53");
    }
}
