//! Comparison with another signer: `aws-sigv4` signs random requests as a client does, once with a
//! surrogate key and once with the real one. Re-signed here, the first must equal the second.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::fixture::{SURROGATE_KEY_ID, SURROGATE_TOKEN, real_key};
use crate::signing::encoding::{encoded, encoded_path};
use crate::signing::{Request, Resigned, Signed, claim, resign};

const REAL: (&str, &str, &str) = ("AKIAREAL", "real/secret+key", "real/token+with==marks");
const SURROGATE: (&str, &str, &str) = (SURROGATE_KEY_ID, "surrogate", SURROGATE_TOKEN);
const HOST: &str = "bucket.example.test";

#[derive(Debug, Clone)]
struct Case {
    service: &'static str,
    in_query: bool,
    states_hash: bool,
    target: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

fn cases() -> impl Strategy<Value = Case> {
    let names = proptest::collection::vec("[a-zé /+=&%.~-]{1,8}", 0..4);
    let pairs = proptest::collection::vec(("[a-zA-Z~é +&=%/-]{1,6}", "[a-zA-Z0-9é +&=%/~]{0,8}"), 0..5);
    let fields = proptest::collection::vec(("x-(a|b|amz-meta-c)", "[!-~]{1,5}( {1,3}[!-~]{1,4}){0,2}"), 0..5);
    let body = proptest::collection::vec(any::<u8>(), 0..64);
    (
        proptest::sample::select(vec!["s3", "execute-api"]),
        any::<bool>(),
        any::<bool>(),
        names,
        pairs,
        fields,
        body,
    )
        .prop_map(|(service, in_query, states_hash, names, pairs, fields, body)| {
            let names: Vec<String> = names.iter().map(|name| encoded_path(name.as_bytes())).collect();
            let path = format!("/{}", names.join("/"));
            let query: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("{}={}", encoded(name.as_bytes()), encoded(value.as_bytes())))
                .collect();
            let target = if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) };
            Case { service, in_query, states_hash, target, fields, body }
        })
}

/// The request as a client with this key sends it.
fn sent_by_client(case: &Case, key: (&str, &str, &str)) -> Signed {
    let is_s3 = case.service == "s3";
    let mut settings = SigningSettings::default();
    if is_s3 {
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    }
    if case.states_hash && !case.in_query {
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    }
    if case.in_query {
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(Duration::from_mins(1));
    }
    let identity = Credentials::new(key.0, key.1, Some(key.2.to_owned()), None, "test").into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region("eu-central-1")
        .name(case.service)
        .time(SystemTime::UNIX_EPOCH + Duration::from_hours(400_260))
        .settings(settings)
        .build()
        .unwrap()
        .into();
    let url = format!("https://{HOST}{}", case.target);
    let body =
        if case.in_query && is_s3 { SignableBody::UnsignedPayload } else { SignableBody::Bytes(&case.body) };
    let fields = case.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let signable = SignableRequest::new("PUT", &url, fields, body).unwrap();
    let (instructions, _) = sign(signable, &params).unwrap().into_parts();
    let mut request = http::Request::builder().method("PUT").uri(&url);
    for (name, value) in &case.fields {
        request = request.header(name, value);
    }
    let mut request = request.body(()).unwrap();
    instructions.apply_to_request_http1x(&mut request);
    Signed { headers: request.headers().clone(), target: request.uri().path_and_query().unwrap().to_string() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn resigned_request_equals_one_signed_with_the_real_key(case in cases()) {
        let sent = sent_by_client(&case, SURROGATE);
        let found = claim(&sent.headers, &sent.target).unwrap().unwrap();
        let request = Request {
            method: "PUT",
            host: HOST,
            target: &sent.target,
            headers: sent.headers.clone(),
        };
        let key = real_key(REAL.0, REAL.1, Some(REAL.2));
        let signed = match resign(&found, &key, request).unwrap() {
            Resigned::Ready(signed) => signed,
            Resigned::Hash(pending) => pending.finish(Sha256::digest(&case.body).into()).unwrap(),
            Resigned::Chunked(..) => panic!("no chunks were announced"),
        };
        let expected = sent_by_client(&case, REAL);
        prop_assert_eq!(&signed.target, &expected.target);
        for (name, value) in &expected.headers {
            prop_assert!(signed.headers.get_all(name).iter().any(|other| other == value), "{}", name);
        }
        prop_assert_eq!(signed.headers.len(), expected.headers.len());
    }
}
