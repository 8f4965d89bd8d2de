//! A name server that knows one address, for every name below `example`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;

/// Answers on `address` until the runtime ends. Returns the list of all queries, which grows.
pub(super) async fn serve(address: SocketAddr, upstream: Ipv4Addr) -> Arc<Mutex<Vec<String>>> {
    let names = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&names);
    let socket = UdpSocket::bind(address).await.unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            asked.lock().unwrap().push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            if let Some(answer) = answer(&buffer[..length], upstream) {
                let _ = socket.send_to(&answer, client).await;
            }
        }
    });
    names
}

fn answer(query: &[u8], upstream: Ipv4Addr) -> Option<Vec<u8>> {
    let mut end = 12;
    let mut labels = Vec::new();
    while *query.get(end)? != 0 {
        let length = usize::from(query[end]);
        labels.push(query.get(end + 1..end + 1 + length)?.to_ascii_lowercase());
        end += 1 + length;
    }
    let question = query.get(12..end + 5)?;
    let kind = u16::from_be_bytes([question[question.len() - 4], question[question.len() - 3]]);
    let known = labels.last().is_some_and(|label| label == b"example");
    let has_address = known && kind == 1;
    let mut message = query[..2].to_vec();
    message.extend([0x81, if known { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(has_address), 0, 0, 0, 0]);
    message.extend(question);
    if has_address {
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        message.extend(upstream.octets());
    }
    Some(message)
}
