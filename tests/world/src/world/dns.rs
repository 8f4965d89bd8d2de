//! The name server of the world: small, over UDP, and only what tests need.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::UdpSocket;

use super::UNUSED;

/// What is said of a name.
enum Data<'a> {
    Address(Ipv4Addr),
    Alias(&'a str),
}

const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// The records in the answer to a query for the address of `name`, each with its owner; `None`
/// where there is no such name.
fn records(name: &str, origin: Ipv4Addr) -> Option<Vec<(&str, Data<'static>)>> {
    Some(match name {
        "nx.test" => return None,
        "down.test" => vec![(name, Data::Address(UNUSED))],
        "private.test" => vec![(name, Data::Address(PRIVATE))],
        "loopback.test" => vec![(name, Data::Address(Ipv4Addr::LOCALHOST))],
        // What an engine without root makes of its host (pasta), and the host's own address
        // (slirp4netns).
        "host-of-pasta.test" => vec![(name, Data::Address(Ipv4Addr::new(169, 254, 1, 2)))],
        "host-of-slirp.test" => vec![(name, Data::Address(Ipv4Addr::new(203, 0, 113, 254)))],
        "metadata.test" => vec![(name, Data::Address(Ipv4Addr::new(169, 254, 169, 254)))],
        "alias.test" => vec![(name, Data::Alias("open.test")), ("open.test", Data::Address(origin))],
        "alias-of-private.test" => {
            vec![(name, Data::Alias("private.test")), ("private.test", Data::Address(PRIVATE))]
        }
        // These others were not asked for.
        "stray.test" => vec![("other.test", Data::Address(origin))],
        "beside.test" => vec![
            ("beside-it.test", Data::Address(PRIVATE)),
            (name, Data::Address(origin)),
            ("beside-it.test", Data::Address(PRIVATE)),
        ],
        _ => vec![(name, Data::Address(origin))],
    })
}

pub(super) async fn bind(address: SocketAddr) -> std::io::Result<UdpSocket> {
    UdpSocket::bind(address).await
}

pub(super) async fn serve(socket: UdpSocket, origin: Ipv4Addr) {
    let mut buffer = [0; 1500];
    while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
        if let Some(answer) = buffer.get(..length).and_then(|query| answer(query, origin)) {
            let _ = socket.send_to(&answer, peer).await;
        }
    }
}

/// Answers a query for A with what there is, for anything else with nothing.
fn answer(query: &[u8], origin: Ipv4Addr) -> Option<Vec<u8>> {
    let (name, end) = question(query)?;
    let kind = query.get(end..end + 2)?;
    let found = records(&name, origin);
    let code = if found.is_some() { 0x80 } else { 0x83 };
    let found = found.filter(|_| kind == [0, 1]).unwrap_or_default();
    let mut reply = query.get(..2)?.to_vec();
    reply.extend([0x81, code]);
    reply.extend([0, 1, 0, u8::try_from(found.len()).ok()?, 0, 0, 0, 0]);
    reply.extend(query.get(12..end + 4)?);
    for (owner, data) in found {
        let (kind, data) = match data {
            Data::Address(address) => (1, address.octets().to_vec()),
            Data::Alias(target) => (5, labels(target)),
        };
        reply.extend(labels(owner));
        reply.extend([0, kind, 0, 1, 0, 0, 0, 5, 0, u8::try_from(data.len()).ok()?]);
        reply.extend(data);
    }
    Some(reply)
}

/// A name on the wire.
fn labels(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.') {
        wire.push(u8::try_from(label.len()).unwrap_or_default());
        wire.extend(label.as_bytes());
    }
    wire.push(0);
    wire
}

/// The queried name, and where its type begins.
fn question(query: &[u8]) -> Option<(String, usize)> {
    let mut labels: Vec<String> = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
}
