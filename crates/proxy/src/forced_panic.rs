//! Faults on request, for tests of what is seen of them.
//!
//! `x-forced-panic` in a request asks for the worst panic there could be: its message shows real
//! values. A server name that begins with `no-leaf.` gets no certificate, and a query for a name
//! that begins with `no-listener.` ends the listener for DNS.

use std::fmt::Write as _;

use allowlist::HostName;
use http::HeaderMap;

/// Panics with what goes to the upstream, if the request says so: `usual` with the hook of Rust's
/// own, anything else with the program's.
#[expect(clippy::panic, reason = "what this is for")]
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

/// The error of a leaf that is to be missing.
///
/// # Errors
///
/// If the name asks for it.
pub(crate) fn leaf_fault(host: &HostName) -> Result<(), rcgen::Error> {
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
