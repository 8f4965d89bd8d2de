//! Checks every message boundary in a client's HTTP/1 bytes before they reach hyper.
//!
//! hyper hides the raw bytes of a head, and is more lenient than two readers in a row may be. This
//! reader therefore finds the boundaries itself, in constant memory, and withholds each head until
//! it is complete and good. Instead of a bad head hyper gets a harmless one, which the service
//! answers with the refusal ([`Note::Refused`]); nothing more is read from the connection after
//! that. Invariant: hyper never sees a byte of a message whose end is ambiguous.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::chunked::{Chunked, Progress};
use super::head::{self, Body, HeadError, RefusedHead};

/// Bytes to read at once where they must be inspected first.
const READ: usize = 8 * 1024;
/// Bytes that a client may send before its upgrade is answered.
const HELD: usize = 16 * 1024;
/// Maximum bytes to discard after a refused head, so that the refusal is not lost in a reset.
const DISCARDED: usize = 1024 * 1024;

/// Bounds on a request head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadLimits {
    /// Bytes of the whole head.
    pub(crate) bytes: usize,
    /// Header lines.
    pub(crate) headers: usize,
    /// From the start of the connection, or from the head's first byte, to the head's end.
    pub(crate) time: Duration,
}

/// The part of a head that the service cannot see because hyper got something else.
#[derive(Debug)]
pub(super) enum Note {
    /// The head is refused, and hyper got a replacement.
    Refused(RefusedHead),
    /// The target as received. hyper got a percent-encoded one.
    Target(Vec<u8>),
}

/// State shared by the reader and the service of one connection.
#[derive(Debug, Default)]
pub(super) struct Framing {
    /// Notes on heads of the connection, which are counted from 1. There are at most as many notes
    /// as heads that hyper has read ahead.
    notes: Mutex<VecDeque<(u64, Note)>>,
    /// A body on this connection is malformed.
    body_malformed: AtomicBool,
    /// No head arrived in time.
    silent: AtomicBool,
    /// The meaning of the bytes after a request for an upgrade: one of the constants below.
    upgrade: AtomicU8,
    /// Wakes the reader when `upgrade` is decided.
    waker: Mutex<Option<Waker>>,
}

const UNDECIDED: u8 = 0;
const PLAIN: u8 = 1;
const TUNNEL: u8 = 2;

impl Framing {
    /// Takes the note on this head of the connection, counted from 1. Callers must ask for heads in
    /// order.
    pub(super) fn take_note(&self, head: u64) -> Option<Note> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.pop_front_if(|(of, _)| *of == head).map(|(_, note)| note)
    }

    fn note(&self, head: u64, note: Note) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push_back((head, note));
    }

    /// Whether the client sent a body that cannot be delimited.
    pub(super) fn body_is_malformed(&self) -> bool {
        self.body_malformed.load(Ordering::Acquire)
    }

    /// Whether the connection was closed because nothing arrived.
    pub(super) fn was_silent(&self) -> bool {
        self.silent.load(Ordering::Acquire)
    }

    /// From here on the client's bytes belong to another protocol.
    pub(super) fn tunnel(&self) {
        self.decide(TUNNEL);
    }

    /// The request is answered; the bytes after it are another request.
    pub(super) fn answered(&self) {
        if self.upgrade.load(Ordering::Acquire) != TUNNEL {
            self.decide(PLAIN);
        }
    }

    fn decide(&self, upgrade: u8) {
        self.upgrade.store(upgrade, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The reader, wrapped around a connection to a client.
pub(super) struct Framed<S> {
    stream: S,
    framing: Arc<Framing>,
    limits: HeadLimits,
    state: State,
    /// Bytes that have arrived and have not been handed on.
    pending: BytesMut,
    /// How many of them, from the front, may be handed on.
    ready: usize,
    /// How many of them, from the front, have been searched for the end of a head.
    searched: usize,
    /// The number of heads handed on.
    heads: u64,
    /// The deadline for a complete head; it applies while `timed`.
    deadline: Pin<Box<Sleep>>,
    timed: bool,
    ended: bool,
}

#[derive(Debug)]
enum State {
    /// A head is next.
    Head,
    /// This many bytes of a body are next.
    Length(u64),
    /// A chunked body is next.
    Chunked(Chunked),
    /// An upgrade was requested: the meaning of the next bytes depends on the response.
    Held,
    /// All bytes pass through.
    Tunnel,
    /// Something was refused: nothing more is read.
    Refused,
    /// A body was malformed.
    Broken,
}

impl State {
    /// Follows a body or a tunnel through `bytes`. Returns how many of them, from the front, belong
    /// to it. After a body a head is next.
    fn follow(&mut self, bytes: &[u8], framing: &Framing) -> usize {
        let (own, next) = match self {
            Self::Length(left) => {
                let own = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= own as u64;
                (own, (*left == 0).then_some(Self::Head))
            }
            Self::Chunked(chunked) => match chunked.advance(bytes) {
                Progress::More => (bytes.len(), None),
                Progress::End(at) => (at, Some(Self::Head)),
                Progress::Malformed(at) => {
                    framing.body_malformed.store(true, Ordering::Release);
                    (at, Some(Self::Broken))
                }
            },
            Self::Tunnel => (bytes.len(), None),
            // Nothing passes uninspected.
            Self::Head | Self::Held | Self::Refused | Self::Broken => (0, None),
        };
        if let Some(next) = next {
            *self = next;
        }
        own
    }
}

impl<S: AsyncRead + Unpin> Framed<S> {
    pub(super) fn new(stream: S, limits: HeadLimits, framing: Arc<Framing>) -> Self {
        Self {
            stream,
            framing,
            limits,
            state: State::Head,
            pending: BytesMut::new(),
            ready: 0,
            searched: 0,
            heads: 0,
            // tidy: sleep: the deadline of a peer.
            deadline: Box::pin(tokio::time::sleep(limits.time)),
            timed: true,
            ended: false,
        }
    }

    /// Scans the pending bytes. Returns whether that made some of them ready or changed the state.
    fn scan(&mut self, cx: &mut Context<'_>) -> bool {
        match self.state {
            State::Head => self.scan_head(cx),
            State::Length(_) | State::Chunked(_) | State::Tunnel => {
                self.ready = self.state.follow(&self.pending, &self.framing);
                true
            }
            State::Held => {
                let plain = self.framing.upgrade.swap(UNDECIDED, Ordering::AcqRel) == PLAIN;
                if plain {
                    self.state = State::Head;
                }
                plain
            }
            State::Refused | State::Broken => false,
        }
    }

    fn scan_head(&mut self, cx: &mut Context<'_>) -> bool {
        // Empty lines before a head are ignored, as RFC 9112 recommends, and count towards no
        // limit.
        while self.pending.starts_with(b"\r\n") {
            self.pending.advance(2);
            self.searched = 0;
        }
        if self.pending.first().is_some_and(|byte| !head::begins_head(*byte)) {
            self.refuse(HeadError::Malformed("this is not HTTP"), cx);
            return true;
        }
        match self.head_end() {
            Ok(Some(end)) if end <= self.limits.bytes => {
                let bytes = self.pending.get(..end).unwrap_or_default();
                let handed_on =
                    head::read(bytes, self.limits.headers).and_then(|head| self.hand_on(&head, end));
                if let Err(error) = handed_on {
                    self.refuse(error, cx);
                }
                true
            }
            Ok(None) if self.pending.len() <= self.limits.bytes => false,
            Ok(_) => {
                self.refuse(HeadError::TooLarge, cx);
                true
            }
            Err(error) => {
                self.refuse(error, cx);
                true
            }
        }
    }

    /// The length of the head, if it is complete. Each byte is examined once.
    fn head_end(&mut self) -> Result<Option<usize>, HeadError> {
        let fresh = self.pending.iter().enumerate().skip(self.searched);
        for (at, byte) in fresh {
            let before = at.checked_sub(1).and_then(|before| self.pending.get(before));
            match (before, byte) {
                (Some(b'\r'), b'\n') if self.ends_head(at) => return Ok(Some(at + 1)),
                (Some(b'\r'), b'\n') => {}
                (_, b'\n') => {
                    return Err(HeadError::Malformed(
                        "a line of the request head ends without a carriage return",
                    ));
                }
                (Some(b'\r'), _) => {
                    return Err(HeadError::Malformed("the request head has a bare carriage return"));
                }
                _ => {}
            }
        }
        self.searched = self.pending.len();
        Ok(None)
    }

    /// Whether the byte at `at` is the last of a head.
    fn ends_head(&self, at: usize) -> bool {
        self.pending.get(..=at).is_some_and(|head| head.ends_with(b"\r\n\r\n"))
    }

    fn hand_on(&mut self, head: &head::Head, end: usize) -> Result<(), HeadError> {
        let mut end = end;
        if let Some(place) = &head.raw_target {
            let target = self.pending.get(place.clone()).unwrap_or_default().to_vec();
            let stand_in = head::stand_in(&target);
            end = end - target.len() + stand_in.len();
            if end > self.limits.bytes {
                return Err(HeadError::TooLarge);
            }
            let rest = self.pending.split_off(place.end);
            self.pending.truncate(place.start);
            self.pending.extend_from_slice(&stand_in);
            self.pending.unsplit(rest);
            self.framing.note(self.heads + 1, Note::Target(target));
        }
        self.ready = end;
        self.searched = 0;
        self.heads += 1;
        self.timed = false;
        self.state = match head.body {
            Body::Length(0) if head.upgrade => {
                // A decision left over from an earlier request must not apply to this one.
                self.framing.upgrade.store(UNDECIDED, Ordering::Release);
                State::Held
            }
            Body::Length(0) => State::Head,
            Body::Length(length) => State::Length(length),
            Body::Chunked => State::Chunked(Chunked::new()),
        };
        Ok(())
    }

    /// Replaces the head with a harmless one, for the service to answer.
    fn refuse(&mut self, error: HeadError, cx: &mut Context<'_>) {
        let refused = RefusedHead::new(error, &self.pending);
        self.discard(cx);
        let method = if refused.method == "HEAD" { "HEAD" } else { "GET" };
        self.heads += 1;
        self.framing.note(self.heads, Note::Refused(refused));
        self.pending.clear();
        self.pending
            .extend_from_slice(format!("{method} / HTTP/1.1\r\nconnection: close\r\n\r\n").as_bytes());
        self.ready = self.pending.len();
        self.timed = false;
        self.state = State::Refused;
    }

    /// Discards the bytes that have already arrived after a refused head: closing a socket with
    /// unread bytes would reset it.
    fn discard(&mut self, cx: &mut Context<'_>) {
        let mut scratch = [0; READ];
        for _ in 0..DISCARDED / READ {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                _ => return,
            }
        }
    }

    /// Reads more pending bytes. Returns how many.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let before = self.pending.len();
        self.pending.resize(before + READ, 0);
        let mut buffer = ReadBuf::new(self.pending.get_mut(before..).unwrap_or_default());
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
        let read = buffer.filled().len();
        self.pending.truncate(before + read);
        ready!(polled)?;
        self.ended |= read == 0;
        Poll::Ready(Ok(read))
    }

    /// Reads a body or a tunnel straight into the caller's buffer and follows it there.
    fn poll_pass(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let fresh = buffer.filled().get(start..).unwrap_or_default();
        self.ended |= fresh.is_empty();
        let own = self.state.follow(fresh, &self.framing);
        self.pending.extend_from_slice(fresh.get(own..).unwrap_or_default());
        buffer.set_filled(start + own);
        Poll::Ready(Ok(()))
    }

    /// Whether the deadline for the head has passed. Sets the deadline when a head has begun.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> bool {
        if !matches!(self.state, State::Head) {
            return false;
        }
        if !self.timed {
            if self.pending.is_empty() {
                return false;
            }
            self.timed = true;
            self.deadline.as_mut().reset(Instant::now() + self.limits.time);
        }
        self.deadline.as_mut().poll(cx).is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Framed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.ready > 0 {
                let taken = this.ready.min(buffer.remaining());
                buffer.put_slice(this.pending.get(..taken).unwrap_or_default());
                this.pending.advance(taken);
                this.ready -= taken;
                if this.pending.is_empty() {
                    // An idle connection keeps no buffer.
                    this.pending = BytesMut::new();
                }
                return Poll::Ready(Ok(()));
            }
            if this.framing.upgrade.load(Ordering::Acquire) == TUNNEL {
                this.state = State::Tunnel;
            }
            match this.state {
                State::Broken => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
                // The refusal is on its way; hyper closes the connection when it is written.
                State::Refused => return Poll::Pending,
                _ => {}
            }
            let looked = !this.pending.is_empty() || matches!(this.state, State::Held);
            if looked && this.scan(cx) {
                continue;
            }
            if this.ended {
                return Poll::Ready(Ok(()));
            }
            if matches!(this.state, State::Length(_) | State::Chunked(_) | State::Tunnel) {
                let start = buffer.filled().len();
                ready!(this.poll_pass(cx, buffer))?;
                if buffer.filled().len() > start || this.ended {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            if matches!(this.state, State::Held) {
                let waker = Some(cx.waker().clone());
                *this.framing.waker.lock().unwrap_or_else(PoisonError::into_inner) = waker;
                let decided = this.framing.upgrade.load(Ordering::Acquire) != UNDECIDED;
                if decided {
                    continue;
                }
                if this.pending.len() >= HELD {
                    return Poll::Pending;
                }
            }
            match this.poll_fill(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if this.poll_late(cx) => {
                    if this.pending.is_empty() {
                        this.framing.silent.store(true, Ordering::Release);
                        this.ended = true;
                        return Poll::Ready(Ok(()));
                    }
                    this.refuse(HeadError::Late, cx);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Framed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
