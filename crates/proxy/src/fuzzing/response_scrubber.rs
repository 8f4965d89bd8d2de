//! Any answer that sends real values back.

use fuzz_input::Input;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::planted::{Surrogates, holds_value, needles, text};
use super::upstream_body::{End, Received, Script, read};
use crate::scrub::{Coding, encode, plan_body, scrub_headers};

const CODINGS: [(&str, Coding); 4] =
    [("gzip", Coding::Gzip), ("deflate", Coding::Deflate), ("br", Coding::Brotli), ("zstd", Coding::Zstd)];

/// The bytes are sent as they are, regardless of the codings.
const GARBAGE: u8 = 4;
/// The answer has `Content-Length`.
const LENGTH: u8 = 8;
/// The last frame is known to be the last.
const ANNOUNCED: u8 = 16;
/// The request carried a pair that was replaced as a whole.
const SENT: u8 = 32;
/// Trailers with a value in them follow.
const TRAILERS: u8 = 64;

/// How an answer is sent.
struct Answer {
    flags: u8,
    codings: Vec<(&'static str, Coding)>,
    sizes: Vec<usize>,
}

impl Answer {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The first two bytes select how the answer is sent, the next ones how it is split; the rest is a
/// script for its text.
///
/// # Panics
///
/// When a value leaks, when the split changes the output, or when one step yields too much.
pub fn response_scrubber(data: &[u8]) {
    let mut input = Input::new(data);
    let answer = answer(&mut input);
    let text = text(input.rest());
    check_headers(&answer, &text);
    let sent = if answer.has(GARBAGE) {
        text.clone()
    } else {
        let encoded = |data: Vec<u8>, (_, coding): &(_, Coding)| encode(*coding, &[&data]).concat();
        answer.codings.iter().fold(text.clone(), encoded)
    };
    let whole = receive(&answer, &sent, &[], Surrogates::Likely);
    let cut = receive(&answer, &sent, &answer.sizes, Surrogates::Likely);
    for (received, sizes) in [(&whole, &[][..]), (&cut, &answer.sizes)] {
        let leaks = holds_value(&received.data)
            && holds_value(&receive(&answer, &sent, sizes, Surrogates::Strange).data);
        assert!(!leaks, "a value leaks");
        let mut trailers = received.trailers.iter().flat_map(HeaderMap::values);
        assert!(!trailers.any(|value| holds_value(value.as_bytes())), "a value is in a trailer");
    }
    if whole.end == End::Good {
        assert!(cut == whole, "the split changes the output");
    } else {
        let length = whole.data.len().min(cut.data.len());
        assert_eq!(whole.data.get(..length), cut.data.get(..length), "the split changes the output");
    }
    if answer.codings.is_empty() || !answer.has(GARBAGE) {
        assert_ne!(whole.end, End::Failed, "an answer cannot be decoded");
        check_text(&answer, &text, &whole);
    }
}

fn answer(input: &mut Input<'_>) -> Answer {
    let (flags, codings) = (input.byte(), input.byte());
    let names = (0..flags & 3).map(|place| usize::from(codings >> (2 * place) & 3));
    Answer {
        codings: names.filter_map(|name| CODINGS.get(name).copied()).collect(),
        flags,
        sizes: input.sizes(),
    }
}

fn receive(answer: &Answer, sent: &[u8], sizes: &[usize], surrogates: Surrogates) -> Received {
    let needles = needles(answer.has(SENT), surrogates);
    let mut headers = HeaderMap::new();
    for (name, _) in &answer.codings {
        headers.append(CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    if answer.has(LENGTH) && !sent.is_empty() {
        headers.append(CONTENT_LENGTH, HeaderValue::from(sent.len()));
    }
    let Ok(plan) = plan_body(&needles, &Method::GET, StatusCode::OK, false, &mut headers) else {
        panic!("an answer cannot be searched");
    };
    assert!(headers.len() <= usize::from(answer.codings.is_empty()));
    let trailers = answer.has(TRAILERS).then(|| {
        let mut trailers = HeaderMap::new();
        trailers.append("x-echo", HeaderValue::from_static("ghp_R8sPdn4zmLx2Vq7JtWc9KbYf"));
        trailers
    });
    read(Script::new(sent, sizes, trailers, answer.has(ANNOUNCED)), plan)
}

/// Checks that a text without a value is unchanged, and that an announced length is kept.
fn check_text(answer: &Answer, text: &[u8], received: &Received) {
    let kept = received.data.len().min(text.len());
    if received.replaced == u32::from(received.trailers.is_some()) {
        assert_eq!(received.data.get(..kept), text.get(..kept), "a text without a value is changed");
        assert!(received.end != End::Good || received.data.len() == text.len());
    }
    if answer.codings.is_empty() && answer.has(LENGTH) && received.end == End::Good {
        assert_eq!(received.data.len(), text.len(), "an announced length is not kept");
    }
}

fn check_headers(answer: &Answer, text: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(text) else {
        return;
    };
    let leaks = |surrogates| {
        let mut headers = HeaderMap::new();
        headers.append("location", value.clone());
        let (headers, _) = scrub_headers(&needles(answer.has(SENT), surrogates), headers);
        headers.values().any(|value| holds_value(value.as_bytes()))
    };
    assert!(!(leaks(Surrogates::Likely) && leaks(Surrogates::Strange)), "a value is in a header");
}
