//! TCP.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::Outcome;

/// The kernel's `ENODEV`.
const NO_SUCH_DEVICE: i32 = 19;

const DEADLINE: Duration = Duration::from_secs(3);

pub(crate) fn connect(address: IpAddr, port: u16, device: Option<&str>) -> Outcome {
    let attempt = match (address, device) {
        (_, Some(device)) => through_device(SocketAddr::new(address, port), device),
        (IpAddr::V6(link_local), None) if link_local.is_unicast_link_local() => {
            on_every_interface(link_local, port)
        }
        _ => TcpStream::connect_timeout(&SocketAddr::new(address, port), DEADLINE).map(drop),
    };
    match attempt {
        Ok(()) => Outcome::reached(format!("{address} port {port}")),
        Err(error) => Outcome::of_error(&error),
    }
}

/// A link-local address means nothing without an interface; an attacker tries them all.
fn on_every_interface(address: Ipv6Addr, port: u16) -> io::Result<()> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no interface");
    for scope in 2..32 {
        let target = SocketAddr::V6(SocketAddrV6::new(address, port, 0, scope));
        match TcpStream::connect_timeout(&target, DEADLINE) {
            Ok(_) => return Ok(()),
            Err(error) if error.raw_os_error() == Some(NO_SUCH_DEVICE) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn through_device(target: SocketAddr, device: &str) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP))?;
    socket.bind_device(Some(device.as_bytes()))?;
    socket.connect_timeout(&target.into(), DEADLINE)
}
