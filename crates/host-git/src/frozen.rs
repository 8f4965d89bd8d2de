//! A task's view of a repository while the host works in it: refs, `HEAD` and the index as they
//! were when the task began.
//!
//! An overlay shows the current state of the files below it, or their state at the kernel's first
//! lookup. A task's git would treat the host's changes as its own, and write them down, for example
//! by packing refs. So these files are in the upper layer from the start.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{SeekFrom, seek};
use sandbox_files::overlay::note_opaque;
use sandbox_files::tree::{self, Facts, Tree};

use crate::Error;
use crate::operation::{Kind, MESSAGE_FILE};
use crate::refs::{DEPTH, LOOSE};
use crate::repository::{HostRepository, OWN_FILE};
use crate::state::Snapshot;
use crate::view::View;

/// The maximum number of packs that the task's git is kept from repacking.
const MOST_PACKS: usize = 1000;
/// The size limit in bytes of a file, except an index and packed refs.
const SMALL: u64 = 16 << 20;
/// The maximum number of loose refs, or of files of a linked work tree: each is copied.
const MOST_FILES: usize = 100_000;

impl Snapshot {
    /// Freezes the refs, `HEAD`, index, stashes and a merge in progress of the host's repository
    /// for a task: it copies them to the folder `upper`, and takes the snapshot from these copies.
    /// An overlay over the repository with `upper` as its upper layer shows them, regardless of
    /// changes on the host. Each existing pack gets a `.keep`, so that `git gc` in the task packs
    /// only new objects, and not the whole history.
    ///
    /// # Errors
    ///
    /// If the repository cannot be read or has more than 100,000 loose refs; if its index or packed
    /// refs have more than 256 MiB or holes; if the file system does not support extended
    /// attributes; or if `upper` already has one of the files. Files copied until then are not
    /// removed.
    pub fn freeze(host: &HostRepository, upper: Tree) -> Result<Self, Error> {
        let failed = || Error::files("copy the frozen state of", host.path());
        let freezer = Freezer { from: host.view().tree(), to: &upper };
        // Git packs a ref before it removes the loose one: reading in this order misses none.
        if !freezer.folder(Path::new("refs"), LOOSE).map_err(failed())? {
            let problem = "has more than 100,000 loose refs: `git pack-refs --all` packs them";
            return Err(Error::Unsupported { path: host.path().to_owned(), problem });
        }
        let large = [PathBuf::from("packed-refs"), host.own("index")].map(|path| (path, OWN_FILE));
        let own = ["HEAD", MESSAGE_FILE, "MERGE_MODE"].into_iter().chain(Kind::ALL.map(Kind::file));
        let small = own.map(|name| host.own(name)).chain([PathBuf::from("logs/refs/stash")]);
        for (path, most) in large.into_iter().chain(small.map(|path| (path, SMALL))) {
            let copied = freezer
                .file(&path, most)
                .and_then(|is_there| if is_there { Ok(()) } else { freezer.hide(&path) });
            copied.map_err(failed())?;
        }
        freezer.linked(&host.own("")).map_err(failed())?;
        freezer.packs().map_err(failed())?;
        Self::of(host, &View::upper(upper))
    }
}

struct Freezer<'a> {
    from: &'a Tree,
    to: &'a Tree,
}

impl Freezer<'_> {
    /// Copies the file and returns whether it exists; [`FileTooLarge`](io::ErrorKind::FileTooLarge)
    /// if it has more than `most` bytes.
    fn file(&self, path: &Path, most: u64) -> io::Result<bool> {
        if self.from.facts(path)?.is_none_or(|facts| facts.kind != tree::Kind::File) {
            return Ok(false);
        }
        if self.from.file(path).is_ok_and(|file| has_holes(&file)) {
            return Err(io::Error::other(format!("`{}` has holes: git did not write it", path.display())));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let copied =
            self.to.make_folders(folder, self.from).and_then(|()| self.to.copy_file(path, self.from, most));
        copied.map(|_| true).or_else(absent)
    }

    /// Hides files that the host creates at `path` later, if its parent folder exists already.
    fn hide(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new(""));
        match self.to.make_folders(folder, self.from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            made => made.and_then(|()| self.to.hide(path)),
        }
    }

    /// Copies the rest of a linked work tree's folder `own`, unless it contains repositories of
    /// submodules: a host's lock that a task saw would remain visible to it.
    fn linked(&self, own: &Path) -> io::Result<()> {
        let has_modules = || Ok::<_, io::Error>(self.from.facts(&own.join("modules"))?.is_some());
        if own.as_os_str().is_empty() || has_modules()? {
            return Ok(());
        }
        let all = self.folder(own, OWN_FILE)?;
        if all { Ok(()) } else { Err(io::Error::other(format!("`{}` has too many files", own.display()))) }
    }

    /// Copies the remaining files in the folder `top`, so that they hide those of the host; none of
    /// more than `most` bytes. Returns false if there are too many.
    fn folder(&self, top: &Path, most: u64) -> io::Result<bool> {
        self.to.make_folders(top, self.from)?;
        note_opaque(self.to.folder(top)?)?;
        let mut folders = vec![(top.to_owned(), DEPTH)];
        let mut room = MOST_FILES;
        while let Some((folder, depth)) = folders.pop() {
            for (name, kind) in self.from.list(&folder).or_else(absent)? {
                let path = folder.join(name);
                let Some(left) = room.checked_sub(1) else { return Ok(false) };
                room = left;
                match (kind, depth.checked_sub(1)) {
                    (tree::Kind::Folder, Some(depth)) => {
                        self.to.make_folders(&path, self.from).or_else(absent)?;
                        folders.push((path, depth));
                    }
                    // It belongs to a running git, or one that was killed.
                    (tree::Kind::File, _) if path.extension().is_some_and(|it| it == "lock") => {}
                    (tree::Kind::File, _) if self.to.facts(&path)?.is_some() => {}
                    (tree::Kind::File, _) => match self.file(&path, most) {
                        // It is not a ref.
                        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {}
                        copied => drop(copied?),
                    },
                    _ => {}
                }
            }
        }
        Ok(true)
    }

    fn packs(&self) -> io::Result<()> {
        let folder = Path::new("objects/pack");
        let names = self.from.list(folder).or_else(absent)?;
        let packs =
            names.iter().filter(|(name, _)| Path::new(name).extension().is_some_and(|it| it == "pack"));
        for (name, _) in packs.take(MOST_PACKS) {
            let (pack, keep) = (folder.join(name), folder.join(name).with_extension("keep"));
            let (Some(facts), None) = (self.from.facts(&pack)?, self.from.facts(&keep)?) else {
                continue;
            };
            self.to.make_folders(folder, self.from)?;
            self.to.create_file(&keep, &Facts { mode: 0o444, ..facts })?;
        }
        Ok(())
    }
}

/// Whether a large file occupies less space than its size: its copy would occupy more.
pub(crate) fn has_holes(file: &File) -> bool {
    let size = file.metadata().map_or(0, |facts| facts.len());
    size > 1 << 20 && seek(file, SeekFrom::Hole(0)).is_ok_and(|hole| hole < size)
}

/// A file that disappears during the read is absent.
fn absent<T: Default>(error: io::Error) -> io::Result<T> {
    let is_gone = error.kind() == io::ErrorKind::NotFound || tree::is_absence(&error);
    if is_gone { Ok(T::default()) } else { Err(error) }
}
