//! Encoders, for tests and fuzzers.
#![expect(clippy::unwrap_used, reason = "encoding into memory cannot fail, and no shipped program does it")]

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, InBuffer, OutBuffer};

use super::Coding;

/// Encodes `pieces` in `coding`, with a flush after each; the last element is the end of the data.
pub(crate) fn encode(coding: Coding, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    match coding {
        Coding::Gzip => {
            flushed(GzEncoder::new(Vec::new(), Compression::fast()), pieces, GzEncoder::get_mut, |encoder| {
                encoder.finish().unwrap()
            })
        }
        Coding::Deflate => flushed(
            DeflateEncoder::new(Vec::new(), Compression::fast()),
            pieces,
            DeflateEncoder::get_mut,
            |encoder| encoder.finish().unwrap(),
        ),
        Coding::Brotli => flushed(
            brotli::CompressorWriter::new(Vec::new(), 4096, 3, 22),
            pieces,
            brotli::CompressorWriter::get_mut,
            brotli::CompressorWriter::into_inner,
        ),
        Coding::Zstd => zstd(pieces),
    }
}

fn flushed<W: Write>(
    mut encoder: W,
    pieces: &[&[u8]],
    out: fn(&mut W) -> &mut Vec<u8>,
    finish: fn(W) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let mut flushed = Vec::new();
    for piece in pieces {
        encoder.write_all(piece).unwrap();
        encoder.flush().unwrap();
        flushed.push(std::mem::take(out(&mut encoder)));
    }
    flushed.push(finish(encoder));
    flushed
}

fn zstd(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut context = CCtx::create();
    let mut run = |piece: &[u8], end| {
        let mut out = vec![0; 1024 + 2 * piece.len()];
        let mut to = OutBuffer::around(&mut out[..]);
        assert_eq!(context.compress_stream2(&mut to, &mut InBuffer::around(piece), end).unwrap(), 0);
        let length = to.pos();
        out.truncate(length);
        out
    };
    let mut encoded: Vec<Vec<u8>> =
        pieces.iter().map(|piece| run(piece, ZSTD_EndDirective::ZSTD_e_flush)).collect();
    encoded.push(run(&[], ZSTD_EndDirective::ZSTD_e_end));
    encoded
}
