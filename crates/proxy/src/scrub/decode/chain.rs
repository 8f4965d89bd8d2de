//! Decoding of the codings of one body, one after the other.

use bytes::{Buf, Bytes};

use super::reservation::Reservation;
use super::{Coding, DecodeError, Decoder};

/// The maximum output of one step, in bytes.
const PIECE: usize = 32 * 1024;

/// The decoders of one body.
pub(in crate::scrub) struct Chain {
    /// The first of them reads what the upstream sends.
    stages: Vec<Stage>,
    piece: Box<[u8]>,
}

/// The result of [`Chain::pull`].
#[derive(Debug, PartialEq, Eq)]
pub(in crate::scrub) enum Pulled {
    /// Decoded bytes: at least one, and never more than a piece.
    Data(Bytes),
    /// All input so far is decoded and returned.
    Hungry,
    /// No output yet, and the steps are used up.
    Tired,
}

struct Stage {
    decoder: Box<dyn Decoder>,
    input: Bytes,
    reservation: Reservation,
}

impl Chain {
    /// Decodes `codings` in this order.
    pub(in crate::scrub) fn new(codings: &[Coding]) -> Result<Self, DecodeError> {
        let stages = codings.iter().map(|coding| Stage::new(*coding)).collect::<Result<_, _>>()?;
        Ok(Self { stages, piece: vec![0; PIECE].into_boxed_slice() })
    }

    /// Takes more input; only allowed when the chain is hungry.
    pub(in crate::scrub) fn feed(&mut self, input: Bytes) {
        if let Some(first) = self.stages.first_mut() {
            debug_assert!(first.input.is_empty(), "unread input would be lost");
            first.input = input;
        }
    }

    /// Returns the next piece. Decoding may yield nothing for a long time; each step uses up one of
    /// `steps`.
    pub(in crate::scrub) fn pull(&mut self, steps: &mut u32) -> Result<Pulled, DecodeError> {
        let last = self.stages.len().saturating_sub(1);
        let mut at = last;
        while let Some(stage) = self.stages.get_mut(at) {
            let Some(left) = steps.checked_sub(1) else {
                return Ok(Pulled::Tired);
            };
            *steps = left;
            let written = stage.step(&mut self.piece)?;
            if written > 0 {
                let data = Bytes::copy_from_slice(self.piece.get(..written).unwrap_or_default());
                if at == last {
                    return Ok(Pulled::Data(data));
                }
                at += 1;
                self.stages.get_mut(at).into_iter().for_each(|next| next.input.clone_from(&data));
            } else if stage.input.is_empty() {
                // Only the previous stage can supply more.
                let Some(before) = at.checked_sub(1) else {
                    return Ok(Pulled::Hungry);
                };
                at = before;
            }
        }
        Ok(Pulled::Hungry)
    }

    /// Checks that the body may end here.
    pub(in crate::scrub) fn finish(&mut self) -> Result<(), DecodeError> {
        self.stages.iter_mut().try_for_each(|stage| stage.decoder.finish())
    }
}

impl Stage {
    fn new(coding: Coding) -> Result<Self, DecodeError> {
        let decoder = coding.decoder()?;
        let mut reservation = Reservation::new();
        reservation.grow(decoder.memory())?;
        Ok(Self { decoder, input: Bytes::new(), reservation })
    }

    /// Takes one step, and returns how much it wrote into `output`.
    fn step(&mut self, output: &mut [u8]) -> Result<usize, DecodeError> {
        let step = self.decoder.step(&self.input, output)?;
        self.reservation.grow(self.decoder.memory())?;
        if step.read == 0 && step.written == 0 && !self.input.is_empty() {
            // A decoder that neither advances nor fails must not loop forever.
            return Err(DecodeError::Stuck);
        }
        self.input.advance(step.read.min(self.input.len()));
        Ok(step.written)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::encode;
    use super::*;

    const ALL: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

    /// Everything that can be decoded now.
    fn drain(chain: &mut Chain) -> Result<Vec<u8>, DecodeError> {
        let mut data = Vec::new();
        loop {
            match chain.pull(&mut 64)? {
                Pulled::Data(piece) => {
                    assert!(!piece.is_empty() && piece.len() <= PIECE);
                    data.extend_from_slice(&piece);
                }
                Pulled::Hungry => return Ok(data),
                Pulled::Tired => {}
            }
        }
    }

    fn decode(codings: &[Coding], chunks: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
        let mut chain = Chain::new(codings)?;
        let mut data = Vec::new();
        for chunk in chunks {
            chain.feed(Bytes::copy_from_slice(chunk));
            data.extend(drain(&mut chain)?);
        }
        chain.finish()?;
        Ok(data)
    }

    fn whole(coding: Coding, data: &[u8]) -> Vec<u8> {
        encode(coding, &[data]).concat()
    }

    #[test]
    fn flushed_piece_is_decoded_at_once() {
        // The first of them is exactly as long as a step's output.
        let long = vec![b'x'; PIECE];
        let pieces: [&[u8]; 4] = [&long, b"data: one\n\n", b"data: two\n\n", b"data: 3\n\n"];
        for coding in ALL {
            let mut chain = Chain::new(&[coding]).unwrap();
            for (encoded, piece) in encode(coding, &pieces).iter().zip(pieces) {
                chain.feed(Bytes::copy_from_slice(encoded));
                assert_eq!(drain(&mut chain).unwrap(), piece, "{coding:?}");
            }
        }
    }

    #[test]
    fn repeated_pull_without_input_stays_hungry() {
        for coding in ALL {
            let encoded = encode(coding, &[b"one", b"two"]);
            let mut chain = Chain::new(&[coding]).unwrap();
            chain.feed(Bytes::copy_from_slice(&encoded[0]));
            assert_eq!(drain(&mut chain).unwrap(), b"one");
            for _ in 0..100 {
                assert_eq!(chain.pull(&mut 64), Ok(Pulled::Hungry), "{coding:?}");
            }
            chain.feed(Bytes::copy_from_slice(&encoded[1..].concat()));
            assert_eq!(drain(&mut chain).unwrap(), b"two");
        }
    }

    #[test]
    fn truncated_or_foreign_data_is_an_error() {
        for coding in ALL {
            let encoded = whole(coding, b"The quick brown fox jumps over the lazy dog.");
            assert_eq!(decode(&[coding], &[]), Ok(Vec::new()), "{coding:?}");
            for length in 1..encoded.len() {
                assert!(decode(&[coding], &[&encoded[..length]]).is_err(), "{coding:?} {length}");
            }
            assert!(decode(&[coding], &[b"<html>no encoded data</html>"]).is_err(), "{coding:?}");
        }
    }

    #[test]
    fn consecutive_members_and_frames_are_decoded() {
        for coding in [Coding::Gzip, Coding::Zstd] {
            let encoded = [whole(coding, b"one "), whole(coding, b""), whole(coding, b"two")].concat();
            for size in 1..encoded.len() {
                let chunks: Vec<&[u8]> = encoded.chunks(size).collect();
                assert_eq!(decode(&[coding], &chunks), Ok(b"one two".to_vec()), "{coding:?} {size}");
            }
        }
    }

    #[test]
    fn bytes_after_the_end_are_dropped() {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli] {
            for rest in [&b"\0\0\0\0"[..], b"rest", b"\x1f", b"\x1frest"] {
                let encoded = whole(coding, b"one");
                assert_eq!(decode(&[coding], &[&encoded, rest]), Ok(b"one".to_vec()), "{coding:?} {rest:?}");
            }
        }
        let encoded = whole(Coding::Zstd, b"one");
        assert!(decode(&[Coding::Zstd], &[&encoded, b"rest"]).is_err());
    }

    #[test]
    fn gzip_header_with_every_part_is_decoded() {
        let plain = whole(Coding::Gzip, b"one");
        let header: &[u8] = b"\x1f\x8b\x08\x1e\0\0\0\0\0\xff\x03\0abcname\0comment\0\x12\x34";
        let encoded = [header, &plain[10..]].concat();
        for size in 1..encoded.len() {
            let chunks: Vec<&[u8]> = encoded.chunks(size).collect();
            assert_eq!(decode(&[Coding::Gzip], &chunks), Ok(b"one".to_vec()), "{size}");
        }
        let empty_extra: &[u8] = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\0\0";
        assert_eq!(decode(&[Coding::Gzip], &[empty_extra, &plain[10..]]), Ok(b"one".to_vec()));
    }

    #[test]
    fn wrong_checksum_is_an_error() {
        for end in [1, 5] {
            let mut encoded = whole(Coding::Gzip, b"one");
            let place = encoded.len() - end;
            encoded[place] ^= 1;
            assert_eq!(decode(&[Coding::Gzip], &[&encoded]), Err(DecodeError::Invalid { coding: "gzip" }));
        }
    }

    #[test]
    fn deflate_with_the_zlib_wrapper_is_decoded() {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut zlib, b"one").unwrap();
        let mut encoded = zlib.finish().unwrap();
        assert_eq!(decode(&[Coding::Deflate], &[&encoded]), Ok(b"one".to_vec()));
        *encoded.last_mut().unwrap() ^= 1;
        assert!(decode(&[Coding::Deflate], &[&encoded]).is_err());
    }

    #[test]
    fn windows_beyond_the_standards_are_refused() {
        // A frame header with a window of 16 MiB, then one of 8; a raw last block of one byte.
        let frame = |window| [&[0x28, 0xb5, 0x2f, 0xfd, 0, window][..], b"\x09\0\0x"].concat();
        assert!(decode(&[Coding::Zstd], &[&frame(14 << 3)]).is_err());
        assert_eq!(decode(&[Coding::Zstd], &[&frame(13 << 3)]), Ok(b"x".to_vec()));
        // Brotli's large window, which its standard does not define.
        assert!(decode(&[Coding::Brotli], &[&[0x11, 0xde]]).is_err());
    }

    #[test]
    fn bomb_is_decoded_in_pieces() {
        let zeros = vec![0; 4 << 20];
        for coding in ALL {
            let twice = whole(coding, &whole(coding, &zeros));
            let mut chain = Chain::new(&[coding, coding]).unwrap();
            chain.feed(twice.into());
            assert_eq!(drain(&mut chain).unwrap().len(), zeros.len(), "{coding:?}");
        }
    }

    #[test]
    fn bomb_without_output_makes_the_chain_tired() {
        // Empty stored blocks, compressed well.
        let nothing = [0, 0, 0, 0xff, 0xff].repeat(4 << 20);
        let mut chain = Chain::new(&[Coding::Gzip, Coding::Deflate]).unwrap();
        chain.feed(whole(Coding::Gzip, &nothing).into());
        assert_eq!(chain.pull(&mut 64), Ok(Pulled::Tired));
        assert_eq!(drain(&mut chain), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn result_does_not_depend_on_the_split(
            data in prop::collection::vec(any::<u8>(), 0..3000),
            repeat in 1_usize..30,
            codings in prop::collection::vec(prop::sample::select(ALL.to_vec()), 1..=3),
            size in 1_usize..200,
        ) {
            let data = data.repeat(repeat);
            let encoded = codings.iter().fold(data.clone(), |data, coding| whole(*coding, &data));
            let undo: Vec<Coding> = codings.iter().rev().copied().collect();
            let chunks: Vec<&[u8]> = encoded.chunks(size).collect();
            prop_assert_eq!(decode(&undo, &chunks), Ok(data));
        }

        #[test]
        fn decoder_never_panics(
            coding in prop::sample::select(ALL.to_vec()),
            data in prop::collection::vec(any::<u8>(), 0..300),
            valid in any::<bool>(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut data = if valid { whole(coding, &data) } else { data };
            if !data.is_empty() {
                let at = at.index(data.len());
                data[at] = byte;
            }
            let chunks: Vec<&[u8]> = data.chunks(7).collect();
            let mut chain = Chain::new(&[coding]).unwrap();
            for chunk in chunks {
                chain.feed(Bytes::copy_from_slice(chunk));
                if drain(&mut chain).is_err() {
                    break;
                }
            }
        }
    }
}
