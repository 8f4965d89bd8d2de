//! The process behind the engine's socket, if it is on this machine: its network is that of the
//! engine's host.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use tokio::net::UnixStream;

use crate::connection::Engine;

/// The process that listens on the socket.
pub(crate) struct Service {
    pid: i32,
    pub(crate) of_root: bool,
}

impl Engine {
    /// The IPv4 addresses of the engine's host, except loopback; empty if they are not visible.
    pub async fn host_addresses(&self) -> Vec<Ipv4Addr> {
        let tables = self.service().await.map(|service| service.tables("fib_trie"));
        let mut addresses: Vec<Ipv4Addr> =
            tables.unwrap_or_default().iter().flat_map(|table| local_addresses(table)).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// `None` if it is not visible from here.
    pub(crate) async fn service(&self) -> Option<Service> {
        let service = UnixStream::connect(self.libpod().socket()).await.ok()?.peer_cred().ok()?;
        Some(Service { pid: service.pid().filter(|pid| *pid > 0)?, of_root: service.uid() == 0 })
    }
}

impl Service {
    /// The kernel's tables of its network, read for each thread: podman leaves the thread that set
    /// up a container's network in there, and that may be the first one. If some threads are in the
    /// network of this program, the others are in those of containers.
    pub(crate) fn tables(&self, name: &str) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten();
        let network = |thread: &Path| std::fs::read_link(thread.join("ns/net")).ok();
        let table = |thread: std::io::Result<std::fs::DirEntry>| {
            let thread = thread.ok()?.path();
            let before = network(&thread);
            let table = std::fs::read_to_string(thread.join("net").join(name)).ok()?;
            // The thread may change its network meanwhile.
            Some((before.filter(|before| network(&thread).as_ref() == Some(before)), table))
        };
        of_own(threads.filter_map(table).collect(), network(Path::new("/proc/self")).as_ref())
    }
}

/// The tables of the network `own`; all of them if none is.
fn of_own(tables: Vec<(Option<PathBuf>, String)>, own: Option<&PathBuf>) -> Vec<String> {
    let is_own = |network: &Option<PathBuf>| network.is_some() && network.as_ref() == own;
    let has_own = tables.iter().any(|(network, _)| is_own(network));
    tables.into_iter().filter(|(network, _)| !has_own || is_own(network)).map(|(_, table)| table).collect()
}

/// The machine's addresses in the kernel's routing table, where each is followed by a line with its
/// type.
fn local_addresses(table: &str) -> Vec<Ipv4Addr> {
    let lines: Vec<&str> = table.lines().map(str::trim).collect();
    let is_local = |line: &str| line == "/32 host LOCAL";
    let pairs = lines.array_windows().filter(|[_, kind]| is_local(kind));
    pairs
        .filter_map(|[address, _]| address.strip_prefix("|-- ")?.parse().ok())
        .filter(|address: &Ipv4Addr| !address.is_loopback())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_in_the_network_of_a_container_is_ignored() {
        let table = |network: &str| (Some(PathBuf::from(network)), network.to_owned());
        let own = PathBuf::from("host");
        let of =
            |networks: &[&str]| of_own(networks.iter().map(|network| table(network)).collect(), Some(&own));
        assert_eq!(of(&["container", "host", "container"]), ["host"]);
        assert_eq!(of(&["a", "b"]), ["a", "b"], "the host is another one");
        let hidden = || vec![(None, "x".to_owned()), (None, "y".to_owned())];
        assert_eq!(of_own(hidden(), None), ["x", "y"], "whose threads cannot be looked at");
        assert_eq!(of_own(hidden(), Some(&own)), ["x", "y"]);
    }

    #[test]
    fn addresses_are_distinguished_from_networks_and_broadcasts() {
        let table = "Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
           |-- 127.0.0.0
              /8 host LOCAL
           |-- 127.0.0.1
              /32 host LOCAL
        +-- 192.0.2.0/30 2 0 2
           |-- 192.0.2.0
              /24 link UNICAST
           |-- 192.0.2.2
              /32 host LOCAL
        |-- 192.0.2.255
           /32 link BROADCAST
           |-- 198.51.100.7
              /32 host LOCAL
              /24 link UNICAST
";
        assert_eq!(local_addresses(table), [Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(198, 51, 100, 7)]);
        for nonsense in ["", "/32 host LOCAL", "|-- x\n/32 host LOCAL"] {
            assert!(local_addresses(nonsense).is_empty());
        }
    }
}
