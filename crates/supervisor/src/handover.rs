//! How PID 1 hands a command to its keeper: its request, and the pipe that it reads, over a socket that is the keeper's stdin.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use sandbox_supervisor::Request;

/// Bytes of the length before the request.
const HEAD: usize = 4;

/// Gives `request` away, with what it reads.
pub(crate) fn give(socket: &mut UnixStream, request: &Request, input: Option<&OwnedFd>) -> io::Result<()> {
    let json = serde_json::to_vec(request)?;
    let length = u32::try_from(json.len()).map_err(io::Error::other)?.to_be_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = input.map(AsFd::as_fd).into_iter().collect();
    if !borrowed.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
    }
    sendmsg(
        &*socket,
        &[IoSlice::new(&length)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    socket.write_all(&json)
}

/// What [`give`] gave away.
pub(crate) fn take(socket: &mut UnixStream) -> io::Result<(Request, Option<OwnedFd>)> {
    let mut length = [0; HEAD];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut length)];
    let received = recvmsg(&*socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes != HEAD {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let input = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let mut json = vec![0; usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?];
    socket.read_exact(&mut json)?;
    Ok((serde_json::from_slice(&json)?, input))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_arrives_with_its_input() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        let request = Request::Write {
            path: "/tmp/x".to_owned(),
        };
        give(&mut ours, &request, Some(&reader.into())).unwrap();
        let (taken, input) = take(&mut theirs).unwrap();
        assert_eq!(taken, request);
        writer.write_all(b"hello").unwrap();
        drop(writer);
        let mut text = String::new();
        io::PipeReader::from(input.unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "hello");

        give(&mut ours, &request, None).unwrap();
        assert!(take(&mut theirs).unwrap().1.is_none());
        drop(ours);
        assert!(take(&mut theirs).is_err());
    }
}
