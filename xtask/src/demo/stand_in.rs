//! An internet in a container, on a separate network of the same engine.

use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cargo;
use crate::engine::{Socket, ensure_program_image};
use crate::report::{say, step};
use crate::workspace;

/// The name of the stand-in's image.
const IMAGE: &str = "sandbox-demo";
/// The number of the stand-in's address in its subnet: not among the first, which the engine
/// assigns.
const PLACE: u32 = 10;
const END_OF_CERTIFICATE: &str = "-----END CERTIFICATE-----\n";

/// A running stand-in; dropping it removes its container and its network.
pub(crate) struct StandIn {
    socket: Socket,
    name: String,
    subnet: String,
    address: Ipv4Addr,
    authority: String,
}

impl StandIn {
    /// Starts a stand-in, and first removes the objects of an earlier one for this purpose that was
    /// killed.
    pub(crate) fn start(socket: &Socket, purpose: &str, program: &Path) -> Result<Self> {
        let image = ensure_program_image(socket, IMAGE, program)?;
        let name = format!("sandbox-{purpose}-{}", workspace::tag());
        remove(socket, &name).context("failed to remove an earlier stand-in")?;
        let (subnet, address) = create_network(socket, &name)?;
        // From here on, every return removes both.
        let mut stand_in = Self { socket: socket.clone(), name, subnet, address, authority: String::new() };
        stand_in.create_container(&image)?;
        stand_in.authority = stand_in.await_certificate()?;
        Ok(stand_in)
    }

    /// The path of its program.
    pub(crate) fn program() -> PathBuf {
        workspace::target().join("stand-in/stand-in")
    }

    /// Builds its program.
    pub(crate) fn build() -> Result<PathBuf> {
        let program = Self::program();
        step("building the stand-in for the internet", || {
            cargo::static_program("test-world", "stand-in", &["--profile", "tests"], &program)
        })?;
        Ok(program)
    }

    /// The address at which it answers for every name.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The subnet of its network.
    pub(crate) fn subnet(&self) -> &str {
        &self.subnet
    }

    /// The certificate of the authority that signed its certificates, as PEM.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    fn create_container(&self, image: &str) -> Result<()> {
        let specification = json!({
            "name": self.name,
            "image": image,
            "command": ["/stand-in", self.address.to_string()],
            "labels": labels(),
            "remove": true,
            "log_configuration": {"driver": "k8s-file"},
            "netns": {"nsmode": "bridge"},
            "networks": {&self.name: {"static_ips": [self.address.to_string()]}},
            "cap_drop": ["ALL"],
            "cap_add": ["NET_BIND_SERVICE"],
            "no_new_privileges": true,
        });
        let containers = "/v4.0.0/libpod/containers";
        self.socket
            .send_json("POST", &format!("{containers}/create"), &specification)?
            .ok()
            .context("failed to create the container of the stand-in")?;
        self.socket
            .request("POST", &format!("{containers}/{}/start", self.name))?
            .ok()
            .map(drop)
            .context("failed to start the container of the stand-in")
    }

    /// Waits for the certificate, which the stand-in prints first, once it listens.
    fn await_certificate(&self) -> Result<String> {
        let target =
            format!("/v4.0.0/libpod/containers/{}/logs?follow=true&stdout=true&stderr=true", self.name);
        let mut log = self.socket.follow("GET", &target)?;
        let mut text = String::new();
        while !text.ends_with(END_OF_CERTIFICATE) {
            match next_frame(&mut log)? {
                Some(piece) => text += &piece,
                None => bail!("the stand-in ended before it listened; its output was:\n{text}"),
            }
        }
        Ok(text)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.socket, &self.name) {
            say(format!("failed to remove the stand-in; the next one tries again: {error:#}"));
        }
    }
}

fn labels() -> Value {
    json!({"sandbox-demo.checkout": workspace::tag()})
}

/// Removes the container, then the network. It is not an error if they do not exist.
fn remove(socket: &Socket, name: &str) -> Result<()> {
    for target in [
        format!("/v4.0.0/libpod/containers/{name}?force=true&timeout=0"),
        format!("/v4.0.0/libpod/networks/{name}?force=true"),
    ] {
        let answer = socket.request("DELETE", &target)?;
        if answer.status != 404 {
            answer.ok()?;
        }
    }
    Ok(())
}

/// Creates a network; the engine picks a free subnet.
fn create_network(socket: &Socket, name: &str) -> Result<(String, Ipv4Addr)> {
    let plan = json!({"name": name, "driver": "bridge", "dns_enabled": false, "labels": labels()});
    let answer = socket
        .send_json("POST", "/v4.0.0/libpod/networks/create", &plan)?
        .ok()
        .context("failed to create the network of the stand-in")?;
    let network: Value = serde_json::from_str(&answer).context("the engine's response is not JSON")?;
    let subnet = network
        .pointer("/subnets/0/subnet")
        .and_then(Value::as_str)
        .context("the engine created a network without a subnet")?;
    Ok((subnet.to_owned(), address_in(subnet)?))
}

fn address_in(subnet: &str) -> Result<Ipv4Addr> {
    let (base, _) = subnet.split_once('/').context("the subnet has no prefix length")?;
    let base: Ipv4Addr = base.parse().with_context(|| format!("{subnet} is not an IPv4 subnet"))?;
    Ok(Ipv4Addr::from(u32::from(base) + PLACE))
}

/// Reads one piece of a container's output: a head of eight bytes, whose last four are the length
/// of the data after it.
fn next_frame(log: &mut impl Read) -> Result<Option<String>> {
    let mut head = [0; 8];
    if log.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    log.read_exact(&mut head[1..])?;
    let [.., a, b, c, d] = head;
    let mut piece = Vec::new();
    log.take(u32::from_be_bytes([a, b, c, d]).into()).read_to_end(&mut piece)?;
    Ok(Some(String::from_utf8_lossy(&piece).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_the_stand_in_is_in_the_subnet() {
        assert_eq!(address_in("10.89.3.0/24").unwrap(), Ipv4Addr::new(10, 89, 3, 10));
        for subnet in ["fd00::/64", "10.89.3.0", ""] {
            assert!(address_in(subnet).is_err(), "{subnet}");
        }
    }

    #[test]
    fn frames_are_separated_and_a_truncated_one_is_an_error() {
        let mut log: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 2, b'o', b'k', 2, 0, 0, 0, 0, 0, 0, 1, b'!'];
        let frames: Vec<_> = std::iter::from_fn(|| next_frame(&mut log).unwrap()).collect();
        assert_eq!(frames, ["ok", "!"]);
        assert!(next_frame(&mut &[1, 0, 0][..]).is_err());
    }
}
