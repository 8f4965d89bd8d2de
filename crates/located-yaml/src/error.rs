//! Mismatches of types, described for the author of a document.

use std::fmt::{self, Display};

use serde::de::{Error, Expected, Unexpected};

use crate::node::Step;

/// A problem with a part of a tree, and the path to it. It quotes no value of an unexpected type:
/// it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Without its subject if it begins with a space.
    message: String,
    steps: Option<Vec<Step>>,
}

impl Mismatch {
    /// The problem and its fix.
    #[must_use]
    pub fn message(&self) -> &str {
        self.message.trim_start()
    }

    /// The path to it from the root.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        self.steps.clone().unwrap_or_default()
    }

    /// The innermost position counts.
    pub(crate) fn at(mut self, steps: impl FnOnce() -> Vec<Step>, subject: impl FnOnce() -> String) -> Self {
        if self.steps.is_none() {
            self.steps = Some(steps());
            if self.message.starts_with(' ') {
                self.message.insert_str(0, &subject());
            }
        }
        self
    }
}

impl Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Mismatch {}

impl Error for Mismatch {
    fn custom<T: Display>(message: T) -> Self {
        Self { message: message.to_string(), steps: None }
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let shape = shape(expected);
        if matches!(unexpected, Unexpected::Float(value) if !value.is_finite()) {
            return Self::custom(format!(" must be {shape}; this one is out of range"));
        }
        let found = kind(unexpected);
        let fix = match (shape.as_str(), unexpected) {
            (text, Unexpected::Bool(_) | Unexpected::Signed(_) | Unexpected::Float(_))
                if text.starts_with("a text") =>
            {
                ": put it in quotes"
            }
            ("a list", Unexpected::Str(_)) => ": write it as in [one, another]",
            (_, Unexpected::Enum) => ": no tag belongs here",
            _ => "",
        };
        Self::custom(format!(" must be {shape}, not {found}{fix}"))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let shape = shape(expected);
        Self::custom(match unexpected {
            Unexpected::Other(text) => format!(" must be {shape}, not `{}`", text.escape_debug()),
            Unexpected::Signed(_) | Unexpected::Unsigned(_) => {
                format!(" must be {shape}; this one is out of range")
            }
            _ => format!(" must be {shape}"),
        })
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        Self::custom(format!(" must be {}, not `{}`", listed(known), variant.escape_debug()))
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        let shown = field.escape_debug();
        Self::custom(match nearest(field, known) {
            Some(near) => format!("unknown key `{shown}`: did you mean `{near}`?"),
            None => format!("unknown key `{shown}`: use {}", listed(known)),
        })
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format!("there is no `{field}` here: add it"))
    }
}

/// Translates serde's names of expected types to those of documents.
fn shape(expected: &dyn Expected) -> String {
    let words = expected.to_string();
    match words.as_str() {
        "a string" => "a text",
        "a sequence" => "a list",
        "a map" => "a mapping",
        "a boolean" => "true or false",
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => "a whole number",
        "f64" => "a number",
        other if other.starts_with("struct ") => "a mapping",
        other => other,
    }
    .to_owned()
}

/// The kind of the value found; never the value itself.
fn kind(unexpected: Unexpected<'_>) -> &str {
    match unexpected {
        Unexpected::Unit | Unexpected::Option => "nothing",
        Unexpected::Bool(_) => "true or false",
        Unexpected::Float(_) => "a number with a fraction",
        Unexpected::Signed(_) | Unexpected::Unsigned(_) => "a number",
        Unexpected::Str(_) => "a text",
        Unexpected::Seq => "a list",
        Unexpected::Map => "a mapping",
        Unexpected::Enum => "a tagged value",
        Unexpected::Other(kind) => kind,
        _ => "something else",
    }
}

/// The name in `known` that was probably meant by `name`: at most two characters differ.
#[must_use]
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let length = name.chars().count();
    let most = (length / 2).min(2);
    let near = known.iter().filter(|known| known.len().abs_diff(length) <= most);
    let near = near.map(|known| (distance(name, known), *known)).min_by_key(|(distance, _)| *distance);
    near.filter(|(distance, _)| *distance <= most).map(|(_, known)| known)
}

/// The edit distance: characters to insert, remove or replace.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (line, c) in one.chars().enumerate() {
        let mut left = line + 1;
        let mut next = vec![left];
        for ((d, above), diagonal) in other.chars().zip(row.iter().skip(1)).zip(&row) {
            left = (left + 1).min(above + 1).min(diagonal + usize::from(c != d));
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

fn listed(known: &[&str]) -> String {
    match known {
        [first @ .., last] if !first.is_empty() => format!("`{}` or `{last}`", first.join("`, `")),
        _ => format!("`{}`", known.concat()),
    }
}
