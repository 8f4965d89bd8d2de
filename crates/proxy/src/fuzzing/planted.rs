//! Real values in the forms in which an upstream may send them back, and texts in which a fuzzer
//! puts them.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sandbox_credentials::SecretValue;

use crate::scrub::Needles;

/// Each value, and what the container has, which is one thing in one run and another in the other.
/// Of different lengths, with all that is escaped anywhere, and over several lines.
const PAIRS: [(&str, [&str; 2]); 3] = [
    ("ghp_R8sPdn4zmLx2Vq7JtWc9KbYf", ["ghp_5031246879503124687950", "!@!@!@!@!@!@!@!@!@!@!@!@!@"]),
    (
        "k+E/y=\"<&>'\\ real~Value",
        ["0+1/2=\"<&>'\\ 3456~7890123456789012345", "!@!@!@!@!@!@!@!@!@!@!@!@!@!@!@!@!@!@"],
    ),
    ("-----REAL KEY\nuVwXyZ\n-----\n", ["none", "!@!@"]),
];
/// What one request sent as `Basic`, and what it had carried.
const SENT: (&str, [&str; 2]) =
    ("cm9ib3Q6Z2hwX1I4c1BkbjR6bUx4MlZxN0p0V2M5S2JZZg==", ["cm9ib3Q6OTk5", "IUAhQCFAIUAh"]);

/// What AWS encodes in a query.
const STRICT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// A text longer than this is not made longer by repetition.
const MOST: usize = 48 * 1024;

/// The needles of all values, without and with what a request sent, with the surrogates of one run
/// and of the other.
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

/// Which surrogates stand for the values. What an upstream sends before a value may, with the
/// beginning of *one* surrogate, be a whole value: a value comes through where it does whatever the
/// surrogates are.
#[derive(Clone, Copy)]
pub(super) enum Surrogates {
    Likely,
    Strange,
}

/// What is planted and must not come out.
static FORMS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let texts = PAIRS.iter().flat_map(|(real, _)| forms(real));
    // Last, lest the numbers in the seeds mean other forms.
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

/// Whether a value is in `text`, in a form that is planted.
pub(super) fn holds_value(text: &[u8]) -> bool {
    let squeezed = squeezed(text);
    let text = String::from_utf8_lossy(&squeezed);
    FORMS.iter().any(|form| text.contains(form))
}

/// The text without most of what is repeated, which would take long to search; no form repeats a
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

/// Makes a text of a script: 0xFF and a number plants a form, 0xFE the beginning of one, 0xFD
/// repeats a byte many times; every other byte matches itself.
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

/// How programs write a value, made here once more and by other means than where it is looked for.
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

/// The value's bytes, and those of what a query holds, as a program shows them.
fn byte_forms(real: &str) -> Vec<String> {
    let in_query = percent_encode(real.as_bytes(), &STRICT).to_string();
    let digits = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
    [digits(real), digits(&in_query)].iter().flat_map(|digits| [digits.concat(), digits.join(" ")]).collect()
}
