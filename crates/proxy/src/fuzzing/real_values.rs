//! Real values that no fuzzer guesses, the vault that holds them, and the places where each may
//! appear.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use sandbox_credentials::SecretValue;
use sandbox_credentials::wire::{ReplacementMap, SigningReplacement};

use crate::credential::Vault;

/// Decodes every form that some server accepts.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Has every credential in scope but [`OTHER`].
pub(super) const HOST: &str = "a.example";
/// Has only [`OTHER`] in scope.
pub(super) const OTHER_HOST: &str = "d.example";
/// Has nothing in scope.
pub(super) const FOREIGN_HOST: &str = "foreign.example";

pub(super) const KEY_ID: &str = "AKIAREALVALUE7654321";
/// Nothing sent to an upstream may contain it.
pub(super) const SECRET_KEY: &str = "rEaL/sEcReT+aCcEsS/kEy+0918273645mNbVcXz";
pub(super) const SESSION: &str = "rEaLsEsSiOn/0918273645+zAyBxC==";
const TOKEN: &str = "ghp_R8sPdn4zmLx2Vq7JtWc9";
const API_KEY: &str = "rEaL-aPi-kEy-5647382910";
const COOKIE: &str = "rEaLcOoKiE5647382910";
const OTHER: &str = "ghp_oThErReAlVaLuE019283";

const ALL: [&str; 7] = [KEY_ID, SECRET_KEY, SESSION, TOKEN, API_KEY, COOKIE, OTHER];

/// The surrogates of the container, which the seeds and the dictionary use.
const MAP: &str = r#"{
    "ghp_SURROGATE": {"value": "ghp_R8sPdn4zmLx2Vq7JtWc9", "scopes": ["a.example"], "headers": ["authorization"]},
    "apikey-SURROGATE": {
        "value": "rEaL-aPi-kEy-5647382910", "scopes": ["a.example"], "headers": ["x-*"], "allow_foreign_credentials": true
    },
    "cookie-SURROGATE": {"value": "rEaLcOoKiE5647382910", "scopes": ["a.example"], "headers": ["cookie"]},
    "other-SURROGATE": {
        "value": "ghp_oThErReAlVaLuE019283", "scopes": ["d.example"], "headers": ["authorization"], "basic_user": "x-*"
    },
    "AKIASURROGATE0000000": {
        "type": "aws-sigv4", "access_key_id": "AKIAREALVALUE7654321", "scopes": ["a.example"],
        "secret_access_key": "rEaL/sEcReT+aCcEsS/kEy+0918273645mNbVcXz", "surrogate_secret_access_key": "secret-SURROGATE",
        "session_token": "rEaLsEsSiOn/0918273645+zAyBxC==", "surrogate_session_token": "session-SURROGATE"
    }
}"#;

/// The vault with all real values.
pub(super) static VAULT: LazyLock<Vault> = LazyLock::new(|| {
    let replacements: Result<ReplacementMap, _> = serde_json::from_str(MAP);
    replacements.map_or_else(|error| panic!("{error}"), |replacements| Vault::new(&replacements))
});

/// The signing key alone.
pub(super) fn key() -> SigningReplacement {
    SigningReplacement {
        name: String::new(),
        access_key_id: SecretValue::new(KEY_ID),
        secret_access_key: SecretValue::new(SECRET_KEY),
        surrogate_secret_access_key: "secret-SURROGATE".to_owned(),
        session_token: Some((SecretValue::new(SESSION), "session-SURROGATE".to_owned())),
        scopes: Vec::new(),
        allow_foreign_credentials: false,
    }
}

/// Whether `real` may be in the header `name` of a request to `host`.
pub(super) fn belongs(real: &str, host: &str, name: &HeaderName) -> bool {
    let name = name.as_str();
    match real {
        OTHER => host == OTHER_HOST && name == "authorization",
        _ if host != HOST => false,
        TOKEN | KEY_ID => name == "authorization",
        API_KEY => name.starts_with("x-"),
        COOKIE => name == "cookie",
        SESSION => name == "x-amz-security-token",
        _ => false,
    }
}

/// The real values in a text, including those in a base64 pair.
pub(super) fn found_in(text: &[u8]) -> Vec<&'static str> {
    let decoded = text
        .split(|byte| *byte == b' ')
        .next_back()
        .and_then(|token| LENIENT.decode(token).ok())
        .unwrap_or_default();
    let mut found = ALL.to_vec();
    found.retain(|real| holds(text, real) || holds(&decoded, real));
    found
}

/// The real values in a target, encoded or not.
pub(super) fn found_in_target(target: &str) -> Vec<&'static str> {
    let decoded: Vec<u8> = percent_decode_str(target).collect();
    let mut found = ALL.to_vec();
    found.retain(|real| holds(target.as_bytes(), real) || holds(&decoded, real));
    found
}

/// Whether the fuzzer learned a real value from one of our comparisons: then nothing can be
/// checked.
pub(super) fn is_spoilt(headers: &HeaderMap, target: &str) -> bool {
    !found_in_target(target).is_empty()
        || headers.values().any(|value| !found_in(value.as_bytes()).is_empty())
}

fn holds(text: &[u8], real: &str) -> bool {
    text.windows(real.len()).any(|window| window == real.as_bytes())
}
