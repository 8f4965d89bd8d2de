//! What a task changed in a configuration of git, setting by setting: a person decides about it who does not read the whole file.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::git_config::{self, Setting};

/// A setting of git that a task changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SettingChange {
    /// Its name, as `git config` takes it; [`UNREADABLE`](Self::UNREADABLE) stands for all settings of a file.
    pub key: String,
    /// What it was; `None` where there was none.
    pub old: Option<String>,
    /// What it is in the copy; `None` where there is none.
    pub new: Option<String>,
}

impl SettingChange {
    /// The key of a file that cannot be read as git reads it.
    pub const UNREADABLE: &str = "*";

    /// Whether git reads the objects and references of a repository in another way because of it.
    pub(super) fn is_of_format(&self) -> bool {
        let of_remote = self.key.starts_with("remote.") && self.key.ends_with(".promisor");
        let others = [
            "extensions.refstorage",
            "extensions.compatobjectformat",
            "extensions.partialclone",
            Self::UNREADABLE,
        ];
        of_remote || others.contains(&self.key.as_str())
    }
}

/// The settings that differ between two texts. One of several values is compared by its place among them.
pub(super) fn changed(before: Option<&[u8]>, now: Option<&[u8]>) -> Vec<SettingChange> {
    let (Some(before), Some(now)) = (before.and_then(values), now.and_then(values)) else {
        return vec![SettingChange { key: SettingChange::UNREADABLE.to_owned(), old: None, new: None }];
    };
    let mut keys: Vec<&String> = before.keys().chain(now.keys()).collect();
    keys.sort();
    keys.dedup();
    let of =
        |values: &BTreeMap<String, Vec<String>>, key: &String| values.get(key).cloned().unwrap_or_default();
    keys.into_iter().flat_map(|key| pairs(key, of(&before, key), of(&now, key))).collect()
}

fn pairs(key: &str, mut before: Vec<String>, mut now: Vec<String>) -> Vec<SettingChange> {
    while before.last().is_some_and(|last| now.last() == Some(last)) {
        before.pop();
        now.pop();
    }
    let (mut before, mut now) = (before.into_iter(), now.into_iter());
    let mut changes = Vec::new();
    loop {
        let (old, new) = (before.next(), now.next());
        if old.is_none() && new.is_none() {
            return changes;
        }
        if old != new {
            changes.push(SettingChange { key: key.to_owned(), old, new });
        }
    }
}

fn values(text: &[u8]) -> Option<BTreeMap<String, Vec<String>>> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Setting { section, subsection, key, value } in git_config::settings_up_to_nul(text)? {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let around = subsection.map(|name| format!(".{}", lossy(&name))).unwrap_or_default();
        values.entry(format!("{section}{around}.{key}")).or_default().push(lossy(&value));
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, now: &str, expected: &[(&str, Option<&str>, Option<&str>)]) {
        let found = changed(Some(before.as_bytes()), Some(now.as_bytes()));
        let found: Vec<(&str, Option<&str>, Option<&str>)> = found
            .iter()
            .map(|change| (change.key.as_str(), change.old.as_deref(), change.new.as_deref()))
            .collect();
        assert_eq!(found, expected, "{before:?} {now:?}");
    }

    #[test]
    fn every_setting_that_differs_is_named_with_both_values() {
        let origin = "[remote \"Or.igin\"]\n url = a\n fetch = +refs/heads/*:refs/remotes/origin/*\n";
        check(origin, origin, &[]);
        check(origin, &format!("# a comment\n{origin}"), &[]);
        check(
            origin,
            "[remote \"Or.igin\"]\n url = b\n mirror\n",
            &[
                ("remote.Or.igin.fetch", Some("+refs/heads/*:refs/remotes/origin/*"), None),
                ("remote.Or.igin.mirror", None, Some("true")),
                ("remote.Or.igin.url", Some("a"), Some("b")),
            ],
        );
        check("", "[user]\n name = \"A\\nB\"\n", &[("user.name", None, Some("A\nB"))]);
    }

    #[test]
    fn of_several_values_those_that_differ_are_named() {
        let of = |values: &[&str]| -> String {
            let keys: Vec<String> = values.iter().map(|value| format!(" push = {value}\n")).collect();
            format!("[remote \"o\"]\n{}", keys.concat())
        };
        let key = "remote.o.push";
        check(&of(&["a"]), &of(&["a", "b"]), &[(key, None, Some("b"))]);
        check(&of(&["a"]), &of(&["b", "a"]), &[(key, None, Some("b"))]);
        check(
            &of(&["a", "b"]),
            &of(&["b", "a"]),
            &[(key, Some("a"), Some("b")), (key, Some("b"), Some("a"))],
        );
    }

    #[test]
    fn what_git_may_read_and_we_cannot_is_said_to_be_unreadable() {
        check("", "[core", &[("*", None, None)]);
        assert_eq!(changed(None, Some(b"")).len(), 1);
    }

    #[test]
    fn settings_without_which_a_repository_is_read_in_another_way_are_known() {
        for (text, expected) in [
            ("[extensions]\n refStorage = reftable\n", true),
            ("[remote \"o\"]\n promisor = true\n", true),
            ("[core", true),
            ("[extensions]\n worktreeConfig = true\n", false),
            ("[remote \"o\"]\n url = promisor\n", false),
        ] {
            let changes = changed(Some(b""), Some(text.as_bytes()));
            assert_eq!(changes.iter().any(SettingChange::is_of_format), expected, "{text}");
        }
    }
}
