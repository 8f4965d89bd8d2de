//! The rules that turn a line of an agent into facts. A place is a JSON pointer, such as
//! `/item/text`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The facts in a line for which [`when`](Self::when) holds. A rule without facts is for lines
/// without new information.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Rule {
    /// Places, each with the texts of which it must contain one.
    when: BTreeMap<String, Vec<String>>,
    pub(super) session: Option<String>,
    pub(super) model: Option<String>,
    /// A whole text of the model.
    pub(super) text: Option<String>,
    /// A part of a text, which continues until something else follows.
    pub(super) part: Option<String>,
    pub(super) tool: Option<ToolRule>,
    pub(super) tool_result: Option<ToolResultRule>,
    /// Added up over a turn.
    pub(super) usage: Option<UsageRule>,
    /// US dollars, added up over a turn.
    pub(super) cost: Option<String>,
    /// An error after which the agent retries.
    pub(super) retry: Option<ErrorRule>,
    /// Whether the turn ended successfully.
    pub(super) success: bool,
    /// An error that ended the turn.
    pub(super) failure: Option<ErrorRule>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ToolRule {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: String,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ToolResultRule {
    pub(super) id: String,
    pub(super) output: String,
    pub(super) status: String,
    /// The statuses of a failed tool.
    pub(super) failed: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UsageRule {
    pub(super) input: String,
    /// Whether `input` includes cached tokens.
    pub(super) input_has_cached: bool,
    pub(super) output: String,
    pub(super) cache_read: String,
    pub(super) cache_write: String,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ErrorRule {
    message: String,
    /// The place of the HTTP status.
    status: String,
    /// Otherwise, the words of the message that precede it.
    status_after: Vec<String>,
}

impl Rule {
    pub(super) fn fits(&self, line: &Value) -> bool {
        self.when.iter().all(|(place, texts)| {
            let found = line.pointer(place).and_then(Value::as_str);
            found.is_some_and(|found| texts.iter().any(|text| text == found))
        })
    }
}

impl ErrorRule {
    pub(super) fn message(&self, line: &Value) -> String {
        text(line, &self.message).unwrap_or_default()
    }

    /// The HTTP status, if the agent reports one.
    pub(super) fn status(&self, line: &Value) -> Option<u16> {
        let at_place =
            at(line, &self.status).and_then(Value::as_u64).and_then(|status| status.try_into().ok());
        let in_message = || {
            let message = self.message(line);
            self.status_after.iter().find_map(|words| {
                let (_, rest) = message.split_once(words.as_str())?;
                let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
                digits.parse().ok()
            })
        };
        at_place.or_else(in_message).filter(|status| (100..600).contains(status))
    }
}

/// The value at `place`; an empty place has none.
pub(super) fn at<'a>(line: &'a Value, place: &str) -> Option<&'a Value> {
    if place.is_empty() { None } else { line.pointer(place) }
}

/// The text at `place`; any other value but null as JSON.
pub(super) fn text(line: &Value, place: &str) -> Option<String> {
    match at(line, place)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

pub(super) fn count(line: &Value, place: &str) -> u64 {
    at(line, place).and_then(Value::as_u64).unwrap_or_default()
}
