//! An internet in a container, on a network of its own of the same engine.

use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cargo;
use crate::engine::{Socket, ensure_program_image};
use crate::report::{say, step};
use crate::workspace;

/// The name of its image.
const IMAGE: &str = "sandbox-demo";
/// The stand-in's place in its network: beyond what the engine gives out first.
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
    /// Removes what the last one for this purpose left if it was killed, and starts again.
    pub(crate) fn start(socket: &Socket, purpose: &str, program: &Path) -> Result<Self> {
        let image = ensure_program_image(socket, IMAGE, program)?;
        let name = format!("sandbox-{purpose}-{}", workspace::tag());
        remove(socket, &name).context("failed to remove what an earlier stand-in left")?;
        let (subnet, address) = create_network(socket, &name)?;
        // From here on, every way out removes both.
        let mut stand_in = Self { socket: socket.clone(), name, subnet, address, authority: String::new() };
        stand_in.create_container(&image)?;
        stand_in.authority = stand_in.await_certificate()?;
        Ok(stand_in)
    }

    /// Where its program is built.
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

    /// Where it answers for every name.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The network it is on.
    pub(crate) fn subnet(&self) -> &str {
        &self.subnet
    }

    /// The certificate of the authority that signed its certificates, PEM.
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

    /// The certificate is the first thing the stand-in prints, and it listens by then.
    fn await_certificate(&self) -> Result<String> {
        let target =
            format!("/v4.0.0/libpod/containers/{}/logs?follow=true&stdout=true&stderr=true", self.name);
        let mut log = self.socket.follow("GET", &target)?;
        let mut text = String::new();
        while !text.ends_with(END_OF_CERTIFICATE) {
            match next_frame(&mut log)? {
                Some(piece) => text += &piece,
                None => bail!("the stand-in ended before it served; it said:\n{text}"),
            }
        }
        Ok(text)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.socket, &self.name) {
            say(format!("failed to remove the stand-in; the next one will try again: {error:#}"));
        }
    }
}

fn labels() -> Value {
    json!({"sandbox-demo.checkout": workspace::tag()})
}

/// Container first, then network. What is not there is no fault.
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

/// The engine picks a subnet that is free.
fn create_network(socket: &Socket, name: &str) -> Result<(String, Ipv4Addr)> {
    let plan = json!({"name": name, "driver": "bridge", "dns_enabled": false, "labels": labels()});
    let answer = socket
        .send_json("POST", "/v4.0.0/libpod/networks/create", &plan)?
        .ok()
        .context("failed to create the network of the stand-in")?;
    let network: Value = serde_json::from_str(&answer).context("the engine's answer is no JSON")?;
    let subnet = network
        .pointer("/subnets/0/subnet")
        .and_then(Value::as_str)
        .context("the engine made a network without a subnet")?;
    Ok((subnet.to_owned(), address_in(subnet)?))
}

fn address_in(subnet: &str) -> Result<Ipv4Addr> {
    let (base, _) = subnet.split_once('/').context("the subnet has no length")?;
    let base: Ipv4Addr = base.parse().with_context(|| format!("{subnet} is no IPv4 subnet"))?;
    Ok(Ipv4Addr::from(u32::from(base) + PLACE))
}

/// One piece of a container's output: a head of eight bytes, whose last four are the length of what
/// follows.
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
    fn the_stand_in_has_its_place_in_the_subnet() {
        assert_eq!(address_in("10.89.3.0/24").unwrap(), Ipv4Addr::new(10, 89, 3, 10));
        for subnet in ["fd00::/64", "10.89.3.0", ""] {
            assert!(address_in(subnet).is_err(), "{subnet}");
        }
    }

    #[test]
    fn frames_are_distinguished_and_the_end_from_a_cut() {
        let mut log: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 2, b'o', b'k', 2, 0, 0, 0, 0, 0, 0, 1, b'!'];
        let frames: Vec<_> = std::iter::from_fn(|| next_frame(&mut log).unwrap()).collect();
        assert_eq!(frames, ["ok", "!"]);
        assert!(next_frame(&mut &[1, 0, 0][..]).is_err());
    }
}
