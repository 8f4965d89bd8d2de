//! The build context: the files that a Dockerfile copies from.

use std::collections::BTreeMap;

use sandbox::host_path::Found;

use crate::failure::Failure;

/// The maximum size that is read into memory, in bytes.
const LARGEST: u64 = 512 * 1024 * 1024;
const MOST_FILES: usize = 50_000;
/// The maximum depth of nested folders.
const DEEPEST: usize = 256;

/// All files below `folder`, by their paths relative to it. The `Dockerfile` at its top is omitted,
/// because the named one counts.
///
/// Symbolic links are refused: one in a repository could lead anywhere on the host.
pub(crate) fn read(folder: &Found) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let mut walk = Walk { files: BTreeMap::new(), bytes: 0 };
    walk.folder(folder, "", 0).map_err(|failure| match failure.hint() {
        Some(_) => failure,
        None => failure.with_hint(
            "give the image its own folder with --context, or with `context` in the configuration",
        ),
    })?;
    walk.files.remove("Dockerfile");
    Ok(walk.files)
}

struct Walk {
    files: BTreeMap<String, Vec<u8>>,
    bytes: u64,
}

impl Walk {
    fn folder(&mut self, folder: &Found, prefix: &str, depth: usize) -> Result<(), Failure> {
        for name in folder.names()? {
            let entry = folder.child(&name)?;
            let refused =
                |why: &str| Failure::new(format!("`{}` in the build context {why}", entry.path().display()));
            let name = name.into_string().map_err(|_| refused("has a name that is not UTF-8"))?;
            let name = format!("{prefix}{name}");
            if entry.is_folder() {
                if depth == DEEPEST {
                    return Err(refused("is nested too deeply"));
                }
                self.folder(&entry, &format!("{name}/"), depth + 1)?;
            } else if entry.is_file() {
                let content = entry.read(LARGEST)?;
                self.bytes += content.len() as u64;
                self.files.insert(name, content);
            } else if entry.is_link() {
                return Err(refused("is a symbolic link").with_hint("replace it by the file itself"));
            } else {
                return Err(refused("is not a regular file"));
            }
            if self.bytes > LARGEST || self.files.len() > MOST_FILES {
                return Err(Failure::new(format!(
                    "the build context is larger than {} MiB or {MOST_FILES} files",
                    LARGEST / 1024 / 1024
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use sandbox::host_path::Resolver;

    use super::*;

    fn read(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
        super::read(&Resolver::default().find(folder)?)
    }

    #[test]
    fn context_has_relative_paths_without_the_dockerfile() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        for path in ["Dockerfile", "one", "a/b/two", "a/Dockerfile"] {
            fs::write(dir.path().join(path), path).unwrap();
        }
        let files = read(dir.path()).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["a/Dockerfile", "a/b/two", "one"]);
    }

    #[test]
    fn link_to_host_files_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/etc/passwd", dir.path().join("link")).unwrap();
        let error = read(dir.path()).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert!(read(Path::new("/no/such/folder")).is_err());
    }
}
