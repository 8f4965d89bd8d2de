//! Installs the filter, and tests that it works.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use sandbox_packet_filter::{Reports, apply};
use sandbox_proxy_protocol::Reach;

use super::interfaces::{Connected, connected};

use super::{Refusals, rules};

/// The port of the discard service.
const DISCARD: u16 = 9;

/// Any group works, because the network is the proxy's own.
const GROUP: u16 = 1;

/// A proxy that the kernel confines.
#[derive(Debug)]
pub struct Confined {
    /// The kernel's reports of its refusals of the task's traffic, or the reason why they are not
    /// available.
    pub(crate) refusals: io::Result<Refusals>,
}

/// The reason why the kernel does not confine the proxy.
#[derive(Debug, thiserror::Error)]
pub enum Unconfined {
    /// The addresses of the machine are unknown.
    #[error("failed to list the networks of the proxy: {0}")]
    Networks(io::Error),
    /// The proxy is not in the network where it should be.
    #[error("the proxy has no interface with its address {address}, or no other network")]
    Misplaced {
        /// The address.
        address: Ipv4Addr,
    },
    /// The kernel rejected the rules.
    #[error(
        "the kernel rejected the filter of the proxy's network; it needs nf_tables (`modprobe nf_tables`): {0}"
    )]
    Refused(io::Error),
    /// It accepted them, but does not apply them.
    #[error("the kernel accepted the filter of the proxy's network but does not apply it: {found}")]
    Ignored {
        /// The outcome of sending a packet that should have been refused.
        found: String,
    },
}

/// From now on, nothing leaves this process's network namespace except packets to `reach`, to
/// public addresses, and to itself.
///
/// # Errors
///
/// If the kernel is unable to do that.
pub fn confine(reach: &Reach) -> Result<Confined, Unconfined> {
    let networks = connected().map_err(Unconfined::Networks)?;
    let misplaced = || Unconfined::Misplaced { address: reach.listen };
    let rules = rules::of(reach, &networks).ok_or_else(misplaced)?;
    let neighbour = neighbour(reach, &networks).ok_or_else(misplaced)?;
    let reporting = rules::refusals(reach, &networks, GROUP).ok_or_else(misplaced)?;
    let refusals = Reports::of_group(GROUP).and_then(|reports| {
        apply(&[reporting, rules.clone()].concat())?;
        Ok(Refusals(reports))
    });
    if refusals.is_err() {
        // Not every kernel reports packets.
        apply(&rules).map_err(Unconfined::Refused)?;
    }
    refused(neighbour).map_err(|found| Unconfined::Ignored { found })?;
    Ok(Confined { refusals })
}

/// An address next to the proxy that it must not reach.
fn neighbour(reach: &Reach, networks: &[Connected]) -> Option<Ipv4Addr> {
    let is_other = |network: &&Connected| network.address != reach.listen && !network.address.is_loopback();
    let mut others = networks.iter().filter(is_other);
    others.find_map(|Connected { address: own, network, .. }| {
        let mut first = network.hosts().take(3);
        first.find(|address| address != own && reach.dns.ip() != *address)
    })
}

/// Checks that the kernel refuses to send to `address`.
fn refused(address: Ipv4Addr) -> Result<(), String> {
    let sent = UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
        .and_then(|socket| socket.send_to(&[], (address, DISCARD)));
    match sent {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(_) => Err(format!("a packet to {address} left")),
    }
}
