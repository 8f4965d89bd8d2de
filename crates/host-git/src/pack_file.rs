//! Moves the pack of new objects to the host's folder of objects.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::or_absent;

use crate::fail_point::{FailPoint, FailPoints, stopped};
use crate::{Error, RunName};

/// Git finds a pack by its index, so the index comes last. A `.keep` next to the pack protects it
/// from a repack, which would find that no ref names its objects yet.
const ORDER: [&str; 3] = ["pack", "rev", "idx"];
const KEEP: &str = "keep";

/// Copies the pack in the folder `from` to the host's folder of objects. Existing files are not
/// replaced.
pub(crate) fn bring(from: &Path, objects: &Path, run: &RunName, points: FailPoints<'_>) -> Result<(), Error> {
    let Some(pack) = find(&from.join("pack"))? else {
        return Ok(());
    };
    let folder = objects.join("pack");
    fs::create_dir_all(&folder).map_err(Error::files("create", &folder))?;
    // Git treats this name as a temporary file, and removes it eventually.
    let new = folder.join(format!("tmp_sandbox-{run}"));
    or_absent(fs::remove_file(&new)).map_err(Error::files("remove", &new))?;
    let keep = pack.with_extension(KEEP);
    let keep = folder.join(keep.file_name().unwrap_or_default());
    match File::create_new(&keep).and_then(|mut file| file.write_all(mark(run).as_bytes())) {
        // Another process keeps it for its own reasons.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(Error::files("write", &keep))?,
    }
    for extension in ORDER {
        let source = pack.with_extension(extension);
        let Some(name) = source.file_name() else { continue };
        let target = folder.join(name);
        if !source.exists() || target.exists() {
            continue;
        }
        copy(&source, &new).map_err(Error::files("write", &new))?;
        stopped(points, FailPoint::Packing)?;
        fs::rename(&new, &target).map_err(Error::files("write", &target))?;
    }
    File::open(&folder).and_then(|folder| folder.sync_all()).map_err(Error::files("write", &folder))
}

/// Releases the pack of `run` to the host's git, once refs name its objects, or never will.
pub(crate) fn release(objects: &Path, run: &RunName) -> Result<(), Error> {
    let folder = objects.join("pack");
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_keep = path.extension().is_some_and(|extension| extension == KEEP);
        let is_short = || entry.metadata().is_ok_and(|facts| facts.is_file() && facts.len() < 1024);
        if is_keep && is_short() && fs::read(&path).is_ok_and(|text| text == mark(run).as_bytes()) {
            or_absent(fs::remove_file(&path)).map_err(Error::files("remove", &path))?;
        }
    }
    Ok(())
}

/// The content of our `.keep` files.
fn mark(run: &RunName) -> String {
    format!("sandbox: import of {run}\n")
}

/// The pack in `folder`, unless it is empty.
fn find(folder: &Path) -> Result<Option<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::files("list", folder))?;
    for entry in entries {
        let path = entry.map_err(Error::files("list", folder))?.path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            let mut head = [0; 12];
            File::open(&path)
                .and_then(|mut file| file.read_exact(&mut head))
                .map_err(Error::files("read", &path))?;
            // The last of three numbers is the count of objects.
            return Ok(head.get(8..).is_some_and(|count| count != [0; 4]).then_some(path));
        }
    }
    Ok(None)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut new = File::create_new(to)?;
    io::copy(&mut File::open(from)?, &mut new)?;
    new.set_permissions(Permissions::from_mode(0o444))?;
    new.sync_all()
}
