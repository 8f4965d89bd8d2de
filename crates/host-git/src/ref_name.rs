//! Names of refs, stricter than git's own.

use std::fmt;

use sandbox_files::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::text::is_unseen;

/// Bytes of a name: each part is a file.
const LONGEST: usize = 1000;
/// Parts of a name: a file in more folders is not read as a ref.
const MOST_PARTS: usize = 42;

/// A full name of a ref that git accepts, from any source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RefName(Box<str>);

/// The namespace of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Branch,
    Tag,
    Remote,
    Note,
    Stash,
}

impl RefName {
    /// Parses a name that `git check-ref-format` accepts, in printable UTF-8.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        let is_good_part = |part: &str| {
            (1..=250).contains(&part.len()) && !part.starts_with('.') && part.strip_suffix(".lock").is_none()
        };
        let is_bad = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
        let is_good = text.starts_with("refs/")
            && !is_too_long(text)
            && text.split('/').all(is_good_part)
            && !text.contains(is_bad)
            && !text.contains("..")
            && !text.contains("@{")
            && !text.ends_with('.');
        is_good.then(|| Self(text.into()))
    }

    /// The reason why a task cannot create a ref of this name, though git could. The host may have
    /// such names.
    pub(crate) fn trap(&self) -> Option<&'static str> {
        if self.0.contains(['$', '`']) {
            Some(
                "its name has a `$` or a backtick, which the prompts of some shells run; `git branch -m` gives it another one",
            )
        } else if self.0.contains(is_unseen) {
            Some("its name has invisible characters; `git branch -m` gives it another one")
        } else if self.short().is_some_and(is_taken) {
            Some("its name has another meaning to git")
        } else {
            None
        }
    }

    /// Its name without its folder.
    fn short(&self) -> Option<&str> {
        ["refs/heads/", "refs/tags/", "refs/remotes/"].iter().find_map(|folder| self.0.strip_prefix(folder))
    }

    /// The refs whose short names some git commands resolve differently once this one exists. Most
    /// commands take the first match in `refs`, `refs/tags`, `refs/heads` and `refs/remotes`; `git
    /// checkout` prefers a branch.
    pub(crate) fn shadowed(&self) -> impl Iterator<Item = Self> {
        let tag = || self.0.strip_prefix("refs/tags/").map(|short| (short, &["heads/"][..]));
        let own = self.short_branch().map(|short| (short, &["", "tags/"][..])).or_else(tag).into_iter();
        own.flat_map(|(short, folders)| {
            let folders = folders.iter().chain(&["remotes/"]);
            let names = folders.map(move |folder| format!("refs/{folder}{short}"));
            names.chain([format!("refs/remotes/{short}/HEAD")])
        })
        .map(|name| Self(name.into()))
    }

    /// The hexadecimal digits of its short name that git resolves to an object unless this ref
    /// exists: all of the name, or the part after `-g` that `git describe` writes.
    pub(crate) fn abbreviation(&self) -> Option<&str> {
        let short = self.short()?;
        // A remote's name refers to its `HEAD`.
        let short = self.remote_head().and_then(|_| short.strip_suffix("/HEAD")).unwrap_or(short);
        let digits = short.rsplit_once("-g").map_or(short, |(_, digits)| digits);
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        ((4..=64).contains(&digits.len()) && is_hex).then_some(digits)
    }

    /// The name that represents the work tree's `HEAD` where names of refs are required.
    pub(crate) fn head() -> Self {
        Self("refs/HEAD".into())
    }

    pub(crate) fn is_head(&self) -> bool {
        &*self.0 == "refs/HEAD"
    }

    /// The branch called `short`.
    pub(crate) fn branch(short: &[u8]) -> Option<Self> {
        Self::parse(&[b"refs/heads/", short].concat()).filter(|name| name.space().is_some())
    }

    /// Its namespace if it is imported; `None` for all others.
    pub(crate) fn space(&self) -> Option<Space> {
        let rest = self.0.strip_prefix("refs/")?;
        if rest == "stash" {
            return Some(Space::Stash);
        }
        let (space, short) = rest.split_once('/')?;
        // Commands would treat them as options, or as the work tree's own `HEAD`.
        if short.starts_with('-') || (space == "heads" && short == "HEAD") {
            return None;
        }
        match space {
            "heads" => Some(Space::Branch),
            "tags" => Some(Space::Tag),
            "remotes" => Some(Space::Remote),
            "notes" => Some(Space::Note),
            _ => None,
        }
    }

    /// A branch's name without `refs/heads/`.
    pub(crate) fn short_branch(&self) -> Option<&str> {
        self.0.strip_prefix("refs/heads/")
    }

    /// The folder whose refs a remote's symbolic ref may name: only its `HEAD` may be symbolic.
    pub(crate) fn remote_head(&self) -> Option<&str> {
        let folder = self.0.strip_suffix("HEAD")?;
        let remote = folder.strip_prefix("refs/remotes/")?;
        (remote.len() > 1).then_some(folder)
    }

    /// The same ref below `folder`, which ends with a slash. If the result would be too long for a
    /// name, a digest replaces it.
    pub(crate) fn below(&self, folder: &str) -> Self {
        let name = format!("{folder}{}", self.0.strip_prefix("refs/").unwrap_or(&self.0));
        if is_too_long(&name) {
            Self(format!("{folder}long/{}", hex(&Sha256::digest(self.0.as_bytes()))).into())
        } else {
            Self(name.into())
        }
    }

    /// This name followed by `suffix`.
    pub(crate) fn with(&self, suffix: &str) -> Self {
        Self(format!("{}{suffix}", self.0).into())
    }

    /// The names that cannot be refs next to this one: each would be a file where this ref needs a
    /// folder.
    pub(crate) fn folders(&self) -> impl Iterator<Item = Self> {
        let slashes = self.0.match_indices('/').skip(1);
        slashes.filter_map(|(at, _)| Some(Self(self.0.get(..at)?.into())))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether git gives the name another meaning, whichever ref has it: `HEAD` and similar names, or
/// an object by its id.
fn is_taken(short: &str) -> bool {
    let is_upper = short.bytes().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-'));
    let is_id = matches!(short.len(), 40 | 64) && short.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_special = matches!(short, "@" | "HEAD" | "AUTO_MERGE") || short.starts_with("refs/");
    is_special || is_upper && short.ends_with("_HEAD") || is_id
}

fn is_too_long(text: &str) -> bool {
    text.len() > LONGEST || text.split('/').count() > MOST_PARTS
}

impl fmt::Display for RefName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_break_git_or_a_terminal_are_refused() {
        for (name, expected) in [
            ("refs/heads/main", true),
            ("refs/heads/a/b@c", true),
            ("refs/heads/größe", true),
            ("refs/heads/a.lock", false),
            ("refs/heads/a.lock/b", false),
            ("refs/heads/.a", false),
            ("refs/heads/a..b", false),
            ("refs/heads/a b", false),
            ("refs/heads/a\x1b[2J", false),
            ("refs/heads/a\u{9b}2J", false),
            ("refs/heads/a~1", false),
            ("refs/heads/@{1}", false),
            ("refs/heads//a", false),
            ("refs/heads/a/", false),
            ("refs/heads/a.", false),
            ("refs/heads/../../config", false),
            ("heads/main", false),
            ("config", false),
        ] {
            assert_eq!(RefName::parse(name.as_bytes()).is_some(), expected, "{name:?}");
        }
        assert!(RefName::parse(b"refs/heads/\xff").is_none());
        let deep = |parts: usize| RefName::parse(format!("refs/heads{}", "/a".repeat(parts - 2)).as_bytes());
        assert!(deep(MOST_PARTS).is_some() && deep(MOST_PARTS + 1).is_none());
    }

    #[test]
    fn names_that_shells_run_or_nobody_sees_are_traps() {
        for (name, expected) in [
            ("main", false),
            ("größe/日本", false),
            ("a;b|c&d'e", false),
            ("$(id)", true),
            ("a`id`", true),
            ("ma\u{200b}in", true),
            ("\u{202e}niam", true),
            ("a\u{2066}", true),
            ("a\u{2060}", true),
            ("a\u{feff}", true),
            ("a\u{2028}", true),
            ("a\u{2029}", true),
            ("a\u{ad}", true),
            ("a\u{e0041}", true),
        ] {
            let name = RefName::branch(name.as_bytes()).unwrap();
            assert_eq!(name.trap().is_some(), expected, "{name:?}");
        }
    }

    #[test]
    fn only_five_kinds_of_refs_are_imported() {
        for (name, expected) in [
            ("refs/heads/main", Some(Space::Branch)),
            ("refs/tags/v1", Some(Space::Tag)),
            ("refs/remotes/origin/HEAD", Some(Space::Remote)),
            ("refs/notes/commits", Some(Space::Note)),
            ("refs/stash", Some(Space::Stash)),
            ("refs/replace/0123456789abcdef0123456789abcdef01234567", None),
            ("refs/sandbox/backup/x", None),
            ("refs/bisect/bad", None),
            ("refs/heads", None),
            ("refs/heads/HEAD", None),
            ("refs/heads/-x", None),
        ] {
            assert_eq!(RefName::parse(name.as_bytes()).unwrap().space(), expected, "{name}");
        }
    }

    #[test]
    fn names_with_another_meaning_to_git_are_traps() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        for (name, expected) in [
            ("tags/HEAD", true),
            ("tags/FETCH_HEAD", true),
            ("heads/ORIG_HEAD", true),
            ("remotes/HEAD", true),
            ("heads/@", true),
            ("heads/refs/tags/v1", true),
            (&*format!("tags/{id}"), true),
            (&*format!("heads/{}", id.to_uppercase()), true),
            (&*format!("heads/{id}/x"), false),
            ("remotes/origin/HEAD", false),
            ("heads/x/HEAD", false),
            ("heads/AHEAD", false),
            ("heads/fetch_HEAD", false),
            ("tags/2024", false),
            ("heads/cafe", false),
        ] {
            let name = RefName::parse(format!("refs/{name}").as_bytes()).unwrap();
            assert_eq!(name.trap().is_some(), expected, "{name}");
        }
    }

    #[test]
    fn names_that_git_can_resolve_to_an_object_have_its_digits() {
        for (name, expected) in [
            ("heads/cafe", Some("cafe")),
            ("tags/CAFE12", Some("CAFE12")),
            ("remotes/cafe1/HEAD", Some("cafe1")),
            ("heads/v1-3-gcafe", Some("cafe")),
            ("heads/caf", None),
            ("heads/cafe/HEAD", None),
            ("heads/x/cafe", None),
            ("heads/bug-cafe", None),
            ("heads/magic", None),
            ("notes/cafe", None),
        ] {
            let name = RefName::parse(format!("refs/{name}").as_bytes()).unwrap();
            assert_eq!(name.abbreviation(), expected, "{name}");
        }
    }

    #[test]
    fn folders_of_a_name_are_those_that_could_be_refs() {
        let name = RefName::parse(b"refs/heads/a/b").unwrap();
        let folders: Vec<String> = name.folders().map(|name| name.to_string()).collect();
        assert_eq!(folders, ["refs/heads", "refs/heads/a"]);
        assert_eq!(name.below("refs/sandbox/R/").as_str(), "refs/sandbox/R/heads/a/b");
    }

    #[test]
    fn name_too_long_below_a_folder_is_replaced_by_a_short_one() {
        let long = |last: char| {
            let text = format!("refs/heads/{0}/{0}/{0}/{0}{last}", "x".repeat(240));
            RefName::parse(text.as_bytes()).unwrap()
        };
        let deep = RefName::parse(format!("refs/heads{}", "/a".repeat(MOST_PARTS - 2)).as_bytes()).unwrap();
        let folder = "refs/sandbox/backup/a-run-of-some-name/";
        let names = [long('a'), long('b'), deep].map(|name| (name.below(folder), name.below(folder)));
        for (name, again) in &names {
            assert_eq!(RefName::parse(name.as_str().as_bytes()).as_ref(), Some(again), "{name}");
            assert!(name.as_str().starts_with(folder), "{name}");
        }
        assert!(names[0] != names[1] && names[1] != names[2]);
    }

    proptest! {
        #[test]
        fn ref_name_never_leaves_its_folder(bytes: Vec<u8>) {
            if let Some(name) = RefName::parse(&[b"refs/heads/".as_slice(), &bytes].concat()) {
                let parts: Vec<&str> = name.as_str().split('/').collect();
                prop_assert!(parts.iter().all(|part| !part.is_empty() && *part != ".." && *part != "."));
            }
        }
    }
}
