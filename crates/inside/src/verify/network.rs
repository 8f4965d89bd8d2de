//! Network access of the container. Nothing leaves an intact sandbox: the kernel refuses before it
//! creates a packet.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use sandbox_inside::Order;
use socket2::{Domain, Protocol, Socket, Type};

use super::observation::{Observation, errno, kernel};

/// Reserved for documentation: no host has this address, so a broken sandbox contacts none.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
const DEADLINE: Duration = Duration::from_secs(5);
/// The kernel's errors for an unreachable address. A connection in progress is not a refusal: a
/// packet was sent.
const NO_WAY: &[Errno] = &[Errno::ENETUNREACH, Errno::EPERM, Errno::EACCES];

pub(super) fn interfaces_bounded(order: &Order) -> Observation {
    let text = match fs::read_to_string("/proc/net/dev") {
        Ok(text) => text,
        Err(error) => return Observation::unknown("the interfaces", error),
    };
    let names: Vec<&str> =
        text.lines().skip(2).filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim()).collect();
    let others = names.iter().filter(|name| **name != "lo").count();
    Observation { held: others == usize::from(order.has_proxy), detail: names.join(", ") }
}

/// One line per route: interface, destination and gateway in hexadecimal.
pub(super) fn no_route_out() -> Observation {
    let text = match fs::read_to_string("/proc/net/route") {
        Ok(text) => text,
        Err(error) => return Observation::unknown("the routes", error),
    };
    let mut problems = Vec::new();
    for line in text.lines().skip(1) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        if let [interface, destination, gateway, ..] = columns.as_slice()
            && (*destination == "00000000" || *gateway != "00000000")
        {
            problems.push(format!("a route through {interface} to {destination} by {gateway}"));
        }
    }
    Observation::from_problems(&problems, format!("{} routes", text.lines().skip(1).count()))
}

/// Loopback may have an address if there is no other interface.
pub(super) fn ipv6_absent() -> Observation {
    let text = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let others: Vec<String> =
        text.lines().filter(|line| line.split_whitespace().last() != Some("lo")).map(str::to_owned).collect();
    Observation::from_problems(&others, "none")
}

pub(super) fn ipv6_stays_off(order: &Order) -> Observation {
    let path = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
    if order.has_proxy
        && let Ok(text) = fs::read_to_string(path)
        && text.trim() != "1"
    {
        return Observation::broken("it is on");
    }
    let attempt = kernel(fs::OpenOptions::new().write(true).open(path).map(drop));
    Observation::refused(path, attempt, &[Errno::EROFS, Errno::EACCES, Errno::EPERM, Errno::ENOENT])
}

fn tcp(address: Ipv4Addr, port: u16) -> nix::Result<()> {
    kernel(TcpStream::connect_timeout(&SocketAddr::new(address.into(), port), DEADLINE).map(drop))
}

/// A router may also report a missing route later: if the kernel does not refuse at once, a packet
/// was sent.
fn tcp_at_once(address: Ipv4Addr, port: u16) -> nix::Result<()> {
    let begun = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.connect(&SocketAddr::new(address.into(), port).into())
    });
    kernel(begun)
}

fn udp(address: Ipv4Addr, port: u16) -> nix::Result<()> {
    let sent =
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.send_to(&[0], (address, port)));
    kernel(sent.map(drop))
}

pub(super) fn tcp_out_refused() -> Observation {
    Observation::all([443, 22].map(|port| {
        Observation::refused(&format!("TCP to {OUTSIDE}:{port}"), tcp_at_once(OUTSIDE, port), NO_WAY)
    }))
}

pub(super) fn udp_out_refused() -> Observation {
    Observation::all(
        [443, 123].map(|port| {
            Observation::refused(&format!("UDP to {OUTSIDE}:{port}"), udp(OUTSIDE, port), NO_WAY)
        }),
    )
}

/// With a socket for echo requests, which is unprivileged if the host permits it, and with a raw
/// one.
pub(super) fn ping_out_refused() -> Observation {
    let request = [8, 0, 0xf7, 0xfe, 0, 1, 0, 0];
    Observation::all([Type::DGRAM, Type::RAW].map(|kind| {
        let sent = Socket::new(Domain::IPV4, kind, Some(Protocol::ICMPV4))
            .and_then(|socket| socket.send_to(&request, &SocketAddr::new(OUTSIDE.into(), 0).into()));
        Observation::refused(&format!("echo request to {OUTSIDE}"), kernel(sent), NO_WAY)
    }))
}

pub(super) fn metadata_refused() -> Observation {
    Observation::refused(&format!("TCP to {METADATA}:80"), tcp_at_once(METADATA, 80), NO_WAY)
}

pub(super) fn resolvers_refused() -> Observation {
    let mut parts: Vec<Observation> = [OUTSIDE, Ipv4Addr::new(10, 88, 0, 1), Ipv4Addr::new(169, 254, 1, 1)]
        .into_iter()
        .flat_map(|server| {
            [
                Observation::refused(&format!("UDP to {server}:53"), udp(server, 53), NO_WAY),
                Observation::refused(&format!("TCP to {server}:53"), tcp_at_once(server, 53), NO_WAY),
            ]
        })
        .collect();
    let count = name_servers().len();
    if count > 1 {
        parts.push(Observation::broken(format!("{count} name servers")));
    }
    Observation::all(parts)
}

fn name_servers() -> Vec<IpAddr> {
    let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("nameserver")?.trim().parse().ok()).collect()
}

/// The proxy, which is the only name server.
fn proxy() -> Option<Ipv4Addr> {
    match name_servers().as_slice() {
        [IpAddr::V4(address)] => Some(*address),
        _ => None,
    }
}

/// All 16 addresses of a network except the proxy's and our own, each on two ports: a refused
/// connection reveals a host.
pub(super) fn neighbours_absent() -> Observation {
    let Some(proxy) = proxy() else {
        return Observation::broken("there is not one name server, so the proxy is not known");
    };
    let own = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.connect((proxy, 53)).and_then(|()| socket.local_addr()));
    let own = match own {
        Ok(address) => address.ip(),
        Err(error) => return Observation::unknown("the own address", error),
    };
    let first = u32::from(proxy) & !15;
    let attempts: Vec<_> = (first + 1..first + 15)
        .map(Ipv4Addr::from)
        .filter(|address| *address != proxy && IpAddr::V4(*address) != own)
        .map(|address| thread::spawn(move || (address, tcp(address, 22))))
        .collect();
    let count = attempts.len();
    let mut problems = Vec::new();
    for attempt in attempts {
        match attempt.join() {
            Ok((address, Ok(()) | Err(Errno::ECONNREFUSED))) => problems.push(format!("{address} answers")),
            Ok(_) => {}
            Err(_) => problems.push("an attempt failed".to_owned()),
        }
    }
    Observation::from_problems(&problems, format!("{count} addresses are silent"))
}

/// `sandbox-verify.invalid` is a name that no policy permits and no host has.
pub(super) fn proxy_answers() -> Observation {
    let Some(proxy) = proxy() else {
        return Observation::broken("there is not one name server, so the proxy is not known");
    };
    let name = match resolve(proxy) {
        Ok(address) if address == Some(proxy) => Observation::held("every name is the proxy"),
        Ok(address) => Observation::broken(format!("a name is {address:?}")),
        Err(error) => Observation::broken(format!("no answer to a name: {error}")),
    };
    let page = match ask(proxy) {
        Ok(status) if status.starts_with("HTTP/1.1 403") => {
            Observation::held("a request that is not permitted is refused")
        }
        Ok(status) => Observation::broken(format!("answered {status:?} to a request that is not permitted")),
        Err(error) => {
            Observation::broken(format!("the proxy does not answer: {} ({})", error, errno(&error)))
        }
    };
    Observation::all([name, page])
}

const QUERY: &[u8] =
    b"\x5a\x5a\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0esandbox-verify\x07invalid\x00\x00\x01\x00\x01";

fn resolve(server: Ipv4Addr) -> io::Result<Option<Ipv4Addr>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(DEADLINE))?;
    socket.connect((server, 53))?;
    socket.send(QUERY)?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    let answer = answer.get(..length).unwrap_or_default();
    // With one answer and nothing after it, the address is at the end.
    let has_answer = answer.get(7) == Some(&1);
    Ok(answer.last_chunk::<4>().filter(|_| has_answer).map(|octets| Ipv4Addr::from(*octets)))
}

fn ask(proxy: Ipv4Addr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(proxy.into(), 80), DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: sandbox-verify.invalid\r\nConnection: close\r\n\r\n")?;
    let mut head = [0; 64];
    let length = stream.read(&mut head)?;
    let head = head.get(..length).unwrap_or_default();
    let text = String::from_utf8_lossy(head);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
