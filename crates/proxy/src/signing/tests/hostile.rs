//! Input from a hostile client: no input makes a signer panic or hold more than it may, and the
//! result never depends on how the input is split.

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::fixture::real_key;
use crate::signing::algorithm::Algorithm;
use crate::signing::chain::Chain;
use crate::signing::key::SigningKey;
use crate::signing::scope::Scope;
use crate::signing::target::Target;
use crate::signing::{
    Carrier, ChunkError, ChunkSigner, MAX_CHUNK, Request, Resigned, SignError, Signed, claim, resign,
    without_signature,
};

fn signer(algorithm: Algorithm, has_trailers: bool) -> ChunkSigner {
    let credential = match algorithm {
        Algorithm::V4 => "K/20130524/us-east-1/s3/aws4_request",
        Algorithm::V4a => "K/20130524/s3/aws4_request",
    };
    let (_, scope) = Scope::of_credential(algorithm, credential).unwrap();
    let key = SigningKey::derive(algorithm, &real_key("AKID", "secret", None), &scope).unwrap();
    let chain = Chain::new(key, algorithm, "20130524T000000Z", scope.text(), "5eed".to_owned());
    ChunkSigner::new(chain, has_trailers)
}

/// A body with chunks of these sizes, signed with zeros.
fn body(algorithm: Algorithm, sizes: &[usize], has_trailers: bool) -> Vec<u8> {
    let signature = match algorithm {
        Algorithm::V4 => "0".repeat(64),
        Algorithm::V4a => "*".repeat(144),
    };
    let mut text = Vec::new();
    for (at, size) in sizes.iter().chain([&0]).enumerate() {
        text.extend_from_slice(format!("{size:x};chunk-signature={signature}\r\n").as_bytes());
        if *size > 0 {
            text.extend((0..*size).map(|byte| u8::try_from((byte * 7 + at) % 256).unwrap()));
            text.extend_from_slice(b"\r\n");
        }
    }
    if has_trailers {
        let trailers = format!("x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:{signature}\r\n");
        text.extend_from_slice(trailers.as_bytes());
    }
    text.extend_from_slice(b"\r\n");
    text
}

fn pass(signer: &mut ChunkSigner, input: &[u8], cuts: &[usize]) -> Result<Vec<u8>, ChunkError> {
    let mut output = BytesMut::new();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
    cuts.push(input.len());
    cuts.sort_unstable();
    let mut from = 0;
    for cut in cuts {
        signer.push(&input[from..cut], &mut output)?;
        from = cut;
        assert!(output.len() <= from, "more came out than went in");
        assert!(from - output.len() <= MAX_CHUNK + 256, "too much is held");
    }
    signer.finish(&mut output)?;
    Ok(output.to_vec())
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![Just(Algorithm::V4), Just(Algorithm::V4a)]
}

#[test]
fn every_cut_of_a_body_gives_the_same_output() {
    for algorithm in [Algorithm::V4, Algorithm::V4a] {
        let input = body(algorithm, &[3], true);
        let whole = pass(&mut signer(algorithm, true), &input, &[]).unwrap();
        assert_eq!(whole.len(), input.len());
        assert_ne!(whole, input);
        for cut in 0..input.len() {
            assert_eq!(pass(&mut signer(algorithm, true), &input, &[cut]).unwrap(), whole, "{cut}");
        }
        let bytes: Vec<usize> = (0..input.len()).collect();
        assert_eq!(pass(&mut signer(algorithm, true), &input, &bytes).unwrap(), whole);
    }
}

#[test]
fn body_that_ends_early_is_truncated() {
    let input = body(Algorithm::V4, &[3], false);
    for end in 0..input.len() - 2 {
        assert_eq!(
            pass(&mut signer(Algorithm::V4, false), &input[..end], &[]),
            Err(ChunkError::Truncated),
            "{end}"
        );
    }
    let input = body(Algorithm::V4, &[3], true);
    let unsigned = input.len() - "0000\r\n\r\n".len();
    for end in 0..unsigned {
        assert!(pass(&mut signer(Algorithm::V4, true), &input[..end], &[]).is_err(), "{end}");
    }
}

#[test]
fn malformed_bodies_are_refused() {
    type Expected = fn(&ChunkError) -> bool;
    let line = |size: &str| format!("{size};chunk-signature={}\r\n", "0".repeat(64));
    let malformed: Expected = |error: &ChunkError| matches!(error, ChunkError::Malformed(_));
    let too_large: Expected = |error: &ChunkError| *error == ChunkError::TooLarge;
    let after_end: Expected = |error: &ChunkError| *error == ChunkError::DataAfterEnd;
    let table: [(bool, String, Expected); 12] = [
        (false, format!("{}aXX", line("1")), malformed),
        (false, format!("{}a\n", line("1")), malformed),
        (false, format!("{}a\r\r\n", line("1")), malformed),
        (false, line("100001"), too_large),
        (false, line("ffffffffffffffff"), too_large),
        (false, "0".repeat(300), malformed),
        (false, format!("{}\r\nx", line("0")), after_end),
        (false, format!("{}x-amz-a:1\r\n", line("0")), malformed),
        (true, format!("{}no-colon\r\n", line("0")), malformed),
        (true, format!("{}: a\r\n", line("0")), malformed),
        (true, format!("{}a:{}\r\n", line("0"), "b".repeat(9000)), malformed),
        (true, format!("{}x-amz-trailer-signature:{}\r\nlate:1\r\n", line("0"), "0".repeat(64)), after_end),
    ];
    for (has_trailers, text, expected) in table {
        let mut signer = signer(Algorithm::V4, has_trailers);
        let mut output = BytesMut::new();
        let error = signer.push(text.as_bytes(), &mut output).unwrap_err();
        assert!(expected(&error), "{text:?}: {error}");
        // The error is final.
        assert_eq!(signer.push(b"x", &mut output), Err(error));
        assert_eq!(signer.finish(&mut output), Err(error));
    }
}

#[test]
fn largest_chunk_passes() {
    let input = body(Algorithm::V4, &[MAX_CHUNK], false);
    let output = pass(&mut signer(Algorithm::V4, false), &input, &[70_000, 900_000]).unwrap();
    assert_eq!(output.len(), input.len());
}

#[test]
fn signature_without_room_is_an_error() {
    let input = "0;chunk-signature=00\r\n\r\n";
    assert_eq!(
        pass(&mut signer(Algorithm::V4a, false), input.as_bytes(), &[]),
        Err(ChunkError::SignatureWidth)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_split_gives_the_same_output(
        algorithm in algorithm(),
        has_trailers: bool,
        sizes in proptest::collection::vec(1..3000usize, 0..5),
        cuts in proptest::collection::vec(any::<usize>(), 0..40),
    ) {
        let input = body(algorithm, &sizes, has_trailers);
        let whole = pass(&mut signer(algorithm, has_trailers), &input, &[]).unwrap();
        prop_assert_eq!(whole.len(), input.len());
        prop_assert!(pass(&mut signer(algorithm, has_trailers), &input, &cuts).unwrap() == whole);
    }

    #[test]
    fn any_split_of_a_damaged_body_gives_the_same_error(
        has_trailers: bool,
        at: usize,
        byte: u8,
        cuts in proptest::collection::vec(any::<usize>(), 0..40),
    ) {
        let mut input = body(Algorithm::V4, &[5, 40], has_trailers);
        let at = at % input.len();
        input[at] = byte;
        let whole = pass(&mut signer(Algorithm::V4, has_trailers), &input, &[]);
        let split = pass(&mut signer(Algorithm::V4, has_trailers), &input, &cuts);
        prop_assert_eq!(whole.is_ok(), split.is_ok());
        prop_assert_eq!(whole.ok(), split.ok());
    }
}

/// Times that are invalid in UTC, and some at the very limit.
#[test]
fn date_header_beyond_the_last_year_is_refused() {
    for (date, fits) in [
        ("Fri, 31 Dec 9999 23:59:59 -0100", false),
        ("Fri, 31 Dec 9999 23:59:59 -2359", false),
        ("Fri, 31 Dec 9999 23:59:60 -0100", false),
        ("Sat, 01 Jan 0000 00:00:00 +2359", false),
        ("Fri, 31 Dec 9999 23:59:59 +0000", true),
        ("Fri, 24 May 2013 00:00:00 -0100", true),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(
            "authorization",
            HeaderValue::from_static(
                "AWS4-HMAC-SHA256 Credential=A/20150830/r/s/aws4_request, SignedHeaders=host, Signature=a",
            ),
        );
        headers.insert("date", HeaderValue::from_static(date));
        let found = claim(&headers, "/");
        if fits {
            assert_eq!(found.unwrap().unwrap().key_id(), "A", "{date}");
        } else {
            let refusal = SignError::Malformed("the date has the wrong form");
            assert_eq!(found, Err(refusal), "{date}");
        }
    }
}

/// Pieces of hostile targets and headers.
const PIECES: [&str; 20] = [
    "X-Amz-Algorithm=AWS4-HMAC-SHA256",
    "X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256",
    "X-Amz-Credential=AKIASURROGATE0000000%2F20130524%2Fus-east-1%2Fs3%2Faws4_request",
    "X-Amz-Credential=AKIASURROGATE0000000/20130524/s3/aws4_request",
    "X-Amz-Date=20130524T000000Z",
    "X-Amz-SignedHeaders=host",
    "X-Amz-Signature=zz",
    "X-Amz-Security-Token=%zz%",
    "AWSAccessKeyId=a",
    "Signature=b",
    "%",
    "=",
    "+",
    "/../",
    "AWS4-HMAC-SHA256 ",
    "Credential=AKIASURROGATE0000000/20130524/us-east-1/s3/aws4_request",
    "SignedHeaders=host;x-amz-date",
    "Signature=zz",
    "\u{1234}",
    "20130524T000000Z",
];

/// The pieces of a presigned URL.
const QUERY: &[&str] = &[PIECES[0], PIECES[2], PIECES[4], PIECES[5], PIECES[6]];
/// The pieces of a header.
const AUTHORIZATION: &[&str] = &[
    "AWS4-HMAC-SHA256 Credential=AKIASURROGATE0000000/20130524/us-east-1/s3/aws4_request",
    "SignedHeaders=host;x-amz-date",
    "Signature=zz",
];

/// Some of the pieces in any order, or the `whole` with pieces put in or dropped.
fn pieces(separator: &'static str, whole: &'static [&'static str]) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => proptest::sample::select(PIECES.as_slice()).prop_map(str::to_owned),
        1 => ".{0,6}",
    ];
    let added = proptest::collection::vec((any::<proptest::sample::Index>(), piece.clone()), 0..2);
    let dropped = proptest::option::weighted(0.2, any::<proptest::sample::Index>());
    let changed = (added, dropped).prop_map(|(added, dropped)| {
        let mut pieces: Vec<String> = whole.iter().map(|piece| (*piece).to_owned()).collect();
        if let Some(at) = dropped.filter(|_| !whole.is_empty()) {
            pieces.remove(at.index(whole.len()));
        }
        for (at, piece) in added {
            pieces.insert(at.index(pieces.len() + 1), piece);
        }
        pieces
    });
    prop_oneof![proptest::collection::vec(piece, 0..9), changed]
        .prop_map(move |pieces| pieces.join(separator))
}

/// Checks that the whole credential is real, and that nothing of the container's is left.
fn whole(signed: &Signed, carrier: Carrier) -> Result<(), TestCaseError> {
    let signature = match carrier {
        Carrier::Header => {
            let value = signed.headers["authorization"].to_str().unwrap();
            value.rsplit_once("Signature=").unwrap().1.to_owned()
        }
        Carrier::Query => {
            let target = Target::new(&signed.target);
            target.value("x-amz-signature").unwrap().unwrap().to_owned()
        }
    };
    prop_assert!(signature.len() >= 64, "{}", signature);
    if let Some(token) = signed.headers.get("x-amz-security-token") {
        prop_assert_eq!(token, "REALTOKEN");
    }
    let found = claim(&signed.headers, &signed.target).unwrap().unwrap();
    prop_assert_eq!(found.key_id(), "REALKEY");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_request_is_signed_whole_or_not_at_all(
        path in pieces("/", &["a"]),
        query in prop_oneof![pieces("&", &[]), pieces("&", QUERY)],
        authorization in prop_oneof![pieces(", ", &[]), pieces(", ", AUTHORIZATION)],
        date in prop_oneof![Just("20130524T000000Z".to_owned()), ".{0,20}"],
        content in prop_oneof![Just(None), pieces("-", &["UNSIGNED-PAYLOAD"]).prop_map(Some)],
    ) {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", Some(authorization)),
            ("x-amz-date", Some(date)),
            ("x-amz-content-sha256", content),
            ("x-amz-security-token", Some("surrogate".to_owned())),
        ] {
            if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok()) {
                headers.append(HeaderName::from_static(name), value);
            }
        }
        let target = format!("/{path}?{query}");
        if let Ok(Some(found)) = claim(&headers, &target) {
            let (left, rest) = without_signature(Some(&found), &headers, &target);
            prop_assert_eq!(claim(&left, &rest), Ok(None));
            let request = Request { method: "GET", host: "h", target: &target, headers };
            let key = real_key("REALKEY", "real-secret", Some("REALTOKEN"));
            match resign(&found, &key, request) {
                Err(error) => prop_assert!(!error.to_string().contains("REAL")),
                Ok(Resigned::Hash(pending)) => whole(&pending.finish([0; 32]).unwrap(), found.carrier())?,
                Ok(Resigned::Ready(signed) | Resigned::Chunked(signed, _)) => whole(&signed, found.carrier())?,
            }
        }
    }
}
