//! Scrubbing of answer heads.

use http::header::CONTENT_LENGTH;
use http::{Extensions, HeaderMap, HeaderValue};
use hyper::ext::ReasonPhrase;

use super::needles::Needles;
use crate::fields::only;

/// Returns the fields without real values, and the number of values replaced. Order, repetitions
/// and sensitivity marks are preserved; a field with a value in its name is dropped.
/// `Content-Length` is left alone: it is only a number, and a changed one would not match the body.
pub(crate) fn scrub_headers(needles: &Needles, headers: HeaderMap) -> (HeaderMap, u32) {
    let (mut headers, mut replaced) = without_named(needles, headers);
    for (name, value) in &mut headers {
        if *name == CONTENT_LENGTH {
            continue;
        }
        if let Some((cleaned, count)) = needles.clean_whole(value.as_bytes()) {
            let sensitive = value.is_sensitive();
            // No header can carry this surrogate: an empty value is better than the real one.
            *value = HeaderValue::from_maybe_shared(cleaned).unwrap_or_else(|_| HeaderValue::from_static(""));
            value.set_sensitive(sensitive);
            replaced += count;
        }
    }
    (headers, replaced)
}

/// Drops the fields that have a real value in their names, and returns how many there were.
fn without_named(needles: &Needles, headers: HeaderMap) -> (HeaderMap, u32) {
    if !headers.keys().any(|name| needles.are_in_name(name.as_str())) {
        return (headers, 0);
    }
    let kept = only(&headers, |name| !needles.are_in_name(name.as_str()));
    let dropped = u32::try_from(headers.len() - kept.len()).unwrap_or(u32::MAX);
    (kept, dropped)
}

/// Replaces real values in the reason phrase of an HTTP/1 answer, which hyper keeps in
/// `extensions`, and returns how many there were.
pub(crate) fn scrub_reason(needles: &Needles, extensions: &mut Extensions) -> u32 {
    let reason = extensions.get::<ReasonPhrase>();
    let Some((cleaned, replaced)) = reason.and_then(|reason| needles.clean_whole(reason.as_bytes())) else {
        return 0;
    };
    extensions.remove::<ReasonPhrase>();
    if let Ok(reason) = ReasonPhrase::try_from(cleaned.as_ref()) {
        extensions.insert(reason);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use sandbox_credentials::SecretValue;

    use super::*;

    fn needles() -> Needles {
        let pair = |real: &str, surrogate: &str| (SecretValue::new(real), surrogate.to_owned());
        Needles::new([pair("real-value-one", "fake-value-two"), pair("12345678", "87654321")])
    }

    #[test]
    fn values_in_fields_are_replaced() {
        let mut headers = HeaderMap::new();
        let long = format!("{}real-value-one{}", "a".repeat(5000), "b".repeat(5000));
        for (name, value) in [
            ("set-cookie", "a=real-value-one; Path=/; b=real-value-one"),
            ("location", "https://example.org/?token=real%2dvalue%2done"),
            ("set-cookie", "other=1"),
            ("content-length", "12345678"),
            ("x-long", &long),
        ] {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        let mut secret = HeaderValue::from_bytes(b"\xe9 real-value-one").unwrap();
        secret.set_sensitive(true);
        headers.append("x-marked", secret);

        let (headers, replaced) = scrub_headers(&needles(), headers);
        assert_eq!(replaced, 4);
        let cookies: Vec<&[u8]> = headers.get_all("set-cookie").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(cookies, [&b"a=fake-value-two; Path=/; b=fake-value-two"[..], b"other=1"]);
        assert_eq!(headers["content-length"], "12345678");
        assert_eq!(headers["x-long"], long.replace("real-value-one", "fake-value-two"));
        assert_eq!(headers["x-marked"].as_bytes(), b"\xe9 fake-value-two");
        assert!(headers["x-marked"].is_sensitive());
    }

    #[test]
    fn field_with_a_value_in_its_name_is_dropped() {
        let needles = Needles::new([(SecretValue::new("Real-Value_One"), "Fake-Value_Two".to_owned())]);
        // "Real-Value_One" in base64 and as hexadecimal digits, which header names have in lower
        // case.
        for name in
            ["Real-Value_One", "x-real-value_one-y", "UmVhbC1WYWx1ZV9PbmU", "5265616C2D56616C75655F4F6E65"]
        {
            let mut headers = HeaderMap::new();
            for name in ["x-first", name, "x-last", name] {
                let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
                headers.append(name, HeaderValue::from_static("1"));
            }
            let (headers, replaced) = scrub_headers(&needles, headers);
            let names: Vec<&str> = headers.keys().map(http::HeaderName::as_str).collect();
            assert_eq!((names, replaced), (vec!["x-first", "x-last"], 2), "{name}");
        }
    }

    #[test]
    fn surrogate_that_fits_no_field_leaves_an_empty_value() {
        let needles = Needles::new([(SecretValue::new("real-value-one"), "two\nlines".to_owned())]);
        let mut headers = HeaderMap::new();
        headers.append("x-echo", HeaderValue::from_static("real-value-one"));
        let (headers, replaced) = scrub_headers(&needles, headers);
        assert_eq!((headers["x-echo"].as_bytes(), replaced), (&b""[..], 1));
    }

    #[test]
    fn values_in_the_reason_phrase_are_replaced() {
        let mut extensions = Extensions::new();
        assert_eq!(scrub_reason(&needles(), &mut extensions), 0);
        extensions.insert(ReasonPhrase::from_static(b"Bad token real-value-one"));
        assert_eq!(scrub_reason(&needles(), &mut extensions), 1);
        let reason = extensions.get::<ReasonPhrase>().unwrap();
        assert_eq!(reason.as_bytes(), b"Bad token fake-value-two");
    }
}
