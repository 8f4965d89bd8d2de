//! DNS queries.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(3);

/// Asks a name server for the type with the number `kind`: 1 is A, 16 is TXT, 28 is AAAA.
pub(super) fn ask(server: SocketAddr, name: &str, kind: u16, tcp: bool) -> io::Result<String> {
    let query = query(name, kind);
    let answer = if tcp { over_tcp(server, &query)? } else { over_udp(server, &query)? };
    Ok(describe(&answer))
}

fn over_udp(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(DEADLINE))?;
    socket.connect(server)?;
    socket.send(query)?;
    let mut answer = vec![0; 1500];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

fn over_tcp(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(&u16::try_from(query.len()).unwrap_or_default().to_be_bytes())?;
    stream.write_all(query)?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn query(name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).unwrap_or_default());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

/// The response code, the number of answers, and the address if the answer is one.
fn describe(answer: &[u8]) -> String {
    let code = answer.get(3).map_or(255, |flags| flags & 15);
    let answers = answer.get(7).copied().unwrap_or_default();
    let address = match answer.last_chunk::<4>() {
        Some(octets) if answers > 0 => Ipv4Addr::from(*octets).to_string(),
        _ => "-".to_owned(),
    };
    format!("rcode {code} answers {answers} address {address}")
}
