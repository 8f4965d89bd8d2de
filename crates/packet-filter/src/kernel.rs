//! Loads rules into the kernel.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use crate::messages::{HEADER, NLMSG_ERROR, batch};
use crate::rule::Rule;

/// Buffer size, larger than an answer to one of our messages.
const ANSWER: usize = 8 * 1024;

/// Installs `rules` in the calling thread's network namespace, all or none: the first one whose
/// conditions all hold decides; a packet that none decides is dropped.
///
/// # Errors
///
/// If the thread lacks the privilege, the namespace already has such rules, or the kernel has no
/// `nf_tables`.
pub fn apply(rules: &[Rule]) -> io::Result<()> {
    ask(&connect()?, &batch(rules))
}

/// A socket to the kernel's filters of this network namespace.
pub(crate) fn connect() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::NETFILTER))?)
}

/// Sends `messages`, one of which requests an acknowledgement, and returns once it is received.
pub(crate) fn ask(kernel: &OwnedFd, messages: &[u8]) -> io::Result<()> {
    send(kernel, messages, SendFlags::empty())?;
    let mut acknowledged = false;
    let mut buffer = vec![0; ANSWER];
    while !acknowledged {
        // The kernel has already answered when the call returns.
        let (received, _) = recv(kernel, buffer.as_mut_slice(), RecvFlags::DONTWAIT)?;
        let mut rest = buffer.get(..received).unwrap_or_default();
        while let Some((answer, behind)) = first(rest) {
            acknowledged |= answer?;
            rest = behind;
        }
    }
    Ok(())
}

/// Whether the first of `answers` is an acknowledgement, or its error; and the remaining answers.
fn first(answers: &[u8]) -> Option<(io::Result<bool>, &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*answers.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(*answers.get(4..)?.first_chunk()?);
    let body = answers.get(HEADER..length)?;
    let behind = answers.get(length.next_multiple_of(4)..).unwrap_or_default();
    if kind != NLMSG_ERROR {
        return Some((Ok(false), behind));
    }
    let answer = match i32::from_ne_bytes(*body.first_chunk()?) {
        0 => Ok(true),
        error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
    };
    Some((answer, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: u16, code: i32) -> Vec<u8> {
        let mut bytes = 36_u32.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(code.to_ne_bytes());
        bytes.resize(36, 0);
        bytes
    }

    #[test]
    fn answers_are_read_individually() {
        let both = [answer(NLMSG_ERROR, 0), answer(NLMSG_ERROR, -95)].concat();
        let (good, rest) = first(&both).unwrap();
        assert!(good.unwrap());
        let (bad, rest) = first(rest).unwrap();
        assert_eq!(bad.unwrap_err().raw_os_error(), Some(95));
        assert!(first(rest).is_none());
        assert!(!first(&answer(3, 0)).unwrap().0.unwrap());
        for cut in 0..36 {
            assert!(first(&both[..cut]).is_none(), "{cut}");
        }
    }
}
