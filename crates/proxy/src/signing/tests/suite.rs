//! AWS's own test suites for SigV4 and SigV4A, which the package of `aws-sigv4` contains.
//!
//! Each signed request of a suite is treated as one that a container sent: its credential is
//! replaced with a surrogate and its signature is wiped. Re-signed with the key of the suite, it
//! must equal the request of the suite to the last byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use http::HeaderValue;
use http::header::AUTHORIZATION;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::fixture::{SURROGATE_KEY_ID, SURROGATE_TOKEN, WireRequest, header, real_key, verifies};
use crate::signing::draft::Draft;
use crate::signing::encoding::{encoded, hex};
use crate::signing::payload::Payload;
use crate::signing::rules::{PathRule, Rules};
use crate::signing::{Carrier, Request, Signed, claim};

/// The cases of each suite that come with a context.
const CASES: usize = 38;

#[derive(Deserialize)]
struct Context {
    credentials: Credentials,
    normalize: bool,
    service: String,
    #[serde(default)]
    omit_session_token: bool,
}

#[derive(Deserialize)]
struct Credentials {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
}

#[derive(Deserialize)]
struct PublicKey {
    #[serde(rename = "X")]
    x: String,
    #[serde(rename = "Y")]
    y: String,
}

#[test]
fn every_v4_case_is_reproduced() {
    let mut cases = 0;
    for folder in cases_with_context("v4") {
        for variant in ["header", "query"] {
            let done = run(&folder, variant);
            let signature = read(&folder, &format!("{variant}-signature.txt"));
            assert_eq!(done.signature, signature, "{folder:?} {variant}: signature");
            assert_eq!(
                (done.signed.headers, done.signed.target),
                (done.expected.headers, done.expected.target),
                "{folder:?} {variant}: request"
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 2 * CASES);
}

#[test]
fn every_v4a_case_is_reproduced() {
    let mut cases = 0;
    for folder in cases_with_context("v4a") {
        let key: PublicKey = serde_json::from_str(&read(&folder, "public-key.json")).unwrap();
        for variant in ["header", "query"] {
            let mut done = run(&folder, variant);
            assert!(
                verifies(&key.x, &key.y, &done.string_to_sign, &done.signature),
                "{folder:?} {variant}: signature"
            );
            // The signature of the suite verifies as well; it differs, since each is random.
            let theirs = signature_of(&done.expected);
            assert!(verifies(&key.x, &key.y, &done.string_to_sign, &theirs), "{folder:?} {variant}: theirs");
            assert!(!verifies(&key.x, &key.y, "another text", &done.signature));
            insert_signature(&mut done.expected, &theirs, &done.signature);
            assert_eq!(
                (done.signed.headers, done.signed.target),
                (done.expected.headers, done.expected.target),
                "{folder:?} {variant}: request"
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 2 * CASES);
}

/// Two cases that the package adds to the suite. They have only a header variant without a context,
/// and are inconsistent in the date (`double-encode-path`) or in the key; their purpose is the
/// canonical request.
#[test]
fn cases_without_a_context_have_the_expected_canonical_request() {
    let mut cases = 0;
    for folder in suite("v4").into_iter().filter(|folder| !folder.join("context.json").exists()) {
        let canonical = read(&folder, "header-canonical-request.txt");
        let date = canonical.lines().find_map(|line| line.strip_prefix("x-amz-date:")).unwrap();
        let mut request = WireRequest::new(&read(&folder, "header-signed-request.txt"));
        request.headers.insert("x-amz-date", HeaderValue::from_str(date).unwrap());
        let (draft, payload) = draft_of(&request, None, &real_key("AKIDEXAMPLE", "secret", None));
        let payload = payload_text(&payload, &request);
        assert_eq!(str::from_utf8(&draft.canonical_request(&payload)).unwrap(), canonical, "{folder:?}");
        if folder.join("header-string-to-sign.txt").exists() {
            assert_eq!(draft.string_to_sign(&payload), read(&folder, "header-string-to-sign.txt"));
        }
        cases += 1;
    }
    assert_eq!(cases, 2);
}

struct Done {
    signed: Signed,
    expected: WireRequest,
    string_to_sign: String,
    signature: String,
}

/// Re-signs one variant of a case, and compares everything before the signature.
fn run(folder: &Path, variant: &str) -> Done {
    let context: Context = serde_json::from_str(&read(folder, "context.json")).unwrap();
    let expected = WireRequest::new(&read(folder, &format!("{variant}-signed-request.txt")));
    let request = as_sent_by_a_container(&expected, &context);
    let key = real_key(
        &context.credentials.access_key_id,
        &context.credentials.secret_access_key,
        context.credentials.token.as_deref(),
    );
    let rules = Rules {
        path: if context.normalize { PathRule::NormalizedAndEncodedTwice } else { PathRule::EncodedTwice },
        signs_query_token: !context.omit_session_token,
        ..Rules::of(&context.service)
    };
    let (draft, payload) = draft_of(&request, Some(rules), &key);
    let payload = payload_text(&payload, &request);
    assert_eq!(
        str::from_utf8(&draft.canonical_request(&payload)).unwrap(),
        read(folder, &format!("{variant}-canonical-request.txt")),
        "{folder:?} {variant}: canonical request"
    );
    let string_to_sign = draft.string_to_sign(&payload);
    assert_eq!(
        string_to_sign,
        read(folder, &format!("{variant}-string-to-sign.txt")),
        "{folder:?} {variant}: string to sign"
    );
    let (signed, _) = draft.sign(&payload).unwrap();
    let signature = signature_of(&WireRequest {
        headers: signed.headers.clone(),
        target: signed.target.clone(),
        ..request
    });
    Done { signed, expected, string_to_sign, signature }
}

fn draft_of(
    request: &WireRequest,
    rules: Option<Rules>,
    key: &sandbox_credentials::wire::SigningReplacement,
) -> (Draft, Payload) {
    let found = claim(&request.headers, &request.target).unwrap().unwrap();
    let rules = rules.unwrap_or(Rules::of(found.signature().unwrap().scope.service()));
    let wire = Request {
        method: &request.method,
        host: request.host(),
        target: &request.target,
        headers: request.headers.clone(),
    };
    Draft::new(&found, rules, key, wire).unwrap()
}

fn payload_text(payload: &Payload, request: &WireRequest) -> String {
    match payload {
        Payload::Stated(text) | Payload::Chunks { text, .. } => text.clone(),
        Payload::Hash => hex(&Sha256::digest(&request.body)),
    }
}

/// The request with surrogates for key id and token, and with a signature of zeros.
fn as_sent_by_a_container(expected: &WireRequest, context: &Context) -> WireRequest {
    let signature = signature_of(expected);
    let mut request = expected.clone();
    insert_signature(&mut request, &signature, &"0".repeat(64));
    let mut exchanges = vec![(context.credentials.access_key_id.as_str(), SURROGATE_KEY_ID)];
    let token = context.credentials.token.as_deref().map(|token| (token, encoded(token.as_bytes())));
    if let Some((plain, encoded)) = &token {
        exchanges.extend([(*plain, SURROGATE_TOKEN), (encoded, SURROGATE_TOKEN)]);
    }
    for (real, surrogate) in exchanges {
        request.target = request.target.replace(real, surrogate);
        for value in request.headers.values_mut() {
            *value = HeaderValue::from_str(&value.to_str().unwrap().replace(real, surrogate)).unwrap();
        }
    }
    let found = claim(&request.headers, &request.target).unwrap().unwrap();
    assert_eq!(found.key_id(), SURROGATE_KEY_ID);
    assert_eq!(found.region(), Some("us-east-1"));
    request
}

fn insert_signature(request: &mut WireRequest, old: &str, new: &str) {
    request.target = request.target.replace(old, new);
    if let Some(value) = request.headers.get_mut(AUTHORIZATION) {
        *value = HeaderValue::from_str(&value.to_str().unwrap().replace(old, new)).unwrap();
    }
}

fn signature_of(request: &WireRequest) -> String {
    let carrier = claim(&request.headers, &request.target).unwrap().unwrap().carrier();
    let after = match carrier {
        Carrier::Header => header(&request.headers, "authorization").unwrap().split_once("Signature="),
        Carrier::Query => request.target.split_once("X-Amz-Signature="),
    };
    after.unwrap().1.to_owned()
}

fn cases_with_context(version: &str) -> Vec<PathBuf> {
    suite(version).into_iter().filter(|folder| folder.join("context.json").exists()).collect()
}

/// The folders of one suite, by name.
fn suite(version: &str) -> Vec<PathBuf> {
    let root = package_folder("aws-sigv4").join("aws-signing-test-suite").join(version);
    let folders: BTreeMap<_, _> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name(), entry.path()))
        .collect();
    folders.into_values().collect()
}

/// Where cargo keeps the sources of the package that this test is built with.
#[expect(clippy::disallowed_methods, reason = "only cargo knows where it unpacks packages")]
fn package_folder(name: &str) -> PathBuf {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform"])
        .arg(platform)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let package =
        metadata["packages"].as_array().unwrap().iter().find(|package| package["name"] == name).unwrap();
    let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap());
    manifest.parent().unwrap().to_owned()
}

fn read(folder: &Path, file: &str) -> String {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if file.ends_with("signed-request.txt") { text } else { text.trim_end().to_owned() }
}
