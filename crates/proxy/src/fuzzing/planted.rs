//! Real values in the forms in which an upstream may send them back, and texts in which a fuzzer
//! plants them.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sandbox_credentials::SecretValue;

use crate::scrub::Needles;

/// Each value, and its surrogates in the two runs. Value and surrogate differ in length; the values
/// contain every character that is escaped anywhere, and one spans several lines.
const PAIRS: [(&str, [&str; 2]); 3] = [
    ("ghp_R8sPdn4zmLx2Vq7JtWc9KbYf", ["ghp_5031246879503124687950", "!@!@!@!@!@!@!@!@!@!@!@!@!@"]),
    (
        "k+E/y=\"<&>'\\ real~Value",
        ["0+1/2=\"<&>'\\ 3456~7890123456789012345", "!@!@!@!@!@!@!@!@!@!@!@!@!@!@!@!@!@!@"],
    ),
    ("-----REAL KEY\nuVwXyZ\n-----\n", ["none", "!@!@"]),
];
/// The `Basic` token that one request sent, and those that it had carried.
const SENT: (&str, [&str; 2]) =
    ("cm9ib3Q6Z2hwX1I4c1BkbjR6bUx4MlZxN0p0V2M5S2JZZg==", ["cm9ib3Q6OTk5", "IUAhQCFAIUAh"]);

/// The characters that AWS encodes in a query.
const STRICT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// A text longer than this is not extended by repetition.
const MOST: usize = 48 * 1024;

/// The needles of all values for each run: without and with the token that a request sent.
static NEEDLES: LazyLock<[[Arc<Needles>; 2]; 2]> = LazyLock::new(|| {
    [0, 1].map(|run: usize| {
        let pair = |(real, surrogates): (&str, [&str; 2])| {
            let surrogate = surrogates.get(run).copied().unwrap_or_default();
            (SecretValue::new(real), surrogate.to_owned())
        };
        let needles = Needles::new(PAIRS.map(pair)).with_bytes(PAIRS.map(pair));
        let with_sent = needles.with_sent([pair(SENT)]);
        [Arc::new(needles), Arc::new(with_sent)]
    })
});

/// Which surrogates replace the values. Bytes that an upstream sends before a value may form a
/// whole value with the beginning of *one* surrogate: a value counts as leaked only if it appears
/// with both kinds of surrogates.
#[derive(Clone, Copy)]
pub(super) enum Surrogates {
    Likely,
    Strange,
}

/// The forms that are planted and must not appear in the output.
static FORMS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let texts = PAIRS.iter().flat_map(|(real, _)| forms(real));
    // Last, so that the numbers in the seeds keep their meaning.
    texts.chain(PAIRS.iter().flat_map(|(real, _)| byte_forms(real))).collect()
});

pub(super) fn needles(with_sent: bool, surrogates: Surrogates) -> Arc<Needles> {
    let [likely, strange] = &*NEEDLES;
    let [plain, sent] = match surrogates {
        Surrogates::Likely => likely,
        Surrogates::Strange => strange,
    };
    Arc::clone(if with_sent { sent } else { plain })
}

/// Whether `text` contains a value in a planted form.
pub(super) fn holds_value(text: &[u8]) -> bool {
    let squeezed = squeezed(text);
    let text = String::from_utf8_lossy(&squeezed);
    FORMS.iter().any(|form| text.contains(form))
}

/// The text without most of its repeated bytes, which would take long to search; no form repeats a
/// byte so often.
fn squeezed(text: &[u8]) -> Vec<u8> {
    let mut squeezed = Vec::new();
    let mut repeated = 0;
    for byte in text {
        repeated = if squeezed.last() == Some(byte) { repeated + 1 } else { 0 };
        if repeated < 32 {
            squeezed.push(*byte);
        }
    }
    squeezed
}

/// Generates a text from a script: 0xFF and a number plants a form, 0xFE the beginning of one, 0xFD
/// repeats a byte many times; every other byte represents itself.
pub(super) fn text(script: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut bytes = script.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            0xff => text.extend_from_slice(form(bytes.next())),
            0xfe => {
                let form = form(bytes.next());
                let length = usize::from(bytes.next().unwrap_or_default()) % (form.len() + 1);
                text.extend(form.iter().take(length));
            }
            0xfd if text.len() < MOST => {
                let count = 128 * usize::from(bytes.next().unwrap_or_default());
                let repeated = bytes.next().unwrap_or_default();
                text.resize(text.len() + count, repeated);
            }
            _ => text.push(byte),
        }
    }
    text
}

fn form(number: Option<u8>) -> &'static [u8] {
    let number = usize::from(number.unwrap_or_default()) % FORMS.len();
    FORMS.get(number).map_or(&[], |form| form.as_bytes())
}

/// The forms in which programs write a value, generated independently of the code that searches for
/// them.
fn forms(real: &str) -> Vec<String> {
    let mut forms = vec![real.to_owned()];
    let escaped = |escape: &dyn Fn(char) -> String| real.chars().map(escape).collect::<String>();
    let unreserved = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    forms.push(escaped(&|c| {
        if unreserved(c) { c.into() } else { format!("%{:02X}", u32::from(c)) }
    }));
    forms.push(escaped(&|c| {
        if unreserved(c) { c.into() } else { format!("%{:02x}", u32::from(c)) }
    }));
    forms.push(escaped(&|c| {
        if unreserved(c) { c.into() } else { format!("%25{:02X}", u32::from(c)) }
    }));
    forms.push(escaped(&|c| {
        if c == '"' || c == '\\' { format!("\\{c}") } else { c.to_string().replace('\n', "\\n") }
    }));
    forms.push(escaped(&|c| match c {
        '<' | '>' | '&' => format!("\\u{:04x}", u32::from(c)),
        '"' | '\\' => format!("\\{c}"),
        '\n' => "\\n".to_owned(),
        _ => c.into(),
    }));
    forms.push(escaped(&|c| match c {
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '&' => "&amp;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        _ => c.into(),
    }));
    for before in ["", "u", "us", "user:"] {
        for after in ["", "x", ":y"] {
            let whole = format!("{before}{real}{after}");
            forms.push(STANDARD.encode(&whole));
            forms.push(URL_SAFE_NO_PAD.encode(&whole));
        }
    }
    forms
}

/// The bytes of the value, and those of its form in a query, as a program shows them.
fn byte_forms(real: &str) -> Vec<String> {
    let in_query = percent_encode(real.as_bytes(), &STRICT).to_string();
    let digits = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
    [digits(real), digits(&in_query)].iter().flat_map(|digits| [digits.concat(), digits.join(" ")]).collect()
}
