//! The worked examples of the AWS documentation of S3, to the last digit; for SigV4A, whose
//! signatures are random, the published public key of the same credential verifies them.

use bytes::BytesMut;

use super::fixture::{SURROGATE_KEY_ID, SURROGATE_TOKEN, WireRequest, header, real_key, verifies};
use crate::signing::encoding::sha256_hex;
use crate::signing::{ChunkSigner, Request, Resigned, SignError, Signed, claim, resign};

const KEY_ID: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The public key that belongs to [`KEY_ID`] and [`SECRET`].
const PUBLIC_X: &str = "18b7d04643359f6ec270dcbab8dce6d169d66ddc9778c75cfb08dfdb701637ab";
const PUBLIC_Y: &str = "fa36b35e4fe67e3112261d2e17a956ef85b06e44712d2850bcd3c2161e9993f2";

fn surrogate_header(service_scope: &str, signed_headers: &str) -> String {
    let algorithm =
        if service_scope.starts_with("us-east-1/") { "AWS4-HMAC-SHA256" } else { "AWS4-ECDSA-P256-SHA256" };
    format!(
        "{algorithm} Credential={SURROGATE_KEY_ID}/20130524/{service_scope}/aws4_request,\
         SignedHeaders={signed_headers},Signature={}",
        "0".repeat(64)
    )
}

fn resigned(text: &str, token: Option<&str>) -> Result<Resigned, SignError> {
    let request = WireRequest::new(text);
    let found = claim(&request.headers, &request.target).unwrap().unwrap();
    let wire = Request {
        method: &request.method,
        host: request.host(),
        target: &request.target,
        headers: request.headers.clone(),
    };
    resign(&found, &real_key(KEY_ID, SECRET, token), wire)
}

fn ready(text: &str, token: Option<&str>) -> Signed {
    match resigned(text, token).unwrap() {
        Resigned::Ready(signed) => signed,
        other => panic!("{other:?}"),
    }
}

fn chunked(text: &str) -> (Signed, ChunkSigner) {
    match resigned(text, None).unwrap() {
        Resigned::Chunked(signed, chunks) => (signed, chunks),
        other => panic!("{other:?}"),
    }
}

fn signature(signed: &Signed) -> &str {
    let (_, signature) = header(&signed.headers, "authorization").unwrap().split_once("Signature=").unwrap();
    signature
}

#[test]
fn requests_are_signed_as_documented() {
    let host = "Host: examplebucket.s3.amazonaws.com\nx-amz-date: 20130524T000000Z";
    let get = "host;range;x-amz-content-sha256;x-amz-date";
    let put = "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class";
    let list = "host;x-amz-content-sha256;x-amz-date";
    let table = [
        (
            format!("GET /test.txt HTTP/1.1\n{host}\nRange: bytes=0-9\nx-amz-content-sha256: {EMPTY}"),
            get,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            format!(
                "PUT /test$file.text HTTP/1.1\n{host}\nDate: Fri, 24 May 2013 00:00:00 GMT\n\
                 x-amz-storage-class: REDUCED_REDUNDANCY\n\
                 x-amz-content-sha256: 44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
            ),
            put,
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            format!("GET /?lifecycle HTTP/1.1\n{host}\nx-amz-content-sha256: {EMPTY}"),
            list,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            format!("GET /?prefix=J&max-keys=2 HTTP/1.1\n{host}\nx-amz-content-sha256: {EMPTY}"),
            list,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ];
    for (text, signed_headers, expected) in table {
        let authorization = surrogate_header("us-east-1/s3", signed_headers);
        let signed = ready(&format!("{text}\nAuthorization: {authorization}\n\n"), None);
        assert_eq!(signature(&signed), expected, "{text}");
        assert_eq!(
            header(&signed.headers, "authorization").unwrap(),
            format!(
                "AWS4-HMAC-SHA256 Credential={KEY_ID}/20130524/us-east-1/s3/aws4_request, \
                 SignedHeaders={signed_headers}, Signature={expected}"
            )
        );
    }
}

#[test]
fn presigned_url_is_signed_as_documented() {
    let url = |key: &str, signature: &str| {
        format!(
            "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={key}%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature={signature}"
        )
    };
    let text =
        format!("GET {} HTTP/1.1\nHost: examplebucket.s3.amazonaws.com\n\n", url(SURROGATE_KEY_ID, "00"));
    let expected = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    assert_eq!(ready(&text, None).target, url(KEY_ID, expected));
}

/// A body of 65 KiB of the letter `a` in two chunks with these signatures, followed by `end`.
fn body(signatures: [&str; 3], end: &str) -> Vec<u8> {
    let [first, second, last] = signatures;
    format!(
        "10000;chunk-signature={first}\r\n{}\r\n400;chunk-signature={second}\r\n{}\r\n0;chunk-signature={last}\r\n{end}",
        "a".repeat(65536),
        "a".repeat(1024)
    )
    .into_bytes()
}

fn upload(content: &str, region: &str, trailer: &str, scope: &str, signed_headers: &str) -> String {
    let authorization = surrogate_header(scope, signed_headers);
    format!(
        "PUT /examplebucket/chunkObject.txt HTTP/1.1\nHost: s3.amazonaws.com\nx-amz-date: 20130524T000000Z\n{region}\
         x-amz-storage-class: REDUCED_REDUNDANCY\nAuthorization: {authorization}\nx-amz-content-sha256: {content}\n\
         Content-Encoding: aws-chunked\nx-amz-decoded-content-length: 66560\n{trailer}Content-Length: 66824\n\n"
    )
}

fn pass(chunks: &mut ChunkSigner, input: &[u8]) -> Vec<u8> {
    let mut output = BytesMut::new();
    chunks.push(input, &mut output).unwrap();
    chunks.finish(&mut output).unwrap();
    output.to_vec()
}

#[test]
fn chunked_upload_is_signed_as_documented() {
    let text = upload(
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "",
        "",
        "us-east-1/s3",
        "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
    );
    let (signed, mut chunks) = chunked(&text);
    assert_eq!(signature(&signed), "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");
    let zeros = "0".repeat(64);
    let output = pass(&mut chunks, &body([&zeros, &zeros, &zeros], "\r\n"));
    let expected = body(
        [
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        ],
        "\r\n",
    );
    assert!(output == expected);
}

#[test]
fn chunked_upload_with_a_trailer_is_signed_as_documented() {
    let text = upload(
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        "",
        "x-amz-trailer: x-amz-checksum-crc32c\n",
        "us-east-1/s3",
        "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
    );
    let zeros = "0".repeat(64);
    let signatures = [
        "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
        "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
        "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
    ];
    let trailer = "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435";
    // Clients end the lines of the block in several ways.
    for end in [
        "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:SIGNATURE\r\n\r\n",
        "x-amz-checksum-crc32c:sOO8/Q==\n\r\nx-amz-trailer-signature:SIGNATURE\n\r\n",
        "\r\nx-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:SIGNATURE\r\n",
        "X-Amz-Checksum-CRC32C: sOO8/Q==\r\nX-Amz-Trailer-Signature: SIGNATURE",
    ] {
        let (signed, mut chunks) = chunked(&text);
        assert_eq!(signature(&signed), "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e");
        let output = pass(&mut chunks, &body([&zeros, &zeros, &zeros], &end.replace("SIGNATURE", &zeros)));
        assert!(output == body(signatures, &end.replace("SIGNATURE", trailer)), "{end:?}");
    }
}

#[test]
fn chunked_upload_with_trailers_is_signed_by_v4a() {
    let text = upload(
        "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER",
        "x-amz-region-set: us-east-1\n",
        "x-amz-trailer: first,second,third\n",
        "s3",
        "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-region-set;\
         x-amz-storage-class;x-amz-trailer",
    );
    let (signed, mut chunks) = chunked(&text);
    let padding = "*".repeat(144);
    let end = format!("third:3rd\r\nfirst:1st\r\nsecond:2nd\r\nx-amz-trailer-signature:{padding}\r\n\r\n");
    let input = body([&padding, &padding, &padding], &end);
    let output = pass(&mut chunks, &input);
    assert_eq!(output.len(), input.len());

    let seed = signature(&signed).to_owned();
    let canonical = "PUT\n/examplebucket/chunkObject.txt\n\ncontent-encoding:aws-chunked\ncontent-length:66824\n\
                     host:s3.amazonaws.com\nx-amz-content-sha256:STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER\n\
                     x-amz-date:20130524T000000Z\nx-amz-decoded-content-length:66560\nx-amz-region-set:us-east-1\n\
                     x-amz-storage-class:REDUCED_REDUNDANCY\nx-amz-trailer:first,second,third\n\n\
                     content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;\
                     x-amz-region-set;x-amz-storage-class;x-amz-trailer\n\
                     STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER";
    let scope = "20130524T000000Z\n20130524/s3/aws4_request";
    let request = format!("AWS4-ECDSA-P256-SHA256\n{scope}\n{}", sha256_hex(canonical.as_bytes()));
    assert!(verifies(PUBLIC_X, PUBLIC_Y, &request, &seed));

    // The hashes of the two chunks, of nothing, and of the three trailers in order.
    let pieces = [
        ("PAYLOAD", format!("{EMPTY}\nbf718b6f653bebc184e1479f1935b8da974d701b893afcf49e701f3e2f9f9c5a")),
        ("PAYLOAD", format!("{EMPTY}\n2edc986847e209b4016e141a6dc8716d3207350f416969382d431539bf292e4a")),
        ("PAYLOAD", format!("{EMPTY}\n{EMPTY}")),
        ("TRAILER", "83d8f190334fb741bc8daf73c891689d320bd8017756bc730c540021ed48001f".to_owned()),
    ];
    let text = String::from_utf8(output).unwrap();
    let padded: Vec<&str> = text
        .split("signature=")
        .flat_map(|part| part.split("trailer-signature:"))
        .skip(1)
        .map(|part| part.lines().next().unwrap())
        .collect();
    assert_eq!(padded.len(), pieces.len());
    let mut previous = seed;
    for ((kind, payload), padded) in pieces.iter().zip(padded) {
        assert_eq!(padded.len(), 144);
        let signature = padded.trim_end_matches('*');
        let string_to_sign = format!("AWS4-ECDSA-P256-SHA256-{kind}\n{scope}\n{previous}\n{payload}");
        assert!(verifies(PUBLIC_X, PUBLIC_Y, &string_to_sign, signature), "{string_to_sign}");
        signature.clone_into(&mut previous);
    }
}

#[test]
fn unsigned_trailers_need_only_a_signed_request() {
    let content = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    let signed_headers = "host;x-amz-content-sha256;x-amz-date";
    let signed = ready(&upload(content, "", "", "us-east-1/s3", signed_headers), None);
    assert_eq!(header(&signed.headers, "x-amz-content-sha256"), Some(content));
    assert_ne!(signature(&signed), "0".repeat(64));
}

#[test]
fn connection_headers_are_left_out_of_the_new_signature() {
    let content = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    let names = "expect;host;transfer-encoding;x-amz-content-sha256;x-amz-date";
    let signed = ready(&upload(content, "", "", "us-east-1/s3", names), None);
    let value = header(&signed.headers, "authorization").unwrap();
    assert!(value.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date,"));
    let plain = "host;x-amz-content-sha256;x-amz-date";
    let same = ready(&upload(content, "", "", "us-east-1/s3", plain), None);
    assert_eq!(signature(&signed), signature(&same));
}

#[test]
fn token_is_replaced_or_removed() {
    let authorization = surrogate_header("us-east-1/s3", "host;x-amz-date;x-amz-security-token");
    let text = format!(
        "GET /?a=1 HTTP/1.1\nHost: b.s3.amazonaws.com\nx-amz-date: 20130524T000000Z\nx-amz-content-sha256: {EMPTY}\n\
         x-amz-security-token: {SURROGATE_TOKEN}\nAuthorization: {authorization}\n\n"
    );
    let signed = ready(&text, Some("REAL/TOKEN=="));
    assert_eq!(header(&signed.headers, "x-amz-security-token"), Some("REAL/TOKEN=="));
    assert!(
        header(&signed.headers, "authorization").unwrap().contains("host;x-amz-date;x-amz-security-token,")
    );
    let signed = ready(&text, None);
    assert_eq!(header(&signed.headers, "x-amz-security-token"), None);
    assert!(header(&signed.headers, "authorization").unwrap().contains("SignedHeaders=host;x-amz-date,"));
}

#[test]
fn token_in_a_url_is_replaced_or_removed() {
    let text = format!(
        "GET /?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={SURROGATE_KEY_ID}/20130524/us-east-1/s3/aws4_request\
         &X-Amz-Date=20130524T000000Z&X-Amz-Security-Token={SURROGATE_TOKEN}&X-Amz-SignedHeaders=host&X-Amz-Signature=00\
         &x=%2f+ HTTP/1.1\nHost: b.s3.amazonaws.com\n\n"
    );
    let target = ready(&text, Some("REAL/TOKEN==")).target;
    assert!(target.contains("&X-Amz-Security-Token=REAL%2FTOKEN%3D%3D&"));
    assert!(target.ends_with("&x=%2f+"));
    let target = ready(&text, None).target;
    assert!(!target.contains("Token"));
    // A header that the URL lists as signed cannot be removed without a trace.
    let text = text
        .replace("SignedHeaders=host", "SignedHeaders=host;x-amz-security-token")
        .replace("Host:", "x-amz-security-token: a\nHost:");
    assert!(matches!(resigned(&text, None), Err(SignError::MissingHeader(_))));
}

#[test]
fn errors_name_the_problem_and_no_secret() {
    let base = format!(
        "GET / HTTP/1.1\nHost: b.s3.amazonaws.com\nx-amz-date: 20130524T000000Z\nx-amz-content-sha256: {EMPTY}"
    );
    let with = |more: &str, names: &str| {
        let authorization = surrogate_header("us-east-1/s3", names);
        format!("{base}\n{more}Authorization: {authorization}\n\n")
    };
    let table = [
        (with("", "host;x-amz-missing"), None, "`x-amz-missing`"),
        (
            with("x-amz-security-token: a\nx-amz-security-token: b\n", "host"),
            Some("t"),
            "`x-amz-security-token`",
        ),
        (with("x-amz-security-token: a\n", "host"), Some("line\nbreak"), "session token"),
        (with(&format!("x-amz-content-sha256: {EMPTY}\n"), "host"), None, "`x-amz-content-sha256`"),
        (with("", "host").replace(EMPTY, "STREAMING-AWS4-HMAC-SHA256-EVENTS"), None, "not chunks"),
    ];
    for (text, token, named) in table {
        let error = resigned(&text, token).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
        assert!(!error.contains(SECRET) && !error.contains(KEY_ID), "{error}");
    }
}

#[test]
fn debug_is_redacted() {
    let text = upload("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "", "", "us-east-1/s3", "host");
    let shown = format!("{:?}", resigned(&text, Some("REALTOKEN")).unwrap());
    assert_eq!(shown, "Chunked(Signed(redacted), ChunkSigner(redacted))");
    let text = text.replace("x-amz-content-sha256", "x-other");
    let shown = format!("{:?}", resigned(&text, Some("REALTOKEN")).unwrap());
    assert_eq!(shown, "Hash(Pending(redacted))");
}
