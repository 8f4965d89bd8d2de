//! Reproducible builds of an archive's static programs: the same sources result in the same bytes
//! in any folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo;
use crate::process::{self, command};
use crate::report::step;
use crate::workspace;

const PROFILE: [&str; 2] = ["--release", "--locked"];

/// The input and output folders of a build.
struct Folders {
    checkout: PathBuf,
    /// cargo's home, with the sources of dependencies.
    home: PathBuf,
    target: PathBuf,
}

impl Folders {
    fn ours() -> Self {
        let folder = |name| std::env::var_os(name).map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
        Self {
            checkout: workspace::root(),
            home: folder("CARGO_HOME").unwrap_or_else(home),
            target: folder("CARGO_TARGET_DIR").unwrap_or_else(workspace::target),
        }
    }

    fn cargo(&self) -> Command {
        let mut cargo = cargo::cargo(["build"]);
        cargo.current_dir(&self.checkout).env("CARGO_HOME", &self.home).env("CARGO_TARGET_DIR", &self.target);
        cargo
    }

    /// The flags that hide the folders, which panic messages would contain. The last matching flag
    /// applies: the target folder is usually in the checkout.
    fn hidden(&self) -> [String; 3] {
        [(&self.home, "/cargo"), (&self.checkout, "/sandbox"), (&self.target, "/target")]
            .map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()))
    }

    /// Builds a static program that has the name of its package.
    fn build(&self, name: &str) -> Result<Vec<u8>> {
        cargo::build_static(&mut self.cargo(), &self.hidden(), name, name, &PROFILE)
    }
}

/// Builds the static programs `names` and puts them into `folder`.
pub(crate) fn build(names: &[&str], folder: &Path) -> Result<()> {
    for name in names {
        let built = step(&format!("building {name}"), || Folders::ours().build(name))?;
        cargo::install(&built, &folder.join(name))?;
    }
    Ok(())
}

/// Builds the static programs `names` twice, in folders of different names, and compares them.
pub(crate) fn check(names: &[&str]) -> Result<()> {
    let copy = Copy::make()?;
    for name in names {
        let first = step(&format!("building {name}"), || Folders::ours().build(name))?;
        let second = step(&format!("building {name} in another folder"), || copy.folders.build(name))?;
        if let Some(difference) = difference(&first, &second) {
            bail!("{name} depends on the folder that it is built in: {difference}");
        }
    }
    Ok(())
}

/// The place where two files begin to differ, with the bytes around it.
fn difference(one: &[u8], other: &[u8]) -> Option<String> {
    if one == other {
        return None;
    }
    let place = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let shown = |bytes: &[u8]| {
        let part = bytes.get(place.saturating_sub(40)..).unwrap_or_default();
        String::from_utf8_lossy(part.get(..80).unwrap_or(part)).escape_debug().to_string()
    };
    Some(format!(
        "{} and {} bytes, which differ from byte {place} on: `{}` and `{}`",
        one.len(),
        other.len(),
        shown(one),
        shown(other)
    ))
}

/// A copy of the checkout at another path, with a home for cargo at another path.
struct Copy {
    folder: PathBuf,
    folders: Folders,
}

impl Copy {
    fn make() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("sandbox-again-{}", std::process::id()));
        let ours = Folders::ours();
        let copy = Self {
            folders: Folders {
                checkout: folder.join("elsewhere"),
                home: folder.join("home"),
                target: folder.join("elsewhere/target"),
            },
            folder,
        };
        let failed = || format!("failed to copy the checkout to {}", copy.folder.display());
        fs::create_dir(&copy.folder).with_context(failed)?;
        for folder in [&copy.folders.checkout, &copy.folders.home] {
            fs::create_dir(folder).with_context(failed)?;
        }
        // The same sources and settings under another name.
        for entry in fs::read_dir(&ours.home).with_context(failed)? {
            let entry = entry?;
            symlink(entry.path(), copy.folders.home.join(entry.file_name())).with_context(failed)?;
        }
        copy_files(&copy.folders.checkout).with_context(failed)?;
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // These are temporary files; a failure to remove them is not an error of the programs.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Copies the current content of the files in git, and untracked files.
fn copy_files(destination: &Path) -> Result<()> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let files = process::output(command("git", list).current_dir(workspace::root()))?;
    for file in files.split_terminator('\0') {
        let (from, to) = (workspace::root().join(file), destination.join(file));
        if from.is_file() {
            fs::create_dir_all(to.parent().unwrap_or(destination))?;
            fs::copy(&from, &to).with_context(|| format!("failed to copy {}", from.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_shown_from_its_beginning() {
        assert_eq!(difference(b"same", b"same"), None);
        let found = difference(b"built in /a/b", b"built in /c").unwrap();
        assert!(found.contains("13 and 11 bytes") && found.contains("from byte 10 on"), "{found}");
        assert!(found.contains("`built in /a/b` and `built in /c`"), "{found}");
        assert!(difference(b"longer", b"long").unwrap().contains("from byte 4 on"));
    }
}
