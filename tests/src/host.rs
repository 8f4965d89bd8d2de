//! Services and addresses of the engine's host, which a task must not reach.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::AsFd as _;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::setting::Setting;

/// Runs `work` on a new thread in the engine's network namespace.
///
/// # Panics
///
/// If the thread fails to enter the namespace, which needs root.
pub fn inside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(move || {
        let namespace =
            std::fs::File::open(&Setting::of_this_run().host_netns).expect("the engine's namespace");
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("root");
        work()
    })
    .join()
    .expect("the work on the host")
}

/// A TCP service of the host, on all its IPv4 and IPv6 addresses.
#[derive(Debug)]
pub struct HostService {
    port: u16,
}

impl HostService {
    /// Starts the service, which lives as long as the process.
    ///
    /// # Panics
    ///
    /// If it fails to listen.
    #[must_use]
    pub fn start() -> Self {
        if let Some(port) = Setting::of_this_run().host_service {
            return Self { port };
        }
        let listener = inside(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("a port of the host"));
        let port = listener.local_addr().expect("a bound listener").port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                drop(stream);
            }
        });
        Self { port }
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// The IPv4 addresses of the host, except loopback.
#[must_use]
pub fn addresses() -> BTreeSet<Ipv4Addr> {
    let table = inside(|| std::fs::read_to_string("/proc/thread-self/net/fib_trie").unwrap_or_default());
    let lines = || table.lines().map(str::trim);
    // The line after an address gives its type.
    let own = lines().zip(lines().skip(1)).filter(|(_, kind)| *kind == "/32 host LOCAL");
    let addresses = own.filter_map(|(address, _)| address.strip_prefix("|-- ")?.parse().ok());
    addresses.filter(|address: &Ipv4Addr| !address.is_loopback()).collect()
}

/// Changes a setting of the host's network, such as `ipv4/conf/eth0/rp_filter`.
///
/// # Panics
///
/// If the write fails.
pub fn set(setting: &str, value: &str) {
    let (path, value) = (format!("/proc/sys/net/{setting}"), value.to_owned());
    inside(move || std::fs::write(path, value).expect("a setting of the host's network"));
}

/// The link-local IPv6 addresses of the host's interfaces, with the interfaces' names.
#[must_use]
pub fn link_local_addresses() -> Vec<(Ipv6Addr, String)> {
    let table = inside(|| std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default());
    table.lines().filter_map(link_local).collect()
}

/// Parses a line of the kernel's table: address in hexadecimal, four numbers, name.
fn link_local(line: &str) -> Option<(Ipv6Addr, String)> {
    let mut fields = line.split_whitespace();
    let address = Ipv6Addr::from(u128::from_str_radix(fields.next()?, 16).ok()?);
    let name = fields.last()?;
    address.is_unicast_link_local().then(|| (address, name.to_owned()))
}
