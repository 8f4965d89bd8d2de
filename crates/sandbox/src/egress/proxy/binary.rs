//! Finds the program that proxies run.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::elf;
use crate::egress::ProxyError;
use crate::image::hex;

const NAME: &str = "sandbox-proxy";

/// A static program of this machine's architecture, in memory.
pub(in crate::egress) struct ProxyBinary {
    path: PathBuf,
    pub(super) program: Bytes,
    /// Of its content, in hexadecimal.
    pub(super) sha256: String,
}

impl ProxyBinary {
    /// The program in `proxy_dir`; without one, the checkout's for a program of the checkout, else the one beside the running program.
    /// Blocks.
    pub(in crate::egress) fn find(proxy_dir: Option<&Path>) -> Result<Self, ProxyError> {
        let candidates = match proxy_dir {
            Some(dir) => vec![dir.join(NAME)],
            None => default_places(std::env::current_exe().ok().as_deref()),
        };
        Self::first_of(&candidates)
    }

    /// Where it was found.
    pub(in crate::egress) fn path(&self) -> &Path {
        &self.path
    }

    /// The first that is there counts, also when it cannot be used: what was put there was meant.
    fn first_of(candidates: &[PathBuf]) -> Result<Self, ProxyError> {
        let Some(path) = candidates.iter().find(|path| path.is_file()) else {
            let mut problem = "there is none at".to_owned();
            for path in candidates {
                // Writing to a string cannot fail.
                let _ = write!(problem, " `{}`", path.display());
            }
            return Err(ProxyError::ProxyBinary { problem });
        };
        let program = fs::read(path).map_err(ProxyError::file("read", path))?;
        if let Some(fault) = elf::fault(program.get(..elf::HEAD).unwrap_or(&program)) {
            return Err(ProxyError::ProxyBinary {
                problem: format!("`{}`: {fault}", path.display()),
            });
        }
        let sha256 = hex(&Sha256::digest(&program));
        Ok(Self {
            path: path.clone(),
            program: program.into(),
            sha256,
        })
    }
}

/// Where the checkout's build puts it, in `target/proxy`, when the running program lies below `target`; then beside the running program;
/// in a debug build of this crate the checkout's also when the running program lies elsewhere.
fn default_places(running: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(running) = running {
        let target = running
            .ancestors()
            .find(|folder| folder.file_name().is_some_and(|name| name == "target"));
        // First: beside a program that cargo built there may be a proxy that cargo built too, which is not static.
        places.extend(target.map(|target| target.join("proxy").join(NAME)));
        places.extend(running.parent().map(|folder| folder.join(NAME)));
    }
    if cfg!(debug_assertions) {
        // A release must not look into a path of the machine it was built on.
        places.push(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../target/proxy")
                .join(NAME),
        );
    }
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::super::elf::tests::program;
    use super::*;

    #[test]
    fn the_configured_folder_is_the_only_place_then() {
        let dir = tempfile::tempdir().unwrap();
        let error = ProxyBinary::find(Some(dir.path())).err().unwrap().to_string();
        assert!(
            error.contains("sandbox-proxy`") && error.contains("cargo xtask proxy-image"),
            "{error}"
        );
        fs::write(dir.path().join(NAME), program(1)).unwrap();
        let found = ProxyBinary::find(Some(dir.path())).ok().unwrap();
        assert_eq!(&found.program[..], program(1));
        assert_eq!(found.sha256.len(), 64);
    }

    #[test]
    fn a_foreign_program_is_an_error_and_not_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let (bad, good) = (dir.path().join("bad"), dir.path().join("good"));
        fs::write(&bad, program(3)).unwrap();
        fs::write(&good, program(1)).unwrap();
        let error = ProxyBinary::first_of(&[dir.path().join("none"), bad, good])
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("bad`: it is not linked statically"), "{error}");
    }

    #[test]
    fn a_program_of_the_checkout_takes_the_checkouts_proxy_and_a_shipped_one_that_beside_it() {
        for (running, expected) in [
            ("/src/target/debug/sandbox", "/src/target/proxy/sandbox-proxy"),
            ("/usr/local/bin/sandbox", "/usr/local/bin/sandbox-proxy"),
        ] {
            let places = default_places(Some(Path::new(running)));
            assert_eq!(places.first().unwrap(), Path::new(expected));
        }
    }
}
