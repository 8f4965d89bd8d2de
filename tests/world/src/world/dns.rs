//! The name server of the world: small, over UDP, and only what tests need.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::UdpSocket;

use super::NOBODY;

/// The address of `name`; `None` where there is no such name.
fn address(name: &str, origin: Ipv4Addr) -> Option<Ipv4Addr> {
    match name {
        "nx.test" => None,
        "down.test" => Some(NOBODY),
        "private.test" => Some(Ipv4Addr::new(10, 0, 0, 1)),
        "loopback.test" => Some(Ipv4Addr::LOCALHOST),
        "metadata.test" => Some(Ipv4Addr::new(169, 254, 169, 254)),
        _ => Some(origin),
    }
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

/// Answers a query for A with an address, for anything else with nothing.
fn answer(query: &[u8], origin: Ipv4Addr) -> Option<Vec<u8>> {
    let (name, end) = question(query)?;
    let kind = query.get(end..end + 2)?;
    let found = address(&name, origin);
    let with_answer = found.filter(|_| kind == [0, 1]);
    let mut reply = query.get(..2)?.to_vec();
    reply.extend([0x81, if found.is_some() { 0x80 } else { 0x83 }]);
    reply.extend([0, 1, 0, u8::from(with_answer.is_some()), 0, 0, 0, 0]);
    reply.extend(query.get(12..end + 4)?);
    if let Some(address) = with_answer {
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4]);
        reply.extend(address.octets());
    }
    Some(reply)
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
