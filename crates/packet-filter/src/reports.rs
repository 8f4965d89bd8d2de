//! Reports of rules: copies of packets, in messages of the kernel. Names are those of
//! `linux/netfilter/nfnetlink_log.h`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, recv};

use crate::kernel::{ask, connect};
use crate::messages::{HEADER, listening};

const PACKET: u16 = 4 << 8;
const PAYLOAD: u16 = 9;
/// Flags of an attribute's kind.
const FLAGS: u16 = 0xc000;
/// Buffer size: the kernel sends at most a page at once, minus its overhead.
const MOST: usize = 16 * 1024;

/// The packets that rules with [`Verdict::Report`](crate::Verdict::Report) report.
#[derive(Debug)]
pub struct Reports {
    socket: OwnedFd,
}

impl Reports {
    /// The reports of this group in the calling thread's network namespace, from now on. Reading
    /// them needs no privilege.
    ///
    /// # Errors
    ///
    /// If the thread lacks the privilege, or the kernel does not support reports (`nfnetlink_log`).
    pub fn of_group(group: u16) -> io::Result<Self> {
        let socket = connect()?;
        ask(&socket, &listening(group))?;
        Ok(Self { socket })
    }

    /// The packets that have arrived, each from its IP header on, up to the rule's limit. Never
    /// blocks.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if none has. Other errors only mean that some may be lost.
    pub fn read(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut buffer = vec![0; MOST];
        let (received, _) = recv(&self.socket, buffer.as_mut_slice(), RecvFlags::DONTWAIT)?;
        Ok(packets(buffer.get(..received).unwrap_or_default()))
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The packets in the messages of a datagram.
fn packets(mut messages: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while let Some((kind, body, behind)) = message(messages) {
        if kind == PACKET {
            packets.extend(payload(body));
        }
        messages = behind;
    }
    packets
}

/// The first of `messages`: its kind, its body, and the remaining messages.
fn message(messages: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*messages.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(*messages.get(4..)?.first_chunk()?);
    let body = messages.get(HEADER..length)?;
    Some((kind, body, messages.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// The packet in the body of a message: four bytes, and attributes.
fn payload(body: &[u8]) -> Option<Vec<u8>> {
    let mut attributes = body.get(4..)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(*attributes.first_chunk()?));
        let kind = u16::from_ne_bytes(*attributes.get(2..)?.first_chunk()?);
        let value = attributes.get(4..length)?;
        if kind & !FLAGS == PAYLOAD {
            return Some(value.to_vec());
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::attribute;

    fn reported(kind: u16, packet: &[u8]) -> Vec<u8> {
        let body = [vec![2, 0, 0, 7], attribute(1, &[8, 0, 3, 0]), attribute(PAYLOAD, packet)].concat();
        let length = u32::try_from(HEADER + body.len()).unwrap();
        let mut bytes = [length.to_ne_bytes().as_slice(), &kind.to_ne_bytes()].concat();
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn packets_are_found_in_several_messages() {
        let done = [16_u32.to_ne_bytes().as_slice(), &3_u16.to_ne_bytes(), &[0; 10]].concat();
        let datagram = [reported(PACKET, b"abcde"), reported(PACKET + 1, b"x"), reported(PACKET, b"f"), done];
        assert_eq!(packets(&datagram.concat()), [b"abcde".to_vec(), b"f".to_vec()]);
    }

    #[test]
    fn truncated_packet_is_ignored() {
        let whole = reported(PACKET, b"abcde");
        // The value is aligned; the padding is ignored.
        for cut in 0..whole.len() {
            assert!(packets(&whole[..cut]).is_empty(), "{cut}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 3, 4, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                // It must not panic; the result is irrelevant.
                let _ = packets(&changed);
            }
        }
    }
}
