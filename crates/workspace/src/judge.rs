//! Decides whether a task's file at a path that the host's git follows is one that every repository
//! has.

use std::ffi::OsStr;
use std::path::Path;

use sandbox_files::tree::{Kind, Tree};

use super::git_config;
use super::git_follow::is_work_tree;
use super::inventory::{Inventory, Leaf};
use super::role::{Role, text as read};

/// Judges `leaf` at `path` of `tree`. `before` and `now` are the inventories before and after the
/// run.
pub(super) fn is_harmless(
    tree: &Tree,
    before: &Inventory,
    now: &Inventory,
    path: &Path,
    leaf: &Leaf,
) -> bool {
    if leaf.facts.kind != Kind::File {
        return false;
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let is_of_new_repository = || now.repositories.contains(folder) && !before.repositories.contains(folder);
    match leaf.role {
        Role::Hooks => is_sample(path),
        // An existing repository of the host must not obey a task's settings.
        Role::Configuration => {
            is_of_new_repository()
                && read(tree, path).is_some_and(|text| {
                    git_config::is_harmless(&text, |named| is_work_tree(tree, folder, named))
                })
        }
        Role::Modules => read(tree, path).is_some_and(|text| git_config::are_plain_modules(&text)),
        Role::GitFile => read(tree, path).is_some_and(|text| are_harmless_steps(path, &text)),
        // The target of a pointer does not matter: in the folder that contains it, the host's git
        // runs the programs at the paths that a configuration names.
        Role::Pointer | Role::Program | Role::Listed => false,
    }
}

/// Whether git treats it as a sample hook, which it never runs.
pub(super) fn is_sample(hook: &Path) -> bool {
    hook.extension() == Some(OsStr::new("sample"))
}

/// Judges git's record at `path` of a rebase that continues later.
fn are_harmless_steps(path: &Path, text: &[u8]) -> bool {
    if path.file_name() == Some(OsStr::new("strategy")) {
        return text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'\n'));
    }
    text.split(|byte| *byte == b'\n').all(|line| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        !matches!(words.next(), Some(b"x" | b"exec"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rebase_that_runs_a_command_is_not_harmless() {
        for (name, text, expected) in [
            ("git-rebase-todo", "pick 1 x\n# exec no\nfixup 2 y\n", true),
            ("git-rebase-todo", "pick 1 x\n \tx ./evil\n", false),
            ("git-rebase-todo", "exec ./evil\n", false),
            ("todo", "exec ./evil\n", false),
            ("strategy", "ort\n", true),
            ("strategy", "../../evil\n", false),
        ] {
            assert_eq!(are_harmless_steps(Path::new(name), text.as_bytes()), expected, "{text}");
        }
    }
}
