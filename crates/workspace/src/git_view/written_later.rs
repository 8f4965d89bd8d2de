//! Protected files that git has in versions which the work tree does not: `git stash` or `git checkout` of the host writes them.

use std::io::Read as _;
use std::path::Path;

use sandbox_files::tree::{Kind, Tree};
use sandbox_host_git::Recorded;

use super::super::inventory::protected;
use super::super::protection::Protection;
use super::super::role::Role;

/// Bytes of a file: of a longer one, no version is known to be the same.
const MOST_READ: u64 = 16 << 20;
/// Names in a hint.
const LISTED: usize = 5;

/// What says so of the folder `work_tree` of `tree`, where there are such files.
pub(crate) fn hint(
    tree: &Tree,
    work_tree: &Path,
    recorded: &Recorded,
    is_protected: impl Fn(&Path) -> bool,
) -> Option<String> {
    let is_later = |path: &&Path| {
        let place = work_tree.join(path);
        is_protected(&place) && !recorded.is(path, content(tree, &place).as_deref())
    };
    let later: Vec<String> = recorded
        .paths()
        .filter(is_later)
        .take(LISTED + 1)
        .map(|path| format!("`{}`", path.display().to_string().escape_debug()))
        .collect();
    let listed = later.get(..LISTED).unwrap_or(&later).join(", ");
    let more = if later.len() > LISTED { ", …" } else { "" };
    (!later.is_empty()).then(|| {
        format!("git in the task recorded protected files in versions that are not in the work tree, which `git stash` or `git checkout` would write there: {listed}{more}")
    })
}

/// Whether `path`, or a folder that it lies in, is protected wherever it lies.
pub(crate) fn is_listed(protection: &Protection, path: &Path) -> bool {
    let mut kind = Kind::File;
    path.ancestors().filter(|part| part.file_name().is_some()).any(|part| {
        let (folder, name) = (part.parent().unwrap_or(Path::new("")), part.file_name().unwrap_or_default());
        let judged = protected(protection, folder, &[(name.to_owned(), kind)]);
        kind = Kind::Folder;
        judged.roles.values().any(|role| *role == Role::Listed)
    })
}

/// What is at `path`; `None` where that is no file.
fn content(tree: &Tree, path: &Path) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    tree.file(path).ok()?.take(MOST_READ).read_to_end(&mut content).ok()?;
    Some(content)
}
