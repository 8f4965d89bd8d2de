//! Copies the files of objects in a task's view as bytes, to a folder that the host's git may read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sandbox_files::tree::Kind;

use crate::frozen::has_holes;
use crate::git::{Git, Input, Objects};
use crate::object_id::ObjectId;
use crate::objects::{kinds, make};
use crate::report::Report;
use crate::repository::HostRepository;
use crate::view::{Found, View};
use crate::{Error, Limits};

/// Fills the folder `to` with the objects that the host lacks. Files that are not objects are
/// listed in `report`.
pub(crate) fn harvest(
    view: &View,
    host: &HostRepository,
    git: &Git<'_>,
    to: &Path,
    limits: &Limits,
    report: &mut Report,
) -> Result<(), Error> {
    make(to)?;
    let (files, bytes) = (limits.object_files, limits.object_bytes);
    let mut harvest = Harvest { view, host, git, to, limits, report, files, bytes };
    if let Found::Odd(why) = view.folder(Path::new("objects")) {
        harvest.report.leave("objects", why);
    }
    harvest.loose()?;
    harvest.packs()
}

struct Harvest<'a> {
    view: &'a View,
    host: &'a HostRepository,
    git: &'a Git<'a>,
    to: &'a Path,
    limits: &'a Limits,
    report: &'a mut Report,
    files: u64,
    bytes: u64,
}

impl Harvest<'_> {
    fn loose(&mut self) -> Result<(), Error> {
        let mut found: BTreeMap<ObjectId, PathBuf> = BTreeMap::new();
        for byte in 0..=255_u8 {
            let head = format!("{byte:02x}");
            let folder = Path::new("objects").join(&head);
            for (name, kind) in self.view.list(&folder)? {
                self.count()?;
                let id =
                    name.to_str().and_then(|tail| self.host.format().id(format!("{head}{tail}").as_bytes()));
                match (id, kind) {
                    (Some(id), Kind::File) => drop(found.insert(id, folder.join(name))),
                    // A file that git was still writing.
                    (None, Kind::File) => {}
                    _ => self.report.leave(folder.join(name).to_string_lossy(), "it is not an object"),
                }
            }
        }
        let known = kinds(self.git, found.keys())?;
        for (id, path) in found.into_iter().filter(|(id, _)| !known.contains_key(id)) {
            self.copy(&id, &path)?;
        }
        Ok(())
    }

    fn copy(&mut self, id: &ObjectId, path: &Path) -> Result<(), Error> {
        let Some((head, tail)) = id.as_str().split_at_checked(2) else {
            return Ok(());
        };
        let (file, size) = match self.view.open(path) {
            Found::Here(found) => found,
            Found::Odd(why) => {
                self.report.leave(path.to_string_lossy(), why);
                return Ok(());
            }
            Found::Same | Found::Absent => return Ok(()),
        };
        // Copying it could fill the disk.
        if has_holes(&file) {
            self.report.leave(path.to_string_lossy(), "it has holes: git did not write it");
            return Ok(());
        }
        self.weigh(size)?;
        let folder = self.to.join(head);
        let new = folder.join(tail);
        fs::create_dir_all(&folder)
            .and_then(|()| File::create_new(&new))
            // Copy only the size that was counted, even if the file grows.
            .and_then(|mut new| io::copy(&mut file.take(size), &mut new))
            .map(drop)
            .map_err(Error::files("write", &new))
    }

    fn packs(&mut self) -> Result<(), Error> {
        let folder = Path::new("objects/pack");
        for (name, kind) in self.view.list(folder)? {
            self.count()?;
            let is_pack = name.to_str().is_some_and(|name| name.starts_with("pack-"))
                && Path::new(&name).extension().is_some_and(|extension| extension == "pack");
            if !is_pack || kind == Kind::Special {
                continue;
            }
            let path = folder.join(name);
            let (file, size) = match self.view.open(&path) {
                Found::Here(found) => found,
                Found::Odd(why) => {
                    self.report.leave(path.to_string_lossy(), why);
                    continue;
                }
                Found::Same | Found::Absent => continue,
            };
            // If the host has another pack of this name and size, objects that only the task's pack
            // has are missing and not imported.
            if matches!(self.host.view().open(&path), Found::Here((_, known)) if known == size) {
                continue;
            }
            self.weigh(size)?;
            let most = format!("--max-input-size={}", self.limits.object_bytes);
            // A pack on disk is complete: git need not compare it with the host's objects.
            let git = self.git.with_objects(self.to, Objects::None);
            let read = git.run("read a pack", &["index-pack", "--stdin", &most], Input::File(file), None)?;
            if !read.is_success {
                self.report.leave(path.to_string_lossy(), read.message());
            }
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), Error> {
        let left = self.files.checked_sub(1);
        self.files =
            left.ok_or(Error::TooMuch { what: "files of objects", limit: self.limits.object_files })?;
        Ok(())
    }

    fn weigh(&mut self, size: u64) -> Result<(), Error> {
        let left = self.bytes.checked_sub(size);
        self.bytes =
            left.ok_or(Error::TooMuch { what: "bytes of objects", limit: self.limits.object_bytes })?;
        Ok(())
    }
}
