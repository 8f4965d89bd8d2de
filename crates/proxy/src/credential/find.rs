//! Finds whole credentials in the value of one header, and writes the value with real ones.
//!
//! A value is read only in forms that all servers read alike, and a credential in it must equal the
//! surrogate from end to end: the text around a surrogate could be the attacker's own credential,
//! and the surrogate only its alibi.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sandbox_credentials::SecretValue;

use super::entry::Entry;

/// Reads tokens of clients, padded or not.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Writes without padding.
const UNPADDED: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_encode_padding(false));

/// The maximum length in bytes of the other half, next to a credential of ours, in a `Basic` pair.
/// The response is searched for the pair in every form, which costs many times its length.
const MAX_OTHER_HALF: usize = 1024;

/// How the value of a header may be divided into credentials.
pub(super) enum Division<'a> {
    /// It contains one credential.
    One,
    /// It is a list of cookies.
    Cookies,
    /// It may be a comma-separated list, for these entries.
    List(Vec<&'a Entry>),
}

/// A header's value with real credentials in it.
pub(super) struct Found<'a> {
    /// The value.
    pub(super) value: Vec<u8>,
    /// The name of each entry whose surrogate was replaced.
    pub(super) used: Vec<&'a str>,
    /// How many parts of the value were removed.
    pub(super) dropped: u32,
    /// Encoded credentials, as they are sent and as the container has them; only those that a
    /// response must not contain.
    pub(super) sent: Vec<(SecretValue, String)>,
}

/// Looks for the surrogates of `entries` in `value`; `None` if there is none.
pub(super) fn find<'a>(value: &[u8], entries: &[&'a Entry], division: &Division<'a>) -> Option<Found<'a>> {
    let lead = value.len() - value.trim_ascii_start().len();
    let text = value.trim_ascii();
    if let Some(entry) = held_as(entries, text) {
        return Some(Found::one(spliced(value, lead, text.len(), entry.value()), entry));
    }
    if let Some((scheme, at, token)) = scheme_and_token(text) {
        if let Some(entry) = held_as(entries, token) {
            return Some(Found::one(spliced(value, lead + at, token.len(), entry.value()), entry));
        }
        if scheme.eq_ignore_ascii_case(b"basic")
            && let Some(pair) = basic(token, entries)
        {
            return Some(Found {
                value: splice(value, lead + at, token.len(), pair.token.as_bytes()),
                used: pair.used,
                dropped: 0,
                sent: pair.sent.into_iter().collect(),
            });
        }
    }
    match division {
        Division::One => None,
        Division::Cookies => cookies(value, entries),
        Division::List(entries) => list(value, entries),
    }
}

impl<'a> Found<'a> {
    fn one(value: Vec<u8>, entry: &'a Entry) -> Self {
        Self { used: vec![entry.name()], ..Self::none(value) }
    }

    fn none(value: Vec<u8>) -> Self {
        Self { value, used: Vec::new(), dropped: 0, sent: Vec::new() }
    }
}

fn held_as<'a>(entries: &[&'a Entry], credential: &[u8]) -> Option<&'a Entry> {
    entries.iter().copied().find(|entry| entry.is_held_as(credential))
}

/// `Bearer TOKEN`: the scheme, where the token begins, and the token, which is everything after the
/// spaces.
fn scheme_and_token(text: &[u8]) -> Option<(&[u8], usize, &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = text.split_at(end);
    let token = rest.trim_ascii_start();
    let only_spaces = rest.iter().take(rest.len() - token.len()).all(|byte| *byte == b' ');
    let is_name = !scheme.is_empty() && scheme.iter().all(|byte| is_name_byte(*byte));
    (is_name && only_spaces).then(|| (scheme, text.len() - token.len(), token))
}

/// Whether `byte` may be part of a scheme's name.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The token of a `Basic` pair with real values.
struct Pair<'a> {
    token: String,
    used: Vec<&'a str>,
    sent: Option<(SecretValue, String)>,
}

fn basic<'a>(token: &[u8], entries: &[&'a Entry]) -> Option<Pair<'a>> {
    let pair = LENIENT.decode(token).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    let (user, password) = (pair.get(..colon)?, pair.get(colon + 1..)?);
    let matching = |half: &[u8], other: &[u8]| {
        let mut fitting = entries.iter().copied();
        fitting.find(|entry| entry.is_held_as(half) && entry.fits_next_to(other))
    };
    let (for_user, for_password) = (matching(user, password), matching(password, user));
    let replaced = [for_user, for_password];
    let names = replaced.into_iter().flatten().map(Entry::name).collect();
    let not_ours = match replaced {
        [Some(_), Some(_)] => 0,
        [Some(_), None] => password.len(),
        [None, Some(_)] => user.len(),
        [None, None] => return None,
    };
    if not_ours > MAX_OTHER_HALF {
        return None;
    }
    let real = |entry: Option<&Entry>, half: &[u8]| {
        entry.map_or_else(|| half.to_vec(), |entry| entry.value().expose().as_bytes().to_vec())
    };
    let real_pair = [real(for_user, user), real(for_password, password)].join(&b':');
    // A client that omits padding may not expect it.
    let engine = if token.len().is_multiple_of(4) { &LENIENT } else { &UNPADDED };
    let real_token = engine.encode(real_pair);
    let may_come_back = replaced.iter().flatten().all(|entry| entry.allows_echo());
    let sent = (!may_come_back)
        .then(|| String::from_utf8(token.to_vec()).ok())
        .flatten()
        .map(|held| (SecretValue::new(real_token.clone()), held));
    Some(Pair { token: real_token, used: names, sent })
}

/// Cookies, each a separate credential. Other cookies with the name of a replaced one are removed:
/// it is unknown which one a server takes.
fn cookies<'a>(value: &[u8], entries: &[&'a Entry]) -> Option<Found<'a>> {
    let cookies: Vec<&[u8]> = value.split(|byte| *byte == b';').collect();
    let replaced: Vec<_> = cookies.iter().map(|cookie| real_cookie(cookie, entries)).collect();
    let mut found = Found::none(Vec::new());
    let mut names: Vec<&[u8]> = Vec::new();
    for (cookie, _) in cookies.iter().zip(&replaced).filter(|(_, real)| real.is_some()) {
        names.push(cookie_name(cookie));
    }
    let mut done: Vec<&[u8]> = Vec::new();
    let mut kept: Vec<&[u8]> = Vec::new();
    for (cookie, real) in cookies.iter().zip(&replaced) {
        let name = cookie_name(cookie);
        let is = |other: &&[u8]| other.eq_ignore_ascii_case(name);
        match real {
            Some((real, entry)) if !done.iter().any(is) => {
                done.push(name);
                found.used.push(entry.name());
                kept.push(real);
            }
            None if !names.iter().any(is) => kept.push(cookie),
            _ => found.dropped += 1,
        }
    }
    found.value = kept.join(&b';').trim_ascii_start().to_vec();
    (!found.used.is_empty()).then_some(found)
}

fn cookie_name(cookie: &[u8]) -> &[u8] {
    let end = cookie.iter().position(|byte| *byte == b'=').unwrap_or(cookie.len());
    cookie.get(..end).unwrap_or_default().trim_ascii()
}

/// `name=SURROGATE` with the real value, and its entry; the value may be in double quotes.
fn real_cookie<'a>(cookie: &[u8], entries: &[&'a Entry]) -> Option<(Vec<u8>, &'a Entry)> {
    let start = cookie.iter().position(|byte| *byte == b'=')? + 1;
    let value = cookie.get(start..)?;
    let lead = value.len() - value.trim_ascii_start().len();
    let value = value.trim_ascii();
    let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    let (quote, credential) = bare.map_or((0, value), |bare| (1, bare));
    let entry = held_as(entries, credential)?;
    Some((spliced(cookie, start + lead + quote, credential.len(), entry.value()), entry))
}

/// A comma-separated list, each part a separate credential.
fn list<'a>(value: &[u8], entries: &[&'a Entry]) -> Option<Found<'a>> {
    let mut found = Found::none(Vec::new());
    let parts: Vec<Vec<u8>> = value
        .split(|byte| *byte == b',')
        .map(|part| {
            let lead = part.len() - part.trim_ascii_start().len();
            let credential = part.trim_ascii();
            let Some(entry) = held_as(entries, credential) else {
                return part.to_vec();
            };
            found.used.push(entry.name());
            spliced(part, lead, credential.len(), entry.value())
        })
        .collect();
    found.value = parts.join(&b',');
    (!found.used.is_empty()).then_some(found)
}

/// `text` with a real value in place of `length` bytes from `start`.
fn spliced(text: &[u8], start: usize, length: usize, value: &SecretValue) -> Vec<u8> {
    splice(text, start, length, value.expose().as_bytes())
}

fn splice(text: &[u8], start: usize, length: usize, with: &[u8]) -> Vec<u8> {
    let before = text.get(..start).unwrap_or_default();
    let after = text.get(start + length..).unwrap_or_default();
    [before, with, after].concat()
}
