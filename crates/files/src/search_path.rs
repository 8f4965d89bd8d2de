//! Where programs that run on the host are looked up.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// What marks the top of a work tree or of a project.
const MARKS: [&str; 2] = [".git", ".sandbox"];

/// The folders of `path`, the value of `PATH`, without those of a work tree or project (`.venv/bin`),
/// where a task can have put a program, and those that depend on the working directory. Links are
/// resolved, so they cannot be changed afterwards. `None` if no folder is left: the system then searches
/// its default ones.
#[must_use]
pub fn search_path(path: &OsStr) -> Option<OsString> {
    let resolved = |entry: PathBuf| entry.is_absolute().then(|| entry.canonicalize().ok()).flatten();
    let entries: Vec<PathBuf> =
        std::env::split_paths(path).filter_map(resolved).filter(|entry| !is_in_work_tree(entry)).collect();
    // The system treats an empty text as the working directory.
    if entries.is_empty() { None } else { std::env::join_paths(entries).ok() }
}

fn is_in_work_tree(folder: &Path) -> bool {
    let mut marks = folder.ancestors().flat_map(|folder| MARKS.map(|mark| folder.join(mark)));
    marks.any(|mark| mark.symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_of_work_trees_and_relative_ones_are_left_out() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        for folder in ["bin", "git/.git", "git/.venv/bin", "project/.sandbox", "project/bin", "linked/bin"] {
            std::fs::create_dir_all(top.join(folder)).unwrap();
        }
        std::fs::write(top.join("linked/.git"), "gitdir: elsewhere").unwrap();
        symlink(top.join("git/.venv/bin"), top.join("into")).unwrap();
        symlink(top.join("bin"), top.join("project/out")).unwrap();
        for (path, expected) in [
            ("TOP/bin", Some("TOP/bin")),
            ("TOP/git/.venv/bin:TOP/bin", Some("TOP/bin")),
            ("TOP/project/bin:TOP/linked/bin:TOP/git", None),
            ("TOP/into:TOP/bin", Some("TOP/bin")),
            ("TOP/project/out", Some("TOP/bin")),
            ("TOP/absent:TOP/bin/../git/.venv/bin", None),
            (".:TOP/bin", Some("TOP/bin")),
            ("TOP/bin::TOP/bin:", Some("TOP/bin:TOP/bin")),
            ("bin:../x:", None),
            ("", None),
        ] {
            let full = |text: &str| text.replace("TOP", top.to_str().unwrap());
            let found = search_path(OsStr::new(&full(path)));
            assert_eq!(found, expected.map(|text| full(text).into()), "{path}");
        }
    }
}
