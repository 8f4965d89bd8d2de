//! Reading and writing files with the rights of a command: links are resolved as they are for a
//! command.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use sandbox_inside::End;

/// Writes the data of `input` to the file at `path`.
pub(super) fn write(path: &Path, input: Option<OwnedFd>) -> End {
    let written = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = open(path, OpenOptions::new().write(true).create(true).truncate(true))?;
        let mut input = input.map(io::PipeReader::from).ok_or(io::ErrorKind::BrokenPipe)?;
        io::copy(&mut input, &mut file).map(drop)
    };
    end("write", path, written())
}

/// Prints the file at `path`.
pub(super) fn read(path: &Path, limit: u64) -> End {
    let printed = || {
        let file = open(path, OpenOptions::new().read(true))?;
        if file.metadata()?.len() > limit {
            return Err(too_large(limit));
        }
        let mut stdout = io::stdout().lock();
        // The file may grow while it is read.
        if io::copy(&mut file.take(limit.saturating_add(1)), &mut stdout)? > limit {
            return Err(too_large(limit));
        }
        stdout.flush()
    };
    end("read", path, printed())
}

fn too_large(limit: u64) -> io::Error {
    io::Error::other(format!("it is larger than {limit} bytes"))
}

/// Opens regular files only: opening a pipe or a device could block, and reading it never end.
fn open(path: &Path, how: &OpenOptions) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = how.clone().custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is not a regular file"))
}

fn end(operation: &str, path: &Path, done: io::Result<()>) -> End {
    match done {
        Ok(()) => End::Exited(0),
        Err(error) => End::Failed {
            problem: format!(
                "failed to {operation} `{}`: {error}",
                path.display().to_string().escape_debug()
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_written_to_a_new_folder_and_replaces_an_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        for text in ["long text", "short"] {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(text.as_bytes()).unwrap();
            drop(writer);
            assert_eq!(write(&path, Some(reader.into())), End::Exited(0));
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn file_that_is_irregular_or_too_large_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "12345").unwrap();
        for (path, limit, expected) in [
            (path.as_path(), 4, "larger than 4 bytes"),
            (folder.path(), 100, "not a regular file"),
            (Path::new("/dev/zero"), 100, "not a regular file"),
            (Path::new("/no/such/file"), 100, "failed to read `/no/such/file`"),
        ] {
            let End::Failed { problem } = read(path, limit) else { panic!("{}", path.display()) };
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
