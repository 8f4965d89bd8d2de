//! Git configuration, read byte for byte as git reads it, and whether it can make git run a program or read another configuration.

use std::iter::Peekable;
use std::slice::Iter;

/// A setting. Section and key are in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Setting {
    pub(super) section: String,
    pub(super) subsection: Option<Vec<u8>>,
    pub(super) key: String,
    /// `true` for a key without `=`, as git reads it.
    pub(super) value: Vec<u8>,
}

impl Setting {
    /// Whether it is `section.key`, without a subsection.
    pub(super) fn is(&self, section: &str, key: &str) -> bool {
        self.subsection.is_none() && self.section == section && self.key == key
    }

    /// Whether git does nothing because of it but to store and show things: where a repository came from, and how it is kept.
    /// `is_work_tree` says whether `core.worktree` names a folder of the same tree that points back to this repository.
    pub(super) fn is_descriptive(&self, is_work_tree: impl Fn(&[u8]) -> bool) -> bool {
        let value = self.value.as_slice();
        match (self.section.as_str(), self.subsection.is_some(), self.key.as_str()) {
            ("core", false, "worktree") => is_work_tree(value),
            ("remote", true, "url" | "pushurl")
            | ("branch", true, "remote" | "pushremote")
            | ("submodule", true, "url")
            | ("remote", false, "pushdefault") => is_plain_url(value),
            ("submodule", true, "update") => {
                matches!(value, b"checkout" | b"rebase" | b"merge" | b"none")
            }
            ("commit" | "tag", false, "gpgsign") => value.eq_ignore_ascii_case(b"false"),
            ("filter", true, key) => self.is_of_lfs(key),
            (section, has_subsection, key) => is_plain_key(section, has_subsection, key),
        }
    }

    /// What `git lfs install --local` writes.
    fn is_of_lfs(&self, key: &str) -> bool {
        let expected: &[u8] = match key {
            "clean" => b"git-lfs clean -- %f",
            "smudge" => b"git-lfs smudge -- %f",
            "process" => b"git-lfs filter-process",
            "required" => b"true",
            _ => return false,
        };
        self.subsection.as_deref() == Some(b"lfs") && self.value == expected
    }
}

/// Settings that are harmless with any value.
fn is_plain_key(section: &str, has_subsection: bool, key: &str) -> bool {
    match (section, has_subsection) {
        ("core", false) => matches!(
            key,
            "repositoryformatversion"
                | "filemode"
                | "bare"
                | "logallrefupdates"
                | "ignorecase"
                | "precomposeunicode"
                | "symlinks"
                | "autocrlf"
                | "eol"
                | "abbrev"
                | "quotepath"
                | "sparsecheckout"
                | "sparsecheckoutcone"
        ),
        ("user" | "author" | "committer", false) => matches!(key, "name" | "email"),
        ("extensions", false) => matches!(key, "objectformat" | "refstorage"),
        ("init", false) => key == "defaultbranch",
        ("remote", true) => matches!(key, "fetch" | "push" | "tagopt" | "prune" | "mirror" | "gh-resolved"),
        ("branch", true) => matches!(key, "merge" | "rebase" | "description" | "vscode-merge-base"),
        ("submodule", _) => matches!(key, "active" | "branch" | "path" | "shallow" | "ignore" | "recurse"),
        ("pull", false) => matches!(key, "rebase" | "ff"),
        ("push", false) => matches!(key, "default" | "autosetupremote"),
        ("fetch", false) => matches!(key, "prune" | "prunetags"),
        ("lfs", false) => key == "repositoryformatversion",
        ("lfs", true) => matches!(key, "access" | "locksverify"),
        ("advice" | "color", _) => true,
        _ => false,
    }
}

/// Whether git reaches `url` without a helper that the URL names.
fn is_plain_url(url: &[u8]) -> bool {
    !url.windows(2).any(|pair| pair == b"::")
        && !url.starts_with(b"-")
        && url.iter().all(|byte| !byte.is_ascii_control())
}

/// Whether `text` holds nothing but settings that are descriptive. What cannot be read is not harmless.
pub(super) fn is_harmless(text: &[u8], is_work_tree: impl Fn(&[u8]) -> bool) -> bool {
    settings(text)
        .is_some_and(|settings| settings.iter().all(|setting| setting.is_descriptive(&is_work_tree)))
}

/// Whether `.gitmodules` says nothing but what submodules there are. Git obeys no command in it, other than in its configuration;
/// what asks for one is an attack on another program, or on an older git.
pub(super) fn are_plain_modules(text: &[u8]) -> bool {
    let is_plain = |setting: &Setting| match setting.key.as_str() {
        "path" | "branch" | "shallow" | "ignore" | "fetchrecursesubmodules" => {
            !setting.value.starts_with(b"-")
        }
        _ => setting.is_descriptive(|_| false),
    };
    settings(text).is_some_and(|settings| {
        settings.iter().all(|setting| {
            let is_climbing =
                |name: &Vec<u8>| name.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| part == b"..");
            setting.section == "submodule"
                && is_plain(setting)
                && !setting.subsection.as_ref().is_some_and(is_climbing)
        })
    })
}

/// The settings of `text`; `None` where git would refuse it, and where a value holds a NUL, of which git's own parts make different things.
pub(super) fn settings(text: &[u8]) -> Option<Vec<Setting>> {
    if text.contains(&0) {
        return None;
    }
    settings_up_to_nul(text)
}

/// The settings of `text`, with values that end at a NUL, as the programs of git end them that run something; `None` where git would
/// refuse it.
pub(super) fn settings_up_to_nul(text: &[u8]) -> Option<Vec<Setting>> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = Reader { bytes: text.iter().peekable() };
    let mut settings = Vec::new();
    // What precedes the first section is in none.
    let mut head = (String::new(), None);
    while let Some(byte) = reader.next() {
        match byte {
            byte if is_blank(byte) => {}
            b'#' | b';' => reader.skip_line(),
            b'[' => head = reader.head()?,
            byte if byte.is_ascii_alphabetic() => {
                let (section, subsection) = head.clone();
                let (key, mut value) = reader.setting(byte)?;
                let end = value.iter().position(|byte| *byte == 0);
                value.truncate(end.unwrap_or(value.len()));
                settings.push(Setting { section, subsection, key, value });
            }
            _ => return None,
        }
    }
    Some(settings)
}

/// The bytes that are left.
struct Reader<'a> {
    bytes: Peekable<Iter<'a, u8>>,
}

impl Reader<'_> {
    /// The next byte, where the end of a line is one byte.
    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.next()?;
        if byte == b'\r' && self.bytes.next_if(|next| **next == b'\n').is_some() {
            return Some(b'\n');
        }
        Some(byte)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    /// What follows `[`: `core]`, `remote "origin"]`, or the older `remote.origin]`.
    fn head(&mut self) -> Option<(String, Option<Vec<u8>>)> {
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b']' => break,
                byte if is_blank(byte) => {
                    name.push(b'.');
                    self.quoted(byte, &mut name)?;
                    break;
                }
                byte if is_key(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
        let (section, subsection) = match name.iter().position(|byte| *byte == b'.') {
            Some(dot) => (name.get(..dot)?, Some(name.get(dot + 1..)?.to_vec())),
            None => (name.as_slice(), None),
        };
        let section = String::from_utf8(section.to_vec()).ok()?;
        (!name.is_empty()).then_some((section, subsection))
    }

    /// The rest of `remote "origin"]`, after the first blank.
    fn quoted(&mut self, blank: u8, name: &mut Vec<u8>) -> Option<()> {
        let mut byte = blank;
        while is_blank(byte) {
            if byte == b'\n' {
                return None;
            }
            byte = self.next()?;
        }
        if byte != b'"' {
            return None;
        }
        loop {
            match self.next()? {
                b'\n' => return None,
                b'"' => break,
                b'\\' => name.push(self.next().filter(|byte| *byte != b'\n')?),
                byte => name.push(byte),
            }
        }
        (self.next()? == b']').then_some(())
    }

    /// A key that begins with `first`, and its value.
    fn setting(&mut self, first: u8) -> Option<(String, Vec<u8>)> {
        let mut key = String::from(char::from(first.to_ascii_lowercase()));
        let mut byte = self.next();
        while let Some(next) = byte.filter(|byte| is_key(*byte)) {
            key.push(char::from(next.to_ascii_lowercase()));
            byte = self.next();
        }
        while matches!(byte, Some(b' ' | b'\t')) {
            byte = self.next();
        }
        let value = match byte {
            None | Some(b'\n') => b"true".to_vec(),
            Some(b'=') => self.value()?,
            Some(_) => return None,
        };
        Some((key, value))
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let mut is_quoted = false;
        // Where blanks begin that may be the last thing in the line.
        let mut end = None;
        loop {
            let byte = match self.next() {
                None | Some(b'\n') if is_quoted => return None,
                None | Some(b'\n') => break,
                Some(byte) => byte,
            };
            match byte {
                byte if is_blank(byte) && !is_quoted => {
                    end.get_or_insert(value.len());
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                b'#' | b';' if !is_quoted => {
                    self.skip_line();
                    break;
                }
                _ => end = None,
            }
            match byte {
                b'\\' => match self.next() {
                    // To git, the end of the text is the end of a line.
                    None | Some(b'\n') => {}
                    Some(b't') => value.push(b'\t'),
                    Some(b'b') => value.push(8),
                    Some(b'n') => value.push(b'\n'),
                    Some(byte @ (b'\\' | b'"')) => value.push(byte),
                    Some(_) => return None,
                },
                b'"' => is_quoted = !is_quoted,
                byte => value.push(byte),
            }
        }
        value.truncate(end.unwrap_or(value.len()));
        Some(value)
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_harmless(text: &str) -> bool {
        super::is_harmless(text.as_bytes(), |_| false)
    }

    const CLONED: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n[remote \"origin\"]\n\turl = \
                          https://example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = \
                          origin\n\tmerge = refs/heads/main\n";

    #[test]
    fn what_git_itself_writes_is_harmless() {
        assert!(is_harmless(CLONED));
        assert!(is_harmless("") && is_harmless("# nothing\n; at all\n"));
        assert!(is_harmless("[user]\n name = \"A B\"\n email = a@b.c"));
    }

    #[test]
    fn what_runs_a_program_is_not() {
        for text in [
            "[core]\n fsmonitor = /tmp/x",
            "[core]\n\tsshCommand = sh -c x",
            "[CORE]\n HooksPath = ../hooks",
            "[core] fsmonitor = x",
            "[core]\n bare = false \\\n fsmonitor = x \\q\n",
            "[core]\r\n\tfsmonitor\r\n",
            "[core] ; comment\n bare = false # x\n [core \"\"] fsmonitor = x\n[core]fsmonitor=x",
            "\u{feff}[core]\n fsmonitor = x",
            "[core]\n bare = \"false",
            "[core]\n bare = fal\0se",
            "[remote \"o\"]\n promisor = true\n",
            "[extensions]\n partialClone = o\n",
            "[remote \"o\"]\n url = e\"xt::sh\"",
            "[commit]\n gpgsign = true",
            "[filter \"lfs\"]\n process = git-lfs filter-process; x y\n clean = ./git-lfs clean -- %f",
            "[include]\n path = ../x",
            "[includeIf \"gitdir:/\"]\n path = x",
            "[alias]\n st = !sh",
            "[filter \"x\"]\n smudge = sh",
            "[remote \"o\"]\n uploadpack = sh",
            "[remote \"o\"]\n url = ext::sh -c x",
            "[remote \"o\"]\n vcs = x",
            "[remote.o]\n uploadpack = x",
            "[submodule \"a\"]\n update = !sh",
            "[credential]\n helper = !sh",
            "[core]\n worktree = /",
            "[extensions]\n worktreeConfig = true",
            "fsmonitor = x",
            "[",
            "[core",
        ] {
            assert!(!is_harmless(text), "{text}");
        }
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = b"\xef\xbb\xbf; c\r\n[Core]Bare\r\nhooksPath = a\\\n b \\\"c\\\"  # d\n[remote  \"O.\\\"x\"] url = \" a;b \" \n[branch.Dev]\n\tmerge =\t\n";
        let read: Vec<String> = settings(text)
            .unwrap()
            .into_iter()
            .map(|it| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let subsection = it.subsection.map(|it| text(&it));
                format!("{}|{subsection:?}|{}|{}", it.section, it.key, text(&it.value))
            })
            .collect();
        assert_eq!(
            read,
            [
                "core|None|bare|true",
                "core|None|hookspath|a b \"c\"",
                "remote|Some(\"O.\\\"x\")|url| a;b ",
                "branch|Some(\"dev\")|merge|",
            ]
        );
    }

    #[test]
    fn nothing_that_git_reads_is_refused() {
        let hooks = |text: &[u8]| -> Vec<Vec<u8>> {
            let all = settings_up_to_nul(text).unwrap_or_default();
            let hooks = all.into_iter().filter(|setting| setting.is("core", "hookspath"));
            hooks.map(|setting| setting.value).collect()
        };
        for text in [
            &b"[core]\n hooksPath = h\\"[..],
            b"before = any section\n[core]\nhooksPath=h",
            b"[.odd]\n a = b\n[ \"odd\"]\n[.]\n[core]\nhooksPath=h",
            b"# \0\n[core]\nhooksPath=h\0 and more",
        ] {
            assert_eq!(hooks(text), [b"h"], "{}", String::from_utf8_lossy(text));
            assert!(!super::is_harmless(text, |_| true));
        }
        for refused in ["[]\na = b", "[core]\nhooksPath = \"h\\", "[core \"a\\"] {
            assert_eq!(settings_up_to_nul(refused.as_bytes()), None, "{refused}");
        }
    }

    #[test]
    fn modules_may_say_where_they_come_from_and_no_more() {
        assert!(are_plain_modules(b"[submodule \"a/b\"]\n path = a/b\n url = ../b.git\n branch = main\n"));
        for text in [
            "[submodule \"a\"]\n update = !sh",
            "[submodule \"../a\"]\n path = a",
            "[submodule \"a\"]\n path = -x",
            "[submodule \"a\"]\n url = ext::sh -c x",
            "[core]\n bare = true",
            "[submodule \"a\"",
        ] {
            assert!(!are_plain_modules(text.as_bytes()), "{text}");
        }
    }
}
