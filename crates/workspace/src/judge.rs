//! Whether what a task wrote at a path that git of the host follows is what every repository has.

use std::ffi::OsStr;
use std::path::Path;

use sandbox_files::tree::{Kind, Tree};

use super::git_config;
use super::git_follow::{Pointer, is_work_tree, pointer, repository_of};
use super::inventory::{Content, Inventory, Leaf};
use super::protection::Protection;
use super::role::{Role, text as read};

/// Judges `leaf` at `path` of `tree`, of which `now` is the inventory. `before` is what was there before the run.
pub(super) fn is_harmless(
    tree: &Tree,
    now: &Inventory,
    before: Option<&Leaf>,
    path: &Path,
    leaf: &Leaf,
    protection: &Protection,
) -> bool {
    if leaf.facts.kind != Kind::File {
        return false;
    }
    let known = match before.and_then(|before| before.content.as_ref()) {
        Some(Content::File(text)) => text.as_slice(),
        Some(Content::Link(_)) | None => &[],
    };
    let is_harmless = |text: Vec<u8>| match leaf.role {
        Role::Configuration => is_harmless_configuration(tree, path, &text, known),
        Role::Pointer => is_harmless_pointer(tree, path, &text, protection, |folder| {
            let configuration = || read(tree, &folder.join("config")).unwrap_or_default();
            now.repositories.contains(folder).then(configuration)
        }),
        role => is_harmless_text(role, path, &text),
    };
    match leaf.role {
        Role::Hooks => is_sample(path),
        Role::Configuration | Role::Pointer | Role::Steps | Role::Modules => {
            read(tree, path).is_some_and(is_harmless)
        }
        Role::Program | Role::GitFile | Role::Listed => false,
    }
}

/// Whether git takes it for the sample of a hook, which it never runs.
pub(super) fn is_sample(hook: &Path) -> bool {
    hook.extension() == Some(OsStr::new("sample"))
}

/// Judges a configuration at `path` that says `text` and said `known`.
pub(super) fn is_harmless_configuration(tree: &Tree, path: &Path, text: &[u8], known: &[u8]) -> bool {
    let git_dir = path.parent().unwrap_or(Path::new(""));
    git_config::is_harmless(text, known, |named| is_work_tree(tree, git_dir, named))
}

/// Judges a pointer: it must lead to a repository of the tree whose configuration is looked at, or nowhere on this host; `commondir` to
/// the repository that its linked work tree belongs to. `configuration` is that of a folder, if it is a repository.
pub(super) fn is_harmless_pointer(
    tree: &Tree,
    path: &Path,
    pointing: &[u8],
    protection: &Protection,
    configuration: impl Fn(&Path) -> Option<Vec<u8>>,
) -> bool {
    let folder = path.parent().unwrap_or(Path::new(""));
    let is_git_file = path.file_name() == Some(OsStr::new(".git"));
    let prefix: &[u8] = if is_git_file { b"gitdir: " } else { b"" };
    let named = pointer(tree, folder, pointing, prefix);
    // Git reads the configuration of what it names. It never names anything else itself.
    if path.file_name() == Some(OsStr::new("commondir")) {
        let around = folder.parent().filter(|all| all.file_name() == Some(OsStr::new("worktrees")));
        let is_its_own = |named: &Path| around.and_then(Path::parent) == Some(named);
        if !matches!(&named, Some(Pointer::Inside(named)) if is_its_own(named)) {
            return false;
        }
    }
    match named {
        Some(Pointer::Dangling) => true,
        // It only says where a linked work tree is.
        Some(Pointer::Inside(_)) if path.file_name() == Some(OsStr::new("gitdir")) => true,
        Some(Pointer::Inside(git_dir)) => configuration(&git_dir).is_some_and(|text| {
            // What came with the tree as files may be a repository that only a pointer makes git take for one.
            protection.is_gits_own(&git_dir) || git_config::is_harmless(&text, &[], |_| false)
        }),
        // A further work tree of the repository that this one has outside of the tree.
        Some(Pointer::Outside(git_dir)) if is_git_file => {
            matches!(repository_of(tree, Path::new("")), Some(Pointer::Outside(own))
                if own.parent().is_some_and(|all| all.ends_with("worktrees") && git_dir.parent() == Some(all)))
        }
        Some(Pointer::Outside(_)) | None => false,
    }
}

/// Judges what is judged by its text alone.
pub(super) fn is_harmless_text(role: Role, path: &Path, text: &[u8]) -> bool {
    match role {
        Role::Modules => git_config::are_plain_modules(text),
        Role::Steps if path.file_name() == Some(OsStr::new("strategy")) => {
            text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'\n'))
        }
        Role::Steps => text.split(|byte| *byte == b'\n').all(|line| {
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            !matches!(words.next(), Some(b"x" | b"exec"))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebase_that_runs_something_is_not_harmless() {
        for (name, text, expected) in [
            ("git-rebase-todo", "pick 1 x\n# exec no\nfixup 2 y\n", true),
            ("git-rebase-todo", "pick 1 x\n \tx ./evil\n", false),
            ("git-rebase-todo", "exec ./evil\n", false),
            ("todo", "exec ./evil\n", false),
            ("strategy", "ort\n", true),
            ("strategy", "../../evil\n", false),
        ] {
            assert_eq!(is_harmless_text(Role::Steps, Path::new(name), text.as_bytes()), expected, "{text}");
        }
    }
}
