//! Whether a git configuration can make git run a program or read another configuration.

use std::collections::BTreeSet;

/// A setting: section, subsection and key, lower case where git ignores case, and the value.
type Setting = (String, String, String, String);

/// Whether `text` holds nothing but settings that say where a repository came from and how it is stored, or that are in `known`
/// word for word. What cannot be read is not harmless.
pub(super) fn is_harmless(text: &str, known: &str) -> bool {
    let known: BTreeSet<Setting> = settings(known).unwrap_or_default().into_iter().collect();
    settings(text).is_some_and(|settings| {
        settings
            .iter()
            .all(|setting| known.contains(setting) || is_descriptive(setting))
    })
}

fn is_descriptive((section, subsection, key, value): &Setting) -> bool {
    let plain_url = || !value.contains("::") && !value.starts_with('-');
    match (section.as_str(), subsection.is_empty(), key.as_str()) {
        (
            "core",
            true,
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
            | "quotepath",
        )
        | ("user" | "author" | "committer", true, "name" | "email")
        | ("extensions", true, "objectformat" | "refstorage" | "partialclone")
        | ("init", true, "defaultbranch")
        | (
            "remote",
            false,
            "fetch" | "push" | "tagopt" | "prune" | "promisor" | "partialclonefilter" | "mirror",
        )
        | ("branch", false, "merge" | "rebase" | "vscode-merge-base")
        | ("submodule", _, "active")
        | ("pull", true, "rebase" | "ff")
        | ("push", true, "default" | "autosetupremote") => true,
        ("remote", false, "url" | "pushurl")
        | ("branch", false, "remote" | "pushremote")
        | ("submodule", false, "url") => plain_url(),
        _ => false,
    }
}

/// The settings of `text`; `None` where it uses anything but plain lines (continuations, several settings in a line).
fn settings(text: &str) -> Option<Vec<Setting>> {
    let mut settings = Vec::new();
    let (mut section, mut subsection) = (String::new(), String::new());
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(head) = line.strip_prefix('[') {
            (section, subsection) = header(head.strip_suffix(']')?)?;
            continue;
        }
        if line.ends_with('\\') || section.is_empty() {
            return None;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let key = key.trim().to_ascii_lowercase();
        if key.is_empty()
            || !key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return None;
        }
        let value = value.trim();
        // Quotes and escapes have rules of their own; nothing that is harmless needs more than a pair around it.
        let value = value
            .strip_prefix('"')
            .and_then(|value| value.strip_suffix('"'))
            .unwrap_or(value);
        if value.contains(['"', '\\']) {
            return None;
        }
        settings.push((section.clone(), subsection.clone(), key, value.to_owned()));
    }
    Some(settings)
}

/// `core`, `remote "origin"`; the older `remote.origin` is not read.
fn header(head: &str) -> Option<(String, String)> {
    let (section, subsection) = match head.split_once(' ') {
        Some((section, rest)) => {
            let subsection = rest.trim().strip_prefix('"')?.strip_suffix('"')?;
            (section, subsection)
        }
        None => (head, ""),
    };
    let plain = section
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (plain && !section.is_empty() && !subsection.contains(['"', '\\', ']']))
        .then(|| (section.to_ascii_lowercase(), subsection.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLONED: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n[remote \"origin\"]\n\turl = \
                          https://example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = \
                          origin\n\tmerge = refs/heads/main\n";

    #[test]
    fn what_git_itself_writes_is_harmless() {
        assert!(is_harmless(CLONED, ""));
        assert!(is_harmless("", "") && is_harmless("# nothing\n; at all\n", ""));
        assert!(is_harmless("[user]\n name = \"A B\"\n email = a@b.c", ""));
    }

    #[test]
    fn what_runs_a_program_is_not() {
        for text in [
            "[core]\n fsmonitor = /tmp/x",
            "[core]\n\tsshCommand = sh -c x",
            "[CORE]\n HooksPath = ../hooks",
            "[core] fsmonitor = x",
            "[core]\n bare = false \\\n",
            "[core]\n bare = \"a\\\"b\"",
            "[include]\n path = ../x",
            "[includeIf \"gitdir:/\"]\n path = x",
            "[alias]\n st = !sh",
            "[filter \"x\"]\n smudge = sh",
            "[remote \"o\"]\n uploadpack = sh",
            "[remote \"o\"]\n url = ext::sh -c x",
            "[remote \"o\"]\n vcs = x",
            "[remote.o]\n url = x",
            "[submodule \"a\"]\n update = !sh",
            "[credential]\n helper = !sh",
            "[core]\n worktree = /",
            "[extensions]\n worktreeConfig = true",
            "fsmonitor = x",
            "[",
            "[core",
        ] {
            assert!(!is_harmless(text, ""), "{text}");
        }
    }

    #[test]
    fn what_was_there_before_stays_allowed_word_for_word() {
        let before = "[core]\n\tfsmonitor = true\n[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n";
        let after = format!("{CLONED}{before}");
        assert!(is_harmless(&after, before) && !is_harmless(&after, ""));
        assert!(!is_harmless(
            &after.replace("fsmonitor = true", "fsmonitor = ./x"),
            before
        ));
    }
}
