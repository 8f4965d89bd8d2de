//! Finds one of our static programs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{ProgramError, elf};
use crate::config::SandboxConfig;
use sandbox_files::hex;
use sandbox_files::host_path::{self, PathError, Resolver};

/// Far more than any of ours: 256 MiB.
const LARGEST: u64 = 256 << 20;

/// A static program of this machine's architecture, in memory.
pub(crate) struct StaticProgram {
    path: PathBuf,
    pub(crate) content: Bytes,
    /// Of its content, in hexadecimal.
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

    /// The program `name` in `dir`; without one, the checkout's for a program of the checkout, else
    /// the one beside the running program. The error says where it was looked for, and what is
    /// wrong with it. A program that a task could have written is refused: proxies get real
    /// credentials.
    fn find(name: &str, dir: Option<&Path>, state_dir: &Path) -> Result<Self, String> {
        let known = host_path::writable_folders(state_dir);
        let known = known.map_err(|error| format!("cannot read `{}`: {error}", state_dir.display()))?;
        let candidates = match dir {
            Some(dir) => vec![dir.join(name)],
            None => default_places(name, std::env::current_exe().ok().as_deref()),
        };
        Self::first_of(&candidates, &Resolver::new(known))
    }

    /// Where it was found.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The first that is there counts, also when it cannot be used: what was put there was meant.
    fn first_of(candidates: &[PathBuf], resolver: &Resolver) -> Result<Self, String> {
        let found = candidates.iter().find_map(|path| match resolver.find(path) {
            Ok(found) => found.is_file().then_some((path, Ok(found))),
            Err(error) if error.is_not_found() => None,
            Err(error) => Some((path, Err(error))),
        });
        let Some((path, found)) = found else {
            let mut problem = "there is none at".to_owned();
            for path in candidates {
                // Writing to a string cannot fail.
                let _ = write!(problem, " `{}`", path.display());
            }
            return Err(problem);
        };
        let unreadable = |error: PathError| format!("cannot read `{}`: {}", path.display(), error.problem());
        let found = found.map_err(unreadable)?;
        if found.is_untrusted() {
            return Err(format!("`{}` lies in a folder that tasks can write", path.display()));
        }
        let content = found.read(LARGEST).map_err(unreadable)?;
        if let Some(fault) = elf::fault(content.get(..elf::HEAD).unwrap_or(&content)) {
            return Err(format!("`{}`: {fault}", path.display()));
        }
        let sha256 = hex(&Sha256::digest(&content));
        Ok(Self { path: path.clone(), content: content.into(), sha256 })
    }
}

/// Where the checkout's build puts it, in `target/proxy`, when the running program lies below
/// `target`; then beside the running program, and in the `libexec/sandbox` of what is installed; in
/// a debug build of this crate the checkout's also when the running program lies elsewhere.
fn default_places(name: &str, running: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(running) = running {
        let target =
            running.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "target"));
        // First: beside a program that cargo built there may be a proxy that cargo built too, which
        // is not static.
        places.extend(target.map(|target| target.join("proxy").join(name)));
        places.extend(running.parent().map(|folder| folder.join(name)));
        let installed = running.ancestors().nth(2);
        places.extend(installed.map(|folder| folder.join("libexec/sandbox").join(name)));
    }
    if cfg!(debug_assertions) {
        // A release must not look into a path of the machine it was built on.
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
    fn a_program_that_a_task_could_have_written_is_refused() {
        let (state, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(dir.path().join(NAME), program(1)).unwrap();
        let find = || StaticProgram::find(NAME, Some(dir.path()), state.path());
        assert!(find().is_ok(), "the control");
        host_path::remember(state.path(), dir.path()).unwrap();
        let error = find().err().unwrap();
        assert!(error.contains("lies in a folder that tasks can write"), "{error}");
    }

    #[test]
    fn the_configured_folder_is_the_only_place_then() {
        let dir = tempfile::tempdir().unwrap();
        let error = StaticProgram::find(NAME, Some(dir.path()), dir.path()).err().unwrap();
        assert!(error.contains("sandbox-proxy`"), "{error}");
        fs::write(dir.path().join(NAME), program(1)).unwrap();
        let found = StaticProgram::find(NAME, Some(dir.path()), dir.path()).ok().unwrap();
        assert_eq!(&found.content[..], program(1));
        assert_eq!(found.sha256.len(), 64);
    }

    #[test]
    fn a_foreign_program_is_an_error_and_not_passed_over() {
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
    fn a_program_of_the_checkout_takes_the_checkouts_proxy_and_a_shipped_one_that_beside_it() {
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
