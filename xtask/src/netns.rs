//! Two network namespaces for one engine: its *host*, and the *world*, which replaces the internet
//! and is connected to the host by a virtual cable.
//!
//! The engine and its bridges are in the host namespace; test servers and the tests themselves are
//! in the world. Neither is connected to the machine's own network, so test traffic cannot leave
//! the machine.
//!
//! ```text
//! container ─ bridge ─ host 203.0.113.254 ══ veth ══ 203.0.113.1 … .20 world
//! ```

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::apt::{self, Needed};
use crate::process::{self, command};
use crate::workspace;

/// The name of the cable's interface in both namespaces.
const CABLE: &str = "cable0";
/// The host's address on the cable, from which the connections of every container reach the world.
pub(crate) const HOST_ADDRESS: &str = "203.0.113.254";
/// The number of the world's addresses, starting at 203.0.113.1.
const WORLD_ADDRESSES: u8 = 20;

/// The names of a pair of namespaces.
pub(crate) struct Pair {
    pub(crate) host: String,
    pub(crate) world: String,
}

impl Pair {
    /// The pair of the engine `engine` in this checkout.
    pub(crate) fn of(engine: &str) -> Self {
        let tag = workspace::tag();
        Self { host: format!("sbx-{tag}-{engine}-host"), world: format!("sbx-{tag}-{engine}-world") }
    }

    /// The path of a namespace for `nsenter --net=` and `setns`.
    pub(crate) fn path(name: &str) -> PathBuf {
        PathBuf::from("/run/netns").join(name)
    }

    /// Creates both namespaces and the cable between them, unless they exist and are complete.
    pub(crate) fn ensure(&self) -> Result<()> {
        apt::ensure(&[
            Needed { program: "ip", package: "iproute2" },
            Needed { program: "nsenter", package: "util-linux" },
        ])?;
        if self.is_whole() {
            return Ok(());
        }
        self.remove();
        self.make().context("failed to create the engine's network namespaces")
    }

    /// Removes both namespaces; it is not an error if one does not exist.
    pub(crate) fn remove(&self) {
        for name in [&self.host, &self.world] {
            if Self::path(name).exists() {
                drop(process::run_quietly(&mut command("ip", ["netns", "delete", name])));
            }
        }
    }

    fn is_whole(&self) -> bool {
        let address = |name: &str, wanted: &str| {
            process::output(&mut command("ip", ["-n", name, "-4", "address", "show", "dev", CABLE]))
                .is_ok_and(|text| text.contains(wanted))
        };
        address(&self.host, HOST_ADDRESS) && address(&self.world, &world_address(WORLD_ADDRESSES))
    }

    fn make(&self) -> Result<()> {
        let (host, world) = (self.host.as_str(), self.world.as_str());
        ip(&["netns", "add", host])?;
        ip(&["netns", "add", world])?;
        ip(&["-n", world, "link", "add", CABLE, "type", "veth", "peer", "name", CABLE, "netns", host])?;
        for number in 1..=WORLD_ADDRESSES {
            ip(&["-n", world, "address", "add", &format!("{}/24", world_address(number)), "dev", CABLE])?;
        }
        ip(&["-n", host, "address", "add", &format!("{HOST_ADDRESS}/24"), "dev", CABLE])?;
        for name in [host, world] {
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            ip(&["-n", name, "link", "set", CABLE, "up"])?;
        }
        ip(&["-n", host, "route", "add", "default", "via", &world_address(1)])?;
        // The engine would enable forwarding with its first bridge; tests must not depend on their
        // order.
        let switches = "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6; \
                        echo 0 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
        process::run_quietly(&mut enter(host, ["sh", "-c", switches]))?;
        // Tests of rootless engines run without root too, and start a name server and sites.
        let ports = "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start";
        process::run_quietly(&mut enter(world, ["sh", "-c", ports]))
    }
}

/// A command inside a network namespace and in our mount namespace, unlike `ip netns exec`, which
/// hides cgroups.
pub(crate) fn enter<'a>(name: &str, args: impl IntoIterator<Item = &'a str>) -> std::process::Command {
    let mut nsenter = command("nsenter", [format!("--net={}", Pair::path(name).display())]);
    nsenter.arg("--").args(args);
    nsenter
}

fn world_address(number: u8) -> String {
    format!("203.0.113.{number}")
}

fn ip(args: &[&str]) -> Result<()> {
    process::run_quietly(&mut command("ip", args))
}
