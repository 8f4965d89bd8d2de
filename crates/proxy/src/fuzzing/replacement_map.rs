//! Any replacement map.

use std::time::SystemTime;

use allowlist::HostName;
use http::{HeaderMap, HeaderValue};
use sandbox_credentials::wire::{Replacement, ReplacementMap};
use sandbox_proxy_protocol::Scheme;

use crate::credential::{Vault, Wire};

/// Replaces each dollar sign of the document.
const SECRET: &str = "qZ8kWv3rXy6pLm9t";

/// `data` is the document, in which each `$` becomes a secret.
///
/// # Panics
///
/// When an error or a `Debug` output quotes the secret, or when a map differs after writing and
/// reading it.
pub fn replacement_map(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        assert!(serde_json::from_slice::<ReplacementMap>(data).is_err());
        return;
    };
    match serde_json::from_str::<ReplacementMap>(&text.replace('$', SECRET)) {
        Ok(replacements) => check(&replacements),
        Err(error) => check_shown(&format!("{error} {error:?}")),
    }
}

fn check(replacements: &ReplacementMap) {
    let again = serde_json::to_string(replacements)
        .and_then(|written| serde_json::from_str::<ReplacementMap>(&written));
    assert!(again.is_ok_and(|again| again == *replacements), "writing and reading changes a map");
    let vault = Vault::new(replacements);
    check_shown(&format!("{replacements:?} {vault:?}"));
    for (surrogate, replacement) in replacements.iter() {
        let (Replacement::Masked(_) | Replacement::Signing(_)) = replacement;
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(surrogate) {
            headers.append("authorization", value);
        }
        let Ok(host) = HostName::from_wire(b"a.example") else {
            return;
        };
        let plan = vault.plan(Wire {
            scheme: Scheme::Https,
            host: &host,
            method: "GET",
            target: "/",
            headers,
            now: SystemTime::UNIX_EPOCH,
        });
        match plan {
            Ok(plan) => check_shown(&format!("{plan:?}")),
            Err(error) => check_shown(&error.to_string()),
        }
    }
}

/// Checks that `text` contains no part of the secret.
fn check_shown(text: &str) {
    let mut parts = SECRET.as_bytes().windows(6);
    let quotes = |part: &[u8]| text.as_bytes().windows(part.len()).any(|window| window == part);
    assert!(!parts.any(quotes), "a secret is shown");
}
