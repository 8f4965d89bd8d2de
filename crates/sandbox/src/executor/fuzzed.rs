//! Arbitrary bytes from a supervisor, for the fuzzers: see `fuzzing`.

use fuzz_input::{Input, pieces};
use sandbox_inside::{Decoder, Frame, ProtocolError};

/// The first bytes choose how the others are split.
///
/// # Panics
///
/// When the split changes the result, or when frames are not encoded to the bytes that they were
/// decoded from.
pub fn supervisor_frames(data: &[u8]) {
    let mut input = Input::new(data);
    let sizes = input.sizes();
    let bytes = input.rest();
    let whole = read(&[bytes]);
    for sizes in [sizes.as_slice(), &[1]] {
        assert!(read(&pieces(bytes, sizes)) == whole, "a split changes the result");
    }
    let (frames, _) = whole;
    let written: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
    assert!(read(&[&written]) == (frames, None), "frames are not decoded as encoded");
}

/// The frames, and the protocol error after them.
fn read(pieces: &[&[u8]]) -> (Vec<Frame>, Option<ProtocolError>) {
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}
