//! PID 1 hands a command's request and input pipe to its subreaper over a socket, the subreaper's
//! stdin.
//!
//! A subreaper may fail to read: another command of the same user may have stopped it. So PID 1
//! writes only as much as the socket accepts, and never blocks.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use sandbox_inside::Request;

/// Bytes of the length before the request.
const HEAD: usize = 4;

/// The part of a request that was not sent to its subreaper yet.
#[derive(Debug, Default)]
pub(super) struct Handover(VecDeque<u8>);

/// Begins to send `request`, with its input pipe. `socket` must not block.
pub(super) fn give(
    socket: &mut UnixStream,
    request: &Request,
    input: Option<&OwnedFd>,
) -> io::Result<Handover> {
    let json = serde_json::to_vec(request)?;
    let length = u32::try_from(json.len()).map_err(io::Error::other)?.to_be_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = input.map(AsFd::as_fd).into_iter().collect();
    if !borrowed.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
    }
    sendmsg(&*socket, &[IoSlice::new(&length)], &mut ancillary, SendFlags::NOSIGNAL)?;
    let mut rest = Handover(json.into());
    rest.resume(socket)?;
    Ok(rest)
}

impl Handover {
    /// Whether all of it was sent.
    pub(super) fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends as much as `socket` accepts now.
    pub(super) fn resume(&mut self, socket: &mut UnixStream) -> io::Result<()> {
        while !self.is_done() {
            match socket.write(self.0.as_slices().0) {
                Ok(written) => drop(self.0.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Receives the message of [`give`].
pub(super) fn take(socket: &mut UnixStream) -> io::Result<(Request, Option<OwnedFd>)> {
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
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn request_arrives_with_its_input() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        let request = Request::Write { path: "/tmp/x".to_owned() };
        let rest = give(&mut ours, &request, Some(&reader.into())).unwrap();
        assert!(rest.is_done());
        let (taken, input) = take(&mut theirs).unwrap();
        assert_eq!(taken, request);
        writer.write_all(b"hello").unwrap();
        drop(writer);
        let mut text = String::new();
        io::PipeReader::from(input.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");

        give(&mut ours, &request, None).unwrap();
        assert!(take(&mut theirs).unwrap().1.is_none());
        drop(ours);
        assert!(take(&mut theirs).is_err());
    }

    #[test]
    fn long_request_arrives_in_pieces_and_a_stalled_reader_blocks_nobody() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let request = Request::Write { path: "/x".repeat(1 << 20) };
        let mut rest = give(&mut ours, &request, None).unwrap();
        assert!(!rest.is_done(), "no socket takes 2 MiB");
        let reading = std::thread::spawn(move || take(&mut theirs).unwrap().0);
        while !rest.is_done() {
            let mut waited = [PollFd::new(&ours, PollFlags::OUT)];
            poll(&mut waited, None).unwrap();
            rest.resume(&mut ours).unwrap();
        }
        assert!(reading.join().unwrap() == request);
    }
}
