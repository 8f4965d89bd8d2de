//! Any bytes from a supervisor, for the fuzzers: see `fuzzing`.

use fuzz_input::{Input, pieces};
use sandbox_inside::{Decoder, Frame, ProtocolError};

/// The first bytes choose how the others are cut.
///
/// # Panics
///
/// When the cuts change what comes out, or when frames are written as other bytes than they were
/// read from.
pub fn supervisor_frames(data: &[u8]) {
    let mut input = Input::new(data);
    let sizes = input.sizes();
    let bytes = input.rest();
    let whole = read(&[bytes]);
    for sizes in [sizes.as_slice(), &[1]] {
        assert!(read(&pieces(bytes, sizes)) == whole, "cuts change what comes out");
    }
    let (frames, _) = whole;
    let written: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
    assert!(read(&[&written]) == (frames, None), "frames read back as others");
}

/// The frames, and what is not a frame.
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
