//! Any body that is declared as signed chunk by chunk.

use bytes::BytesMut;
use fuzz_input::{Input, pieces};
use http::HeaderMap;

use super::head::add_headers;
use super::real_values::{HOST, key};
use crate::signing::{ChunkError, ChunkSigner, MAX_CHUNK, Request, Resigned, claim, resign};

/// The most bytes that may be withheld in addition to the data of one chunk: a line before it, or
/// the trailers.
const MOST_LINES: usize = 8 * 1024 + 256;

/// The first byte selects algorithm and trailers, the next ones how the body is split; the rest is
/// the body.
///
/// # Panics
///
/// When the split changes the output, when the output differs from the input in length or in more
/// than its signatures, or when too much is withheld.
pub fn chunk_stream(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = input.byte();
    let sizes = input.sizes();
    let body = input.rest();
    let whole = pass(&mut signer(kind), &[body]);
    for sizes in [sizes.as_slice(), &[1]] {
        assert!(pass(&mut signer(kind), &pieces(body, sizes)) == whole, "the split changes the output");
    }
    let (result, output) = whole;
    let changed = body.iter().zip(&output).filter(|(before, after)| before != after);
    for (_, after) in changed {
        assert!(after.is_ascii_hexdigit() || *after == b'*', "more than signatures changed");
    }
    if result.is_ok() {
        assert_eq!(output.len(), body.len(), "the length of the body changed");
    }
}

/// Returns the result and the output.
fn pass(signer: &mut ChunkSigner, pieces: &[&[u8]]) -> (Result<(), ChunkError>, Vec<u8>) {
    let mut output = BytesMut::new();
    let mut sent = 0;
    for piece in pieces {
        sent += piece.len();
        if let Err(error) = signer.push(piece, &mut output) {
            assert_eq!(signer.push(b"x", &mut output), Err(error), "an error is not final");
            assert_eq!(signer.finish(&mut output), Err(error), "an error is not final");
            return (Err(error), output.to_vec());
        }
        assert!(output.len() <= sent, "the output is longer than the input");
        assert!(sent - output.len() <= MAX_CHUNK + MOST_LINES, "too much is withheld");
    }
    (signer.finish(&mut output), output.to_vec())
}

fn signer(kind: u8) -> ChunkSigner {
    let (algorithm, region) =
        if kind & 1 == 0 { ("AWS4-HMAC-SHA256", "/eu-west-1") } else { ("AWS4-ECDSA-P256-SHA256", "") };
    let trailer = if kind & 2 == 0 { "" } else { "-TRAILER" };
    let head = format!(
        "authorization: {algorithm} Credential=AKIASURROGATE0000000/20130524{region}/s3/aws4_request, \
         SignedHeaders=host, Signature=00\nx-amz-date: 20130524T000000Z\n\
         x-amz-content-sha256: STREAMING-{algorithm}-PAYLOAD{trailer}"
    );
    let mut headers = HeaderMap::new();
    add_headers(&mut headers, head.as_bytes());
    let Ok(Some(found)) = claim(&headers, "/") else {
        panic!("the request has no signature");
    };
    let request = Request { method: "PUT", host: HOST, target: "/", headers };
    let Ok(Resigned::Chunked(_, signer)) = resign(&found, &key(), request) else {
        panic!("the request has no chunks");
    };
    signer
}
