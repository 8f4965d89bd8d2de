//! Finds the static programs.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{ProgramError, elf};
use crate::config::SandboxConfig;
use sandbox_files::hex;
use sandbox_files::host_path::{self, Found, PathError, Resolver};

/// Far more than any of them has: 256 MiB.
const LARGEST: u64 = 256 << 20;

/// A static program of this machine's architecture.
pub(crate) struct StaticProgram {
    path: PathBuf,
    found: Found,
    /// The hash of its content, in hexadecimal.
    pub(crate) sha256: String,
}

impl StaticProgram {
    /// The program that proxies run. Blocks.
    pub(crate) fn proxy(config: &SandboxConfig) -> Result<Self, ProgramError> {
        Self::named("sandbox-proxy", config)
    }

    /// The program that runs inside of containers. Blocks.
    pub(crate) fn inside(config: &SandboxConfig) -> Result<Self, ProgramError> {
        Self::named("sandbox-inside", config)
    }

    fn named(name: &'static str, config: &SandboxConfig) -> Result<Self, ProgramError> {
        Self::find(name, config.proxy_dir.as_deref(), &config.state_dir)
            .map_err(|problem| ProgramError::Unusable { name, problem })
    }

    /// The program `name` in `dir`; by default the checkout's for a program of the checkout, else
    /// the one next to the running program. The error names the searched paths and the problem. A
    /// program that a task could have written is refused: proxies get real credentials.
    fn find(name: &str, dir: Option<&Path>, state_dir: &Path) -> Result<Self, String> {
        let known = host_path::writable_folders(state_dir);
        let known = known.map_err(|error| format!("failed to read `{}`: {error}", state_dir.display()))?;
        let candidates = match dir {
            Some(dir) => vec![dir.join(name)],
            None => default_places(name, std::env::current_exe().ok().as_deref()),
        };
        Self::first_of(&candidates, &Resolver::new(known))
    }

    /// The path at which it was found.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its content, which has the hash [`sha256`](Self::sha256). Blocks.
    pub(crate) fn content(&self) -> io::Result<Vec<u8>> {
        let content = self.found.read(LARGEST)?;
        if hex(&Sha256::digest(&content)) != self.sha256 {
            return Err(io::Error::other(format!(
                "`{}` was changed after it was checked",
                self.path.display()
            )));
        }
        Ok(content)
    }

    /// The first existing one is used or refused, never skipped: it was put there on purpose.
    fn first_of(candidates: &[PathBuf], resolver: &Resolver) -> Result<Self, String> {
        let found = candidates.iter().find_map(|path| match resolver.find(path) {
            Ok(found) => found.is_file().then_some((path, Ok(found))),
            Err(error) if error.is_not_found() => None,
            Err(error) => Some((path, Err(error))),
        });
        let Some((path, found)) = found else {
            let mut problem = "not found at".to_owned();
            for path in candidates {
                // Writing to a string cannot fail.
                let _ = write!(problem, " `{}`", path.display());
            }
            return Err(problem);
        };
        let unreadable =
            |error: PathError| format!("failed to read `{}`: {}", path.display(), error.problem());
        let found = found.map_err(unreadable)?;
        if found.is_untrusted() {
            return Err(format!("`{}` is in a folder that tasks can write", path.display()));
        }
        let failed = |error: io::Error| format!("failed to read `{}`: {error}", path.display());
        let mut file = found.file().map_err(unreadable)?;
        if file.metadata().map_err(failed)?.len() > LARGEST {
            return Err(format!("`{}` is larger than {LARGEST} bytes", path.display()));
        }
        let mut head = Vec::new();
        file.by_ref().take(elf::HEAD).read_to_end(&mut head).map_err(failed)?;
        if let Some(problem) = elf::problem(&head) {
            return Err(format!("`{}`: {problem}", path.display()));
        }
        let sha256 = sha256(&mut head.chain(file.take(LARGEST))).map_err(failed)?;
        Ok(Self { path: path.clone(), found, sha256 })
    }
}

/// The hash of what `reader` has, in hexadecimal. It is read in pieces, which needs no memory for
/// all of it.
pub(super) fn sha256(reader: &mut impl Read) -> io::Result<String> {
    let (mut reader, mut hash) = (BufReader::with_capacity(128 << 10, reader), Sha256::new());
    while let piece = reader.fill_buf()?
        && !piece.is_empty()
    {
        hash.update(piece);
        let length = piece.len();
        reader.consume(length);
    }
    Ok(hex(&hash.finalize()))
}

/// `target/proxy` of the checkout, if the running program is below `target`; then the folder of the
/// running program, and the `libexec/sandbox` of an installation. In a debug build of this crate
/// the checkout's is always included.
fn default_places(name: &str, running: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(running) = running {
        let target =
            running.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "target"));
        // First: next to a program that cargo built there may be a proxy that cargo built too,
        // which is not static.
        places.extend(target.map(|target| target.join("proxy").join(name)));
        places.extend(running.parent().map(|folder| folder.join(name)));
        let installed = running.ancestors().nth(2);
        places.extend(installed.map(|folder| folder.join("libexec/sandbox").join(name)));
    }
    if cfg!(debug_assertions) {
        // A release must not look into a path of its build machine.
        places.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/proxy").join(name));
    }
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::elf::tests::program;
    use super::*;

    const NAME: &str = "sandbox-proxy";

    #[test]
    fn program_that_a_task_can_write_is_refused() {
        let (state, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(dir.path().join(NAME), program(1)).unwrap();
        let find = || StaticProgram::find(NAME, Some(dir.path()), state.path());
        assert!(find().is_ok(), "the control");
        host_path::remember(state.path(), dir.path()).unwrap();
        let error = find().err().unwrap();
        assert!(error.contains("is in a folder that tasks can write"), "{error}");
    }

    #[test]
    fn configured_folder_is_the_only_candidate() {
        let dir = tempfile::tempdir().unwrap();
        let error = StaticProgram::find(NAME, Some(dir.path()), dir.path()).err().unwrap();
        assert!(error.contains("sandbox-proxy`"), "{error}");
        fs::write(dir.path().join(NAME), program(1)).unwrap();
        let found = StaticProgram::find(NAME, Some(dir.path()), dir.path()).ok().unwrap();
        assert_eq!(found.content().unwrap(), program(1));
        assert_eq!(found.sha256, hex(&Sha256::digest(program(1))));
        fs::write(dir.path().join(NAME), program(3)).unwrap();
        assert!(found.content().unwrap_err().to_string().contains("was changed after"));
    }

    #[test]
    fn unusable_program_is_an_error_and_not_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let (bad, good) = (dir.path().join("bad"), dir.path().join("good"));
        fs::write(&bad, program(3)).unwrap();
        fs::write(&good, program(1)).unwrap();
        let error = StaticProgram::first_of(&[dir.path().join("none"), bad, good], &Resolver::default())
            .err()
            .unwrap();
        assert!(error.contains("bad`: it is not linked statically"), "{error}");
    }

    #[test]
    fn default_candidates_prefer_the_checkout_and_otherwise_the_programs_folder() {
        for (running, expected) in [
            ("/src/target/debug/sandbox", "/src/target/proxy/sandbox-proxy"),
            ("/opt/sandbox", "/opt/sandbox-proxy"),
            ("/usr/local/bin/sandbox", "/usr/local/libexec/sandbox/sandbox-proxy"),
        ] {
            let places = default_places(NAME, Some(Path::new(running)));
            assert!(places.iter().take(2).any(|place| place == Path::new(expected)), "{places:?}");
        }
    }
}
