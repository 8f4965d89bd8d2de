//! Reads a pack object by object, as it arrives.

use flate2::{Decompress, FlushDecompress, Status};

use super::ancestry::{Ancestry, COMMIT};
use super::commit::Format;
use super::delta::apply;
use super::object_head::{self, Kind};

/// Bytes before the first object.
const HEAD: usize = 12;
/// The number of bytes that are inflated at once.
const PIECE: usize = 16 * 1024;
/// The cost of a call to inflate, in bytes, in addition to its output.
const CALL: usize = 512;

/// The pack is not readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads the objects of a pack and keeps its commits.
pub(super) struct Pack {
    format: Format,
    state: State,
    /// The number of bytes of the pack that were read.
    place: u64,
    objects_left: u32,
    inflate: Decompress,
    piece: Box<[u8]>,
    pub(super) ancestry: Ancestry,
}

enum State {
    /// Before the first object: the part of the pack's header that has arrived.
    Head(Vec<u8>),
    /// Before an object: the part of its header that has arrived.
    Between(Vec<u8>),
    /// In an object.
    Object(Object),
    /// After the last object.
    End,
}

struct Object {
    place: u64,
    left: u64,
    /// A commit, or the delta of one.
    kept: Option<Kept>,
}

struct Kept {
    bytes: Vec<u8>,
    /// The object that the bytes are a delta of.
    base: Option<Vec<u8>>,
}

impl Pack {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            state: State::Head(Vec::new()),
            place: 0,
            objects_left: 0,
            inflate: Decompress::new(true),
            piece: vec![0; PIECE].into(),
            ancestry: Ancestry::new(format),
        }
    }

    /// Whether the last object was read, so that only the checksum follows.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Continues to read until `effort` bytes are inflated, and returns how many bytes of `data`
    /// belong to headers or to objects. Fewer than `data` has means that the last object ends
    /// there, or that the effort is used up.
    pub(super) fn read(&mut self, data: &[u8], effort: &mut usize) -> Result<usize, Malformed> {
        let mut rest = data;
        while !self.is_read() && *effort > 0 {
            let before = rest.len();
            let moved = match std::mem::replace(&mut self.state, State::End) {
                State::End => break,
                State::Head(head) => self.head(head, &mut rest)?,
                State::Between(head) => self.object_head(head, &mut rest)?,
                State::Object(object) => self.object(object, &mut rest, effort)?,
            };
            self.place = self.place.saturating_add((before - rest.len()) as u64);
            if !moved {
                break;
            }
        }
        Ok(data.len() - rest.len())
    }

    /// Returns whether reading can continue with the bytes that are left.
    fn head(&mut self, mut head: Vec<u8>, rest: &mut &[u8]) -> Result<bool, Malformed> {
        take(&mut head, rest, HEAD);
        let Some((start, count)) = head.split_last_chunk::<4>().filter(|_| head.len() == HEAD) else {
            self.state = State::Head(head);
            return Ok(false);
        };
        if start != b"PACK\0\0\0\x02" {
            return Err(Malformed);
        }
        self.objects_left = u32::from_be_bytes(*count);
        self.between();
        Ok(true)
    }

    fn between(&mut self) {
        self.state = if self.objects_left == 0 { State::End } else { State::Between(Vec::new()) };
    }

    fn object_head(&mut self, mut head: Vec<u8>, rest: &mut &[u8]) -> Result<bool, Malformed> {
        let start = self.place - head.len() as u64;
        loop {
            if let Some(read) = object_head::read(&head, start, self.format).map_err(|_| Malformed)? {
                let base = match read.kind {
                    Kind::Commit => Some(None),
                    Kind::Other => None,
                    Kind::DeltaOfPlace(place) => self.ancestry.at(place).map(|base| Some(base.to_vec())),
                    Kind::DeltaOf(id) => self.ancestry.by_id(&id).map(|base| Some(base.to_vec())),
                };
                let kept = base.filter(|_| read.size <= COMMIT as u64);
                let kept = kept.map(|base| Kept { bytes: Vec::new(), base });
                self.state = State::Object(Object { place: start, left: read.size, kept });
                self.inflate.reset(true);
                return Ok(true);
            }
            if rest.is_empty() {
                self.state = State::Between(head);
                return Ok(false);
            }
            let enough = head.len() + 1;
            take(&mut head, rest, enough);
        }
    }

    fn object(
        &mut self,
        mut object: Object,
        rest: &mut &[u8],
        effort: &mut usize,
    ) -> Result<bool, Malformed> {
        let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
        let status =
            self.inflate.decompress(rest, &mut self.piece, FlushDecompress::None).map_err(|_| Malformed)?;
        let read = usize::try_from(self.inflate.total_in() - read).map_err(|_| Malformed)?;
        let written = usize::try_from(self.inflate.total_out() - written).map_err(|_| Malformed)?;
        *rest = rest.get(read..).ok_or(Malformed)?;
        *effort = effort.saturating_sub(written + CALL);
        object.left = object.left.checked_sub(written as u64).ok_or(Malformed)?;
        if let Some(kept) = &mut object.kept {
            kept.bytes.extend_from_slice(self.piece.get(..written).unwrap_or_default());
        }
        if status == Status::StreamEnd {
            if object.left > 0 {
                return Err(Malformed);
            }
            self.keep(object);
            self.objects_left = self.objects_left.saturating_sub(1);
            self.between();
            return Ok(true);
        }
        if read == 0 && written == 0 && !rest.is_empty() {
            return Err(Malformed);
        }
        self.state = State::Object(object);
        Ok(written == PIECE || !rest.is_empty())
    }

    fn keep(&mut self, object: Object) {
        let commit = match object.kept {
            Some(Kept { bytes, base: None }) => Some(bytes),
            Some(Kept { bytes, base: Some(base) }) => apply(&base, &bytes, COMMIT),
            None => None,
        };
        if let Some(commit) = commit {
            self.ancestry.add(object.place, commit);
        }
    }
}

/// Moves bytes from `rest` to `head` until `head` has `enough`.
fn take(head: &mut Vec<u8>, rest: &mut &[u8], enough: usize) {
    let (taken, after) = rest.split_at(enough.saturating_sub(head.len()).min(rest.len()));
    head.extend_from_slice(taken);
    *rest = after;
}
