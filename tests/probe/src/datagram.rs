//! UDP.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use crate::Outcome;

pub(crate) fn send(address: SocketAddr, count: u32) -> Outcome {
    let socket = match UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
        Ok(socket) => socket,
        Err(error) => return Outcome::of_error(&error),
    };
    for number in 0..count {
        if let Err(error) = socket.send_to(&number.to_be_bytes(), address) {
            return Outcome::of_error(&error);
        }
    }
    Outcome::reached(format!("{count} datagrams handed to the kernel"))
}
