//! The worst panic there could be: its message shows real values. `x-forced-panic` in a request asks for it.

use std::fmt::Write as _;

use http::HeaderMap;

/// Panics with what goes to the upstream, if the request says so: `usual` with the hook of Rust's own, anything else with the
/// program's.
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
