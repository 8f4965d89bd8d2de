//! Injects errors and panics on request, for tests of how they are reported.
//!
//! `x-forced-panic` in a request triggers the worst possible panic: its message contains real
//! values. A server name that begins with `no-leaf.` gets no certificate, and a query for a name
//! that begins with `no-listener.` ends the listener for DNS.

use std::fmt::Write as _;

use allowlist::HostName;
use http::HeaderMap;

/// Panics with the headers for the upstream if the request asks for it: with Rust's own hook for
/// `usual`, with the program's for any other value.
#[expect(clippy::panic, reason = "the purpose of this function")]
pub(crate) fn if_asked(headers: &HeaderMap) {
    let Some(asked) = headers.get("x-forced-panic") else {
        return;
    };
    if asked == "usual" {
        drop(std::panic::take_hook());
    }
    let mut text = String::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        // Writing to a string cannot fail.
        let _ = write!(text, "{name}: {value}; ");
    }
    panic!("forced: {text}");
}

/// Fails in place of issuing a leaf certificate.
///
/// # Errors
///
/// If the name asks for it.
pub(crate) fn leaf_error(host: &HostName) -> Result<(), rcgen::Error> {
    if host.as_str().starts_with("no-leaf.") {
        return Err(rcgen::Error::RingUnspecified);
    }
    Ok(())
}

/// Panics if the query is for a name that asks for it.
pub(crate) fn end_listener(query: &[u8]) {
    let label = b"\x0bno-listener";
    let asked = query.windows(label.len()).any(|window| window == label);
    assert!(!asked, "a listener ends");
}
