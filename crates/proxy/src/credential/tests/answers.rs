//! Values that responses are searched for.

use http::HeaderValue;
use sandbox_credentials::SecretValue;
use sandbox_credentials::wire::{Replacement, SigningReplacement};

use super::fixture::{REAL, SURROGATE, as_it_is, entry, map, plan};
use crate::scrub::scrub_headers;

const KEY_ID: &str = "AKIAREALVALUE7654321";
const KEY_SURROGATE: &str = "AKIASURROGATE0000000";
const SESSION: &str = "rEaLsEsSiOn/0918273645+zAyBxC==";
const SESSION_SURROGATE: &str = "sUrRoGaTe/0918273645+zAyBxC==";

fn signing() -> (&'static str, Replacement) {
    let key = SigningReplacement {
        name: String::new(),
        access_key_id: SecretValue::new(KEY_ID),
        secret_access_key: SecretValue::new("rEaL/sEcReT+aCcEsS/kEy+0918273645mNbVcXz"),
        surrogate_secret_access_key: "secret-SURROGATE".to_owned(),
        session_token: Some((SecretValue::new(SESSION), SESSION_SURROGATE.to_owned())),
        scopes: vec![allowlist::HostPattern::new("a.example").unwrap()],
        allow_foreign_credentials: false,
    };
    (KEY_SURROGATE, Replacement::Signing(key))
}

fn hex(text: &str, between: &str) -> String {
    let pairs: Vec<String> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(between)
}

/// A service sends `sent`, and the container sees `expected`.
#[track_caller]
fn check(sent: &str, expected: &str) {
    let entries = [signing(), entry(SURROGATE, REAL, &["x-key"], as_it_is)];
    let needles = plan(&entries, &[]).scrub.unwrap();
    let mut headers = map(&[]);
    headers.append("x-echo", HeaderValue::from_str(sent).unwrap());
    let (headers, _) = scrub_headers(&needles, headers);
    assert_eq!(headers["x-echo"], expected);
}

#[test]
fn hex_of_a_canonical_request_contains_no_value() {
    let request = |id: &str, token: &str| {
        let escaped = token.replace('/', "%2F").replace('+', "%2B").replace('=', "%3D");
        format!(
            "GET\n/key\nX-Amz-Credential={id}%2F20261121&X-Amz-Security-Token={escaped}\n\
             host:b.example\nx-amz-security-token:{token}\n\nhost;x-amz-security-token\nUNSIGNED-PAYLOAD"
        )
    };
    let sent = request(KEY_ID, SESSION);
    let expected = request(KEY_SURROGATE, SESSION_SURROGATE);
    for between in [" ", ""] {
        check(&hex(&sent, between), &hex(&expected, between));
    }
}

#[test]
fn masked_value_in_hexadecimal_is_found() {
    let sent = |value: &str| format!("0x{}", hex(value, ""));
    check(&sent(REAL), &sent(SURROGATE));
}
