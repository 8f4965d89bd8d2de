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
use crate::policy::Allowlist;
use crate::rule::Rule;
use crate::rule::RuleKind;

/// A policy in YAML or JSON with its text.
///
/// ```
/// use allowlist::PolicyText;
///
/// let file = PolicyText::read("domains:\n  - a.example # ours\n", "policy.yaml")?;
/// let file = file.with(&["GET b.example/x*".parse()?])?;
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
#[error("{file} is written in a form that cannot be changed in place: change it by hand, {verb}\n{lines}")]
pub struct CannotEdit {
    file: String,
    verb: &'static str,
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
        #[derive(Deserialize)]
        struct Places {
            #[serde(default)]
            domains: Vec<Spanned<IgnoredAny>>,
            #[serde(default)]
            url_prefixes: Vec<Spanned<IgnoredAny>>,
            vendor_tools: Option<Spanned<IgnoredAny>>,
        }
        let warnings = self.policy.lint();
        if warnings.is_empty() {
            return Ok(Vec::new());
        }
        let places: Option<Places> = located_yaml::read(&self.file, &self.text)?;
        let start = Location::new(&self.file, Position { line: 1, column: 1 });
        let place = |warning: &Warning| {
            let places = places.as_ref()?;
            match warning.rule() {
                Some((RuleKind::Domain, index)) => places.domains.get(index).map(Spanned::location),
                Some((RuleKind::Url, index)) => places.url_prefixes.get(index).map(Spanned::location),
                None => places.vendor_tools.as_ref().map(Spanned::location),
            }
        };
        let with_place = |warning| (place(&warning).unwrap_or(&start).clone(), warning);
        Ok(warnings.into_iter().map(with_place).collect())
    }

    /// The same with these rules at the ends of their lists.
    ///
    /// # Errors
    ///
    /// If it cannot be changed in place; the error has the lines to add.
    pub fn with(&self, rules: &[Rule]) -> Result<Self, CannotEdit> {
        let wanted = self.policy.clone().with_rules(rules.iter().cloned());
        let of_kind =
            |kind: RuleKind| rules.iter().filter(move |rule| rule.kind() == kind).collect::<Vec<_>>();
        let text = [RuleKind::Domain, RuleKind::Url].into_iter().try_fold(self.text.clone(), |text, kind| {
            let rules = of_kind(kind);
            if rules.is_empty() { Some(text) } else { insert(&text, kind, &rules) }
        });
        self.changed(text, &wanted).ok_or_else(|| self.by_hand("adding", rules))
    }

    /// The same without these rules, as far as they are the policy's own.
    ///
    /// # Errors
    ///
    /// If it cannot be changed in place; the error has the rules to remove.
    pub fn without(&self, rules: &[Rule]) -> Result<Self, CannotEdit> {
        let mut left = self.clone();
        for rule in rules {
            while let Some(position) = left.policy.own_rules().iter().position(|own| own == rule) {
                let of_kind = |own: &&Rule| own.kind() == rule.kind();
                let own = left.policy.own_rules();
                let index = own.iter().take(position).filter(of_kind).count();
                let kept =
                    own.iter().enumerate().filter(|(at, _)| *at != position).map(|(_, own)| own.clone());
                let wanted = left.policy.with_own_rules(kept.collect());
                let text = remove(&left.text, rule.kind(), index);
                left = left.changed(text, &wanted).ok_or_else(|| self.by_hand("removing", rules))?;
            }
        }
        Ok(left)
    }

    /// The text, if it parses to the wanted policy.
    fn changed(&self, text: Option<String>, wanted: &Allowlist) -> Option<Self> {
        let changed = Self::read(&text?, &self.file).ok()?;
        (changed.policy == *wanted).then_some(changed)
    }

    fn by_hand(&self, verb: &'static str, rules: &[Rule]) -> CannotEdit {
        let mut lines = Vec::new();
        for kind in [RuleKind::Domain, RuleKind::Url] {
            let mut items = rules.iter().filter(|rule| rule.kind() == kind).peekable();
            if items.peek().is_some() {
                lines.push(format!("{}:", kind.list()));
                lines.extend(items.map(|rule| format!("  - {}", rule.to_yaml())));
            }
        }
        CannotEdit { file: self.file.clone(), verb, lines: lines.join("\n") }
    }
}

fn parse(text: &str, file: &str) -> Result<Allowlist, InvalidFile> {
    let is_json = Path::new(file).extension().is_some_and(|extension| extension == "json");
    if is_json { Allowlist::from_json(text, file) } else { Allowlist::from_yaml(text, file) }
}

/// The list of rules of one kind.
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

/// The position of the list of rules of this kind; `None` if it cannot be determined.
fn place_of(text: &str, kind: RuleKind) -> Option<Place> {
    type Items = Option<Spanned<Vec<Spanned<IgnoredAny>>>>;
    #[derive(Deserialize)]
    struct Lists {
        #[serde(default)]
        domains: Items,
        #[serde(default)]
        url_prefixes: Items,
    }
    let lists = located_yaml::read::<Lists>("", text).ok()?;
    let found = match kind {
        RuleKind::Domain => lists.domains,
        RuleKind::Url => lists.url_prefixes,
    };
    let Some(found) = found else { return Some(Place::Missing) };
    let keys = located_yaml::read::<Entries<String, IgnoredAny>>("", text).ok()?;
    let key = keys.into_iter().map(|(key, _)| key).find(|key| **key == kind.list())?;
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

fn insert(text: &str, kind: RuleKind, rules: &[&Rule]) -> Option<String> {
    let Place::At(List { start, items, .. }) = place_of(text, kind)? else {
        let mut text = ended(text);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}:", kind.list());
        for rule in rules {
            let _ = writeln!(text, "  - {}", rule.to_yaml());
        }
        return Some(text);
    };
    if text.get(start..)?.starts_with('[') {
        return insert_in_brackets(text, start, rules);
    }
    let content = *items.last()?;
    let lines = block_item(text, content)?;
    let dash = text.get(lines.start..content)?;
    let (before, after) = text.split_at_checked(lines.end)?;
    let mut changed = ended(before);
    for rule in rules {
        changed.extend([dash, &rule.to_yaml(), "\n"]);
    }
    Some(changed + after)
}

fn insert_in_brackets(text: &str, start: usize, rules: &[&Rule]) -> Option<String> {
    let is_json = text.trim_start().starts_with('{');
    let item = |rule: &&Rule| match rule {
        Rule::Domain(host) if is_json => serde_json::to_string(host).ok(),
        Rule::Url(rule) if is_json => serde_json::to_string(rule).ok(),
        rule => Some(rule.to_yaml()),
    };
    let items = rules.iter().map(item).collect::<Option<Vec<_>>>()?.join(", ");
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

fn remove(text: &str, kind: RuleKind, index: usize) -> Option<String> {
    let Place::At(list) = place_of(text, kind)? else { return None };
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
