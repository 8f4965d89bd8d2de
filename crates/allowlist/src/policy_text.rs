//! The source text of a policy: changes preserve comments, order and spelling of everything else.
//!
//! A change is made in the text and then parsed: if the result is not the intended policy, the file
//! is not changed.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use located_yaml::Entries;
use located_yaml::InvalidFile;
use located_yaml::Location;
use located_yaml::Position;
use located_yaml::Spanned;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::lint::Warning;
use crate::matched::Match;
use crate::policy::Allowlist;
use crate::policy::RuleChange;
use crate::preset::Preset;
use crate::rule::Rule;
use crate::rule::RuleKind;

/// A policy in YAML or JSON with its text.
///
/// ```
/// use allowlist::PolicyText;
///
/// let file = PolicyText::read("domains:\n  - a.example # ours\n", "policy.yaml")?;
/// let file = file.with(&[], &["GET b.example/x*".parse()?])?;
/// assert_eq!(
///     file.as_str(),
///     "domains:\n  - a.example # ours\nurl_prefixes:\n  - {host: b.example, path: \"/x*\", methods: [GET]}\n"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyText {
    text: String,
    file: String,
    policy: Allowlist,
}

/// The form of the file does not permit changes in place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} is written in a form that cannot be changed in place: change it by hand{lines}")]
pub struct CannotEdit {
    file: String,
    lines: String,
}

impl PolicyText {
    /// Reads the text of the file that errors call `file`: JSON if its name ends in `.json`, else
    /// YAML.
    ///
    /// # Errors
    ///
    /// Like [`Allowlist::from_yaml`].
    pub fn read(text: &str, file: &str) -> Result<Self, InvalidFile> {
        let policy = parse(text, file)?;
        Ok(Self { text: text.to_owned(), file: file.to_owned(), policy })
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Allowlist {
        &self.policy
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Warnings about probable mistakes, each with its position.
    ///
    /// # Errors
    ///
    /// Never for a text that was parsed.
    pub fn lint(&self) -> Result<Vec<(Location, Warning)>, InvalidFile> {
        let warnings = self.policy.lint();
        if warnings.is_empty() {
            return Ok(Vec::new());
        }
        let lists: Option<Lists> = located_yaml::read(&self.file, &self.text)?;
        let lists = lists.unwrap_or_default();
        let start = Location::new(&self.file, Position { line: 1, column: 1 });
        let place = |warning: &Warning| match warning.rule() {
            Some((kind, index)) => lists.item(kind, index),
            None => lists.vendor_tools.as_ref().map(Spanned::location),
        };
        let with_place = |warning| (place(&warning).unwrap_or(&start).clone(), warning);
        Ok(warnings.into_iter().map(with_place).collect())
    }

    /// Finds the positions of rules in this text; there is none for rules of presets.
    pub fn places(&self) -> impl Fn(&Match) -> Option<Location> + use<> {
        let lists: Lists = located_yaml::read(&self.file, &self.text).unwrap_or_default();
        move |rule| lists.item(rule.kind, rule.index).filter(|_| rule.preset.is_none()).cloned()
    }

    /// The same with these presets and rules at the ends of their lists.
    ///
    /// # Errors
    ///
    /// If it cannot be changed in place; the error has the lines to add.
    pub fn with(&self, presets: &[Preset], rules: &[Rule]) -> Result<Self, CannotEdit> {
        let wanted = self.policy.clone().with_presets(presets.iter().copied());
        self.changed(&wanted.with_rules(rules.iter().cloned()))
    }

    /// The same with this change.
    ///
    /// # Errors
    ///
    /// If it cannot be changed in place; the error has the lines to remove and to add.
    pub fn with_change(&self, change: &RuleChange) -> Result<Self, CannotEdit> {
        self.changed(&change.applied_to(self.policy.clone()))
    }

    /// The same with the rules of the `wanted` policy, whose new ones are at the ends of their lists.
    fn changed(&self, wanted: &Allowlist) -> Result<Self, CannotEdit> {
        let (mut text, mut lines) = (Some(self.text.clone()), String::new());
        for list in LISTS {
            let (mut now, then) = (items_of(&self.policy, list), items_of(wanted, list));
            let mut gone = Vec::new();
            for index in (0..now.len()).rev() {
                if now.get(index).is_some_and(|item| !then.contains(item)) {
                    gone.insert(0, now.remove(index));
                    text = text.and_then(|text| remove(&text, list, index));
                }
            }
            let new = then.get(now.len()..).unwrap_or_default();
            text = text.and_then(|text| insert(&text, list, new));
            for (verb, items) in [("remove from", gone.as_slice()), ("add to", new)] {
                if !items.is_empty() {
                    // Writing to a string cannot fail.
                    let _ = write!(lines, "\n{verb} `{list}`:");
                    lines.extend(items.iter().map(|item| format!("\n  - {}", item.to_yaml())));
                }
            }
        }
        let changed = text.and_then(|text| Self::read(&text, &self.file).ok());
        changed
            .filter(|changed| changed.policy == *wanted)
            .ok_or_else(|| CannotEdit { file: self.file.clone(), lines })
    }
}

/// The keys of the lists that are changed.
const LISTS: [&str; 4] = [PRESETS, RuleKind::Deny.list(), RuleKind::Domain.list(), RuleKind::Url.list()];
const PRESETS: &str = "presets";

/// An item of a list.
#[derive(PartialEq)]
enum Item<'a> {
    Preset(Preset),
    Rule(&'a Rule),
}

impl Item<'_> {
    fn to_yaml(&self) -> String {
        match self {
            Self::Preset(preset) => preset.name().to_owned(),
            Self::Rule(rule) => rule.to_yaml(),
        }
    }

    fn to_json(&self) -> Option<String> {
        match self {
            Self::Preset(preset) => serde_json::to_string(preset).ok(),
            Self::Rule(rule) => serde_json::to_string(rule).ok(),
        }
    }
}

/// The items of this list.
fn items_of<'a>(policy: &'a Allowlist, list: &str) -> Vec<Item<'a>> {
    if list == PRESETS {
        return policy.presets().iter().copied().map(Item::Preset).collect();
    }
    let rules = if list == RuleKind::Deny.list() { policy.denied() } else { policy.own_rules() };
    let is_there = |rule: &&Rule| list == RuleKind::Deny.list() || rule.kind().list() == list;
    rules.iter().filter(is_there).map(Item::Rule).collect()
}

fn parse(text: &str, file: &str) -> Result<Allowlist, InvalidFile> {
    let is_json = Path::new(file).extension().is_some_and(|extension| extension == "json");
    if is_json { Allowlist::from_json(text, file) } else { Allowlist::from_yaml(text, file) }
}

type Items = Option<Spanned<Vec<Spanned<IgnoredAny>>>>;

/// The positions of the parts of a policy.
#[derive(Default, Deserialize)]
struct Lists {
    presets: Items,
    deny: Items,
    domains: Items,
    url_prefixes: Items,
    vendor_tools: Option<Spanned<IgnoredAny>>,
}

impl Lists {
    fn of(&self, list: &str) -> &Items {
        match list {
            PRESETS => &self.presets,
            "deny" => &self.deny,
            "domains" => &self.domains,
            _ => &self.url_prefixes,
        }
    }

    fn item(&self, kind: RuleKind, index: usize) -> Option<&Location> {
        self.of(kind.list()).as_ref()?.get(index).map(Spanned::location)
    }
}

/// The place of a list.
enum Place {
    Missing,
    At(List),
}

/// Positions of the parts of a list.
struct List {
    key: usize,
    start: usize,
    items: Vec<usize>,
}

/// The place of the list with this key; `None` if it cannot be determined.
fn place_of(text: &str, list: &str) -> Option<Place> {
    let lists = located_yaml::read::<Lists>("", text).ok()?;
    let Some(found) = lists.of(list) else { return Some(Place::Missing) };
    let keys = located_yaml::read::<Entries<String, IgnoredAny>>("", text).ok()?;
    let key = keys.into_iter().map(|(key, _)| key).find(|key| **key == list)?;
    let items = found.iter().map(|item| offset(text, item.location())).collect::<Option<_>>()?;
    let (key, start) = (offset(text, key.location())?, offset(text, found.location())?);
    Some(Place::At(List { key, start, items }))
}

/// The byte offset of a position.
fn offset(text: &str, location: &Location) -> Option<usize> {
    let position = location.position();
    let mark = text.len() - text.trim_start_matches('\u{feff}').len();
    let lines = text.get(mark..)?.split_inclusive('\n').take(position.line.checked_sub(1)?);
    let line = mark + lines.map(str::len).sum::<usize>();
    let rest = text.get(line..)?;
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.nth(position.column.checked_sub(1)?).map(|at| line + at)
}

fn insert(text: &str, list: &str, new: &[Item<'_>]) -> Option<String> {
    if new.is_empty() {
        return Some(text.to_owned());
    }
    let Place::At(List { start, items, .. }) = place_of(text, list)? else {
        if text.trim_start().starts_with('{') {
            let at = text.find('{')? + 1;
            let (before, after) = text.split_at_checked(at)?;
            let items = new.iter().map(Item::to_json).collect::<Option<Vec<_>>>()?.join(", ");
            let comma = if after.trim_start().starts_with('}') { "" } else { ", " };
            return Some(format!("{before}\"{list}\": [{items}]{comma}{after}"));
        }
        let mut text = ended(text);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{list}:");
        for item in new {
            let _ = writeln!(text, "  - {}", item.to_yaml());
        }
        return Some(text);
    };
    if text.get(start..)?.starts_with('[') {
        return insert_in_brackets(text, start, new);
    }
    let content = *items.last()?;
    let lines = block_item(text, content)?;
    let dash = text.get(lines.start..content)?;
    let (before, after) = text.split_at_checked(lines.end)?;
    let mut changed = ended(before);
    for item in new {
        changed.extend([dash, &item.to_yaml(), "\n"]);
    }
    Some(changed + after)
}

fn insert_in_brackets(text: &str, start: usize, new: &[Item<'_>]) -> Option<String> {
    let is_json = text.trim_start().starts_with('{');
    let item = |item: &Item<'_>| if is_json { item.to_json() } else { Some(item.to_yaml()) };
    let items = new.iter().map(item).collect::<Option<Vec<_>>>()?.join(", ");
    let parts = bracketed(text, start)?;
    let (at, comma) = match parts.as_slice() {
        [only] if text.get(only.clone())?.trim().is_empty() => (only.start, ""),
        [.., last] if text.get(last.clone())?.trim().is_empty() => (last.start, " "),
        [.., last] => (last.start + text.get(last.clone())?.trim_end().len(), ", "),
        [] => return None,
    };
    let (before, after) = text.split_at_checked(at)?;
    Some(format!("{before}{comma}{items}{after}"))
}

fn remove(text: &str, list: &str, index: usize) -> Option<String> {
    let Place::At(list) = place_of(text, list)? else { return None };
    let mut text = text.to_owned();
    if text.get(list.start..)?.starts_with('[') {
        let parts = bracketed(&text, list.start)?;
        let part = parts.get(index)?;
        let with_comma =
            match (index.checked_sub(1).and_then(|before| parts.get(before)), parts.get(index + 1)) {
                (Some(before), _) => before.end..part.end,
                (None, Some(after)) => part.start..after.start + blanks(text.get(after.clone())?),
                (None, None) => part.clone(),
            };
        text.replace_range(with_comma, "");
        return Some(text);
    }
    let item = block_item(&text, *list.items.get(index)?)?;
    text.replace_range(item, "");
    if list.items.len() == 1 {
        let colon = list.key + text.get(list.key..)?.find(':')? + 1;
        text.insert_str(colon, " []");
    }
    Some(text)
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// The lines of the item of a block list whose content begins at `content`.
fn block_item(text: &str, content: usize) -> Option<Range<usize>> {
    let start = text.get(..content)?.rfind('\n').map_or(0, |at| at + 1);
    let dash = text.get(start..content)?;
    if dash.trim() != "-" {
        return None;
    }
    let mut end = start;
    let mut at = start;
    for (number, line) in text.get(start..)?.split_inclusive('\n').enumerate() {
        let inner = line.trim();
        let is_content = !inner.is_empty() && !inner.starts_with('#');
        if number > 0 && is_content && blanks(line) <= blanks(dash) {
            break;
        }
        at += line.len();
        if number == 0 || is_content {
            end = at;
        }
    }
    Some(start..end)
}

/// The parts of the list in brackets that begins at `start`, without their commas; a single empty
/// one if there is no item.
fn bracketed(text: &str, start: usize) -> Option<Vec<Range<usize>>> {
    let mut parts = Vec::new();
    let (mut from, mut depth, mut before) = (start + 1, 0_usize, '[');
    let mut characters = text.get(start + 1..)?.char_indices().map(|(at, c)| (start + 1 + at, c));
    while let Some((at, c)) = characters.next() {
        let begins = before.is_whitespace() || matches!(before, '[' | '{' | ',' | ':');
        match c {
            '"' | '\'' if begins => loop {
                match characters.next()?.1 {
                    '\\' if c == '"' => drop(characters.next()?),
                    end if end == c => break,
                    _ => {}
                }
            },
            '#' if before.is_whitespace() => drop(characters.find(|(_, c)| *c == '\n')?),
            '[' | '{' => depth += 1,
            ']' if depth == 0 => {
                parts.push(from..at);
                return Some(parts);
            }
            ']' | '}' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(from..at);
                from = at + 1;
            }
            _ => {}
        }
        before = if c == '#' { '\n' } else { c };
    }
    None
}

/// Adds a final line break, unless the text is empty.
fn ended(text: &str) -> String {
    let is_ended = text.is_empty() || text.ends_with('\n');
    if is_ended { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests;
