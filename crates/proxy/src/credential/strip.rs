//! Removes foreign credentials.

use http::{HeaderMap, HeaderName};

use super::scope::Scope;
use crate::fields::only;

/// The headers without those that an entry names and in which nothing was replaced, and how many lines went. `ours` are the headers
/// in which something was, or will be.
pub(super) fn strip(headers: HeaderMap, scope: &Scope<'_>, ours: &[HeaderName]) -> (HeaderMap, u32) {
    let foreign = |name: &HeaderName| !ours.contains(name) && scope.strips(name);
    if !headers.keys().any(foreign) {
        return (headers, 0);
    }
    let kept = only(&headers, |name| !foreign(name));
    let dropped = u32::try_from(headers.len() - kept.len()).unwrap_or(u32::MAX);
    (kept, dropped)
}
