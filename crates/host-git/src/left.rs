//! The files of a view that are not imported: hooks, other work trees, submodules, and any other
//! file that git or a task created.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use sandbox_files::tree::Kind;

use crate::Error;
use crate::report::Report;
use crate::repository::HostRepository;
use crate::view::{Found, View, differs};

/// The maximum number of entries examined.
const MOST: usize = 20_000;
/// The maximum number of bytes compared per file.
const COMPARED: u64 = 1 << 20;
/// The maximum depth of folders.
const DEPTH: usize = 16;

/// Files that are read elsewhere, and files that git recreates: never useful without the rest.
const NOT_LISTED: [&str; 22] = [
    "AUTO_MERGE",
    "CHERRY_PICK_HEAD",
    "COMMIT_EDITMSG",
    "FETCH_HEAD",
    "HEAD",
    "MERGE_AUTOSTASH",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "ORIG_HEAD",
    "REBASE_HEAD",
    "config",
    "gc.log",
    "gc.pid",
    "index",
    "index.lock",
    "logs",
    "objects",
    "packed-refs",
    "refs",
    "rr-cache",
];
/// Files in `objects` that lead elsewhere.
const ALTERNATES: [&str; 2] = ["objects/info/alternates", "objects/info/http-alternates"];

/// Adds the files that are not imported to `report`.
pub(crate) fn list(view: &View, host: &HostRepository, report: &mut Report) -> Result<(), Error> {
    let mut walk = Walk { view, host, report, room: MOST };
    for path in ALTERNATES {
        walk.file(Path::new(path))?;
    }
    walk.folder(Path::new(""), DEPTH)
}

struct Walk<'a> {
    view: &'a View,
    host: &'a HostRepository,
    report: &'a mut Report,
    room: usize,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, depth: usize) -> Result<(), Error> {
        let here = self.view.list(folder)?;
        let mut names: BTreeSet<&OsString> = here.iter().map(|(name, _)| name).collect();
        let there = self.host.view().list(folder)?;
        if !self.view.is_upper() {
            names.extend(there.iter().map(|(name, _)| name));
        }
        let own = self.host.own("");
        let is_own = folder.as_os_str().is_empty() || folder == own;
        // A linked work tree's own refs belong to a bisection or to the task; all others are read
        // as refs.
        let has_own_refs = folder == own && !folder.as_os_str().is_empty();
        for name in names {
            let path = folder.join(name);
            let is_known = name.to_str().is_some_and(|name| NOT_LISTED.contains(&name))
                && !(has_own_refs && name == "refs");
            // Only a server over plain HTTP shows this file.
            if is_own && is_known || path == Path::new("info/refs") {
                continue;
            }
            let Some(room) = self.room.checked_sub(1) else {
                self.report.more_left = true;
                return Ok(());
            };
            self.room = room;
            let kind = |entries: &[(OsString, Kind)]| {
                entries.iter().find(|(other, _)| other == name).map(|(_, kind)| *kind)
            };
            self.entry(&path, kind(&here), kind(&there), depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        path: &Path,
        here: Option<Kind>,
        there: Option<Kind>,
        depth: usize,
    ) -> Result<(), Error> {
        match (here, there, depth.checked_sub(1)) {
            (Some(Kind::Folder), Some(Kind::Folder), _) if self.is_inner(path) => Ok(()),
            (Some(Kind::Folder), Some(Kind::Folder), Some(depth)) => self.folder(path, depth),
            (Some(Kind::Folder), None, _) => self.leave(path, "a new folder"),
            (Some(Kind::File), _, _) => self.file(path),
            (None, Some(_), _) => self.leave(path, "it was removed"),
            (Some(Kind::Special), _, _) if matches!(self.view.open(path), Found::Absent) => {
                self.leave(path, "it was removed")
            }
            (None, None, _) => Ok(()),
            _ => self.leave(path, "it is another kind of file"),
        }
    }

    /// Whether the host has an independent repository at `path`, which has an import of its own: a
    /// submodule's, whose name may contain slashes.
    fn is_inner(&self, path: &Path) -> bool {
        let names: Vec<&OsStr> = path.iter().take(3).collect();
        let is_below = match *names {
            [modules, _, ..] if modules == "modules" => true,
            [worktrees, _, modules] if worktrees == "worktrees" => modules == "modules",
            _ => false,
        };
        let host = self.host.view();
        let has_folder = |name: &str| matches!(host.folder(&path.join(name)), Found::Here(()));
        is_below
            && matches!(host.open(&path.join("HEAD")), Found::Here(_))
            && has_folder("objects")
            && has_folder("refs")
    }

    fn file(&mut self, path: &Path) -> Result<(), Error> {
        let differs = differs(self.view, self.host.view(), path, COMPARED);
        if differs.map_err(Error::files("compare", path))? {
            self.leave(path, "files of this kind are not imported")
        } else {
            Ok(())
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "so that all arms of `entry` read the same")]
    fn leave(&mut self, path: &Path, why: &str) -> Result<(), Error> {
        self.report.leave(path.to_string_lossy(), why);
        Ok(())
    }
}
