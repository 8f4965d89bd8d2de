//! Connections, datagrams and echo requests.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// The kernel's `ENODEV`.
const NO_SUCH_DEVICE: i32 = 19;
const DEADLINE: Duration = Duration::from_secs(3);

/// Connects, through the interface `device` if given. A link-local address is tried on every
/// interface.
pub(super) fn tcp(address: IpAddr, port: u16, device: Option<&str>) -> io::Result<String> {
    let target = SocketAddr::new(address, port);
    match (address, device) {
        (_, Some(device)) => {
            let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP))?;
            socket.bind_device(Some(device.as_bytes()))?;
            socket.connect_timeout(&target.into(), DEADLINE)?;
        }
        (IpAddr::V6(link_local), None) if link_local.is_unicast_link_local() => {
            on_every_interface(link_local, port)?;
        }
        _ => drop(TcpStream::connect_timeout(&target, DEADLINE)?),
    }
    Ok(format!("{address} port {port}"))
}

/// A link-local address needs an interface; an attacker tries them all.
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

/// Sends datagrams.
pub(super) fn udp(address: SocketAddr, count: u32) -> io::Result<String> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    for number in 0..count {
        socket.send_to(&number.to_be_bytes(), address)?;
    }
    Ok(format!("{count} datagrams handed to the kernel"))
}

/// Sends echo requests, with a raw socket if the kernel permits it, else with a ping socket.
pub(super) fn icmp(address: IpAddr, count: u16) -> io::Result<String> {
    let open = |kind| Socket::new(Domain::IPV4, kind, Some(Protocol::ICMPV4));
    let socket = open(Type::RAW).or_else(|_| open(Type::DGRAM))?;
    for number in 0..count {
        socket.send_to(&echo_request(number), &SocketAddr::new(address, 0).into())?;
    }
    Ok(format!("{count} echo requests handed to the kernel"))
}

/// Type 8, code 0, checksum, identifier 1, sequence number.
fn echo_request(sequence: u16) -> [u8; 8] {
    let [high, low] = sequence.to_be_bytes();
    let sum = u32::from(0x0800_u16) + 1 + u32::from(sequence);
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !u16::try_from(folded & 0xffff).unwrap_or_default();
    let [check_high, check_low] = checksum.to_be_bytes();
    [8, 0, check_high, check_low, 0, 1, high, low]
}
