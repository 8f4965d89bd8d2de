//! ICMP echo requests.

use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

use crate::Outcome;

pub(crate) fn send(address: IpAddr, count: u16) -> Outcome {
    let open = |kind| Socket::new(Domain::IPV4, kind, Some(Protocol::ICMPV4));
    let socket = match open(Type::RAW).or_else(|_| open(Type::DGRAM)) {
        Ok(socket) => socket,
        Err(error) => return Outcome::of_error(&error),
    };
    for number in 0..count {
        if let Err(error) = socket.send_to(&echo_request(number), &SocketAddr::new(address, 0).into()) {
            return Outcome::of_error(&error);
        }
    }
    Outcome::reached(format!("{count} echo requests handed to the kernel"))
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
