//! Decides whether a git configuration can make git run a program or read another configuration.

use std::sync::Arc;

pub(super) use sandbox_host_git::{Setting, settings as settings_up_to_nul};

/// The names of the first 10 settings in `text`, a git configuration, that have a password or a token: in a
/// URL, or in a header of requests. The names have none, but may be long.
#[must_use]
pub fn git_credentials(text: &[u8]) -> Vec<String> {
    let settings = settings_up_to_nul(text).unwrap_or_default().into_iter();
    // Each name is searched once: many settings may share a long one.
    let mut last: (Option<Arc<[u8]>>, bool) = (None, false);
    let with_one = settings.filter_map(|mut setting| {
        let is_last = match (&last.0, &setting.subsection) {
            (Some(last), Some(name)) => Arc::ptr_eq(last, name),
            (last, name) => last.is_none() && name.is_none(),
        };
        if !is_last {
            let is_one = setting.subsection.as_deref().is_some_and(is_url_with_credential);
            last = (setting.subsection.clone(), is_one);
        }
        let is_header =
            &*setting.section == "http" && setting.key == "extraheader" && !setting.value.is_empty();
        if !last.1 && !is_header && !is_url_with_credential(&setting.value) {
            return None;
        }
        // What does not look like a credential may be one.
        if setting.subsection.as_ref().is_some_and(|name| name.iter().any(|byte| b"@?".contains(byte))) {
            setting.subsection = Some(Arc::from(&b"*"[..]));
        }
        Some(setting.name())
    });
    with_one.take(10).collect()
}

/// Whether a URL has a password, or a name of a user that is as long as a token.
fn is_url_with_credential(text: &[u8]) -> bool {
    const TOKEN: usize = 20;
    let text = String::from_utf8_lossy(text);
    let authority = text.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    let user = authority.and_then(|authority| authority.rsplit_once('@'));
    user.is_some_and(|(user, _)| {
        user.len() >= TOKEN || user.split_once(':').is_some_and(|(_, password)| !password.is_empty())
    })
}

/// Whether git uses the setting only to store and show data: the origin and the format of a
/// repository. `is_work_tree` returns whether `core.worktree` names a folder of the same tree that
/// points back to this repository.
pub(super) fn is_descriptive(setting: &Setting, is_work_tree: impl Fn(&[u8]) -> bool) -> bool {
    let value = setting.value.as_slice();
    match (&*setting.section, setting.subsection.is_some(), setting.key.as_str()) {
        ("core", false, "worktree") => is_work_tree(value),
        ("remote", true, "url" | "pushurl")
        | ("branch", true, "remote" | "pushremote")
        | ("submodule", true, "url")
        | ("remote", false, "pushdefault") => is_plain_url(value),
        ("submodule", true, "update") => {
            matches!(value, b"checkout" | b"rebase" | b"merge" | b"none")
        }
        ("commit" | "tag", false, "gpgsign") => value.eq_ignore_ascii_case(b"false"),
        ("filter", true, key) => is_of_lfs(setting, key),
        (section, has_subsection, key) => is_plain_key(section, has_subsection, key),
    }
}

/// Whether `git lfs install --local` writes this setting.
fn is_of_lfs(setting: &Setting, key: &str) -> bool {
    let expected: &[u8] = match key {
        "clean" => b"git-lfs clean -- %f",
        "smudge" => b"git-lfs smudge -- %f",
        "process" => b"git-lfs filter-process",
        "required" => b"true",
        _ => return false,
    };
    setting.subsection.as_deref() == Some(b"lfs") && setting.value == expected
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

/// Whether `text` contains only descriptive settings. Unreadable text is not harmless.
pub(super) fn is_harmless(text: &[u8], is_work_tree: impl Fn(&[u8]) -> bool) -> bool {
    settings(text)
        .is_some_and(|settings| settings.iter().all(|setting| is_descriptive(setting, &is_work_tree)))
}

/// Whether `.gitmodules` only describes submodules. Unlike its configuration, git obeys no command
/// in it; one that asks for a command attacks another program, or an older git.
pub(super) fn are_plain_modules(text: &[u8]) -> bool {
    let is_plain = |setting: &Setting| match setting.key.as_str() {
        "path" | "branch" | "shallow" | "ignore" | "fetchrecursesubmodules" => {
            !setting.value.starts_with(b"-")
        }
        _ => is_descriptive(setting, |_| false),
    };
    settings(text).is_some_and(|settings| {
        settings.iter().all(|setting| {
            let is_climbing =
                |name: &Arc<[u8]>| name.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| part == b"..");
            &*setting.section == "submodule"
                && is_plain(setting)
                && !setting.subsection.as_ref().is_some_and(is_climbing)
        })
    })
}

/// The settings of `text`; `None` if git would refuse it, or if a value contains a NUL, which git's
/// programs interpret differently.
pub(super) fn settings(text: &[u8]) -> Option<Vec<Setting>> {
    if text.contains(&0) {
        return None;
    }
    settings_up_to_nul(text)
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
    fn settings_written_by_git_are_harmless() {
        assert!(is_harmless(CLONED));
        assert!(is_harmless("") && is_harmless("# nothing\n; at all\n"));
        assert!(is_harmless("[user]\n name = \"A B\"\n email = a@b.c"));
    }

    #[test]
    fn settings_that_run_a_program_are_not_harmless() {
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
            "[core]\n hooksPath = h\\",
            "before = any section\n[core]\nhooksPath=h",
            "[.odd]\n a = b\n[ \"odd\"]\n[.]\n[core]\nhooksPath=h",
            "# \0\n[core]\nhooksPath=h\0 and more",
            "[",
            "[core",
        ] {
            assert!(!is_harmless(text), "{text}");
        }
    }

    #[test]
    fn credentials_are_found_in_urls_and_headers_and_not_named() {
        let text = "[remote \"origin\"]\n url = https://x:secret@host/app\n pushurl = https://alice@host/app\n\
                    [remote \"plain\"]\n url = https://host/x:y@z\n[submodule \"m\"]\n url = ssh://git@host/m\n\
                    [url \"https://ghp_secret0123456789abcdef@host/\"]\n insteadOf = https://host/\n\
                    [http \"https://host/\"]\n extraHeader = Authorization: basic secret\n\
                    [http \"https://short@host/?key=x\"]\n extraHeader = X: secret\n[http]\n extraHeader =\n";
        let found = git_credentials(text.as_bytes());
        assert_eq!(
            found,
            ["remote.origin.url", "url.*.insteadof", "http.https://host/.extraheader", "http.*.extraheader"]
        );
    }

    #[test]
    fn modules_may_only_name_their_origin() {
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
