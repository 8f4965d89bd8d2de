//! The content of an archive: the programs, their manual, completions and bill of materials,
//! licences, and the documents.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{licences, package};
use crate::cargo;
use crate::markdown;
use crate::process::{self, command};
use crate::report::step;
use crate::reproducible;
use crate::sbom;
use crate::task_proxy_image::{self, PROGRAMS};
use crate::workspace;

/// How the programs of an archive are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// For users.
    Release,
    /// For tests.
    Dev,
}

/// The files that [`make`] created.
pub(crate) struct Made {
    pub(crate) archive: PathBuf,
    /// For Debian.
    pub(crate) deb: PathBuf,
    /// For Fedora; not in development builds.
    pub(crate) rpm: Option<PathBuf>,
}

/// Files of the checkout in every archive, in addition to those in [`DOCS`].
const DOCUMENTS: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "crates/agents/outcomes.md",
];
/// The folder of documents that is completely in every archive.
const DOCS: &str = "docs";
/// Each shell, and the path of its completions below `share`.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/sandbox"),
    ("zsh", "zsh/site-functions/_sandbox"),
    ("fish", "fish/vendor_completions.d/sandbox.fish"),
];
/// The bill of materials, among the documents.
const SBOM: &str = "sandbox.cdx.json";

/// Creates the archive and the packages.
pub(crate) fn make(build: Build) -> Result<Made> {
    let (mark, level) = match build {
        Build::Release => ("", "-6"),
        Build::Dev => ("-dev", "-1"),
    };
    let sandbox = step("building the sandbox command", || match build {
        Build::Release => cargo::program("sandbox", &["--release"]),
        Build::Dev => cargo::program_for_tests("sandbox"),
    })?;
    let name = format!("sandbox-{}-{}{mark}", env!("CARGO_PKG_VERSION"), cargo::host_target()?);
    // Another `dist` may be running: each has its own folder, and the last one wins.
    let dist = folder(build);
    let work = dist.join(format!("work-{}", std::process::id()));
    let root = work.join(&name);
    let made = fill(&root, &sandbox, build).and_then(|()| {
        let deb = place(&package::deb(&root, &work)?, &dist)?;
        let rpm = match build {
            Build::Release => Some(place(&package::rpm(&root, &work)?, &dist)?),
            Build::Dev => None,
        };
        // Packages do not need the installer: distributions have their own.
        write_installer(&root)?;
        let archive = dist.join(format!("{name}.tar.gz"));
        pack(&work, &name, &archive, level)?;
        Ok(Made { archive, deb, rpm })
    });
    let removed = fs::remove_dir_all(&work).with_context(|| format!("failed to remove {}", work.display()));
    made.and_then(|made| removed.map(|()| made))
}

/// Release and development archives are in different folders: people unpack `sandbox-*`.
fn folder(build: Build) -> PathBuf {
    match build {
        Build::Release => workspace::target().join("dist"),
        Build::Dev => workspace::state().join("dist"),
    }
}

/// Fills `folder` with the layout of `/usr` and `~/.local`, where everything has its standard path.
fn fill(folder: &Path, sandbox: &Path, build: Build) -> Result<()> {
    let (share, programs) = (folder.join("share"), folder.join("libexec/sandbox"));
    let (documents, manual) = (share.join("doc/sandbox"), share.join("man/man1"));
    for part in [&folder.join("bin"), &programs, &documents, &manual] {
        fs::create_dir_all(part).with_context(|| format!("failed to create {}", part.display()))?;
    }
    let installed = folder.join("bin/sandbox");
    copy(sandbox, &installed)?;
    match build {
        Build::Release => reproducible::build(&PROGRAMS, &programs)?,
        Build::Dev => {
            // Debug information is most of a development build: packing it takes longer than
            // building it.
            process::run_quietly(command("strip", ["--strip-debug"]).arg(&installed))?;
            let proxy = task_proxy_image::build_for_tests()?;
            PROGRAMS.iter().try_for_each(|name| copy(&proxy.with_file_name(name), &programs.join(name)))?;
        }
    }
    // `sandbox doctor` compares the programs with these checksums.
    let mut sums = command("sha256sum", ["--", "../../bin/sandbox"]);
    fs::write(programs.join("SHA256SUMS"), process::output(sums.args(PROGRAMS).current_dir(&programs))?)?;
    let shipped: Vec<PathBuf> =
        std::iter::once(installed).chain(PROGRAMS.map(|name| programs.join(name))).collect();
    let packages = sbom::packages()?;
    let sbom = serde_json::to_string_pretty(&sbom::document(&shipped, &packages)?)?;
    fs::write(documents.join(SBOM), sbom + "\n")?;
    fs::write(documents.join("copyright"), licences::document(&packages)?)?;
    add_documents(&documents)?;
    for (shell, file) in SHELLS {
        let text = process::output(&mut command(sandbox, ["completions", shell]))?;
        let file = share.join(file);
        fs::create_dir_all(file.parent().unwrap_or(&share))?;
        fs::write(file, text)?;
    }
    process::run_quietly(command(sandbox, ["man"]).arg(manual))
}

fn write_installer(folder: &Path) -> Result<()> {
    let script = folder.join("install.sh");
    fs::write(&script, include_str!("install.sh"))
        .with_context(|| format!("failed to write {}", script.display()))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Moves a complete file into `folder`.
fn place(file: &Path, folder: &Path) -> Result<PathBuf> {
    let to = folder.join(file.file_name().unwrap_or_default());
    fs::rename(file, &to).with_context(|| format!("failed to place {}", to.display()))?;
    Ok(to)
}

/// Links of the documents must lead to files of the archive: its readers have no checkout.
fn add_documents(folder: &Path) -> Result<()> {
    for document in documents()? {
        let (from, to) = (workspace::root().join(&document), folder.join(&document));
        let parent = to.parent().unwrap_or(folder);
        fs::create_dir_all(parent).with_context(|| format!("failed to create {}", parent.display()))?;
        copy(&from, &to)?;
    }
    markdown::check_links(folder).context("the archive's documents are not complete")
}

/// The documents by their paths in the checkout, which are the same in the archive.
fn documents() -> Result<Vec<PathBuf>> {
    let folder = workspace::root().join(DOCS);
    let entries = fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut documents: Vec<_> = DOCUMENTS.iter().map(PathBuf::from).collect();
    for entry in entries {
        documents.push(Path::new(DOCS).join(entry?.file_name()));
    }
    Ok(documents)
}

/// Equal content results in an equal archive: names in order, no owner, no time.
fn pack(work: &Path, name: &str, archive: &Path, level: &str) -> Result<()> {
    let unfinished = work.join("unfinished");
    let mut tar =
        command("tar", ["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mtime=@0", "--mode=u=rwX,go=rX", "--file"]).arg(&unfinished);
    tar.arg("--directory").arg(work).arg(name);
    step("packing", || process::run_quietly(tar.env("GZIP", format!("-n {level}"))))?;
    fs::rename(&unfinished, archive).with_context(|| format!("failed to place {}", archive.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("failed to copy {} to {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_an_archive_link_only_to_files_in_it() {
        let folder = workspace::target().join("dist").join(format!("xtask-documents-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let added = add_documents(&folder);
        let outcomes = folder.join("crates/agents/outcomes.md").is_file();
        fs::remove_dir_all(&folder).unwrap();
        added.unwrap();
        assert!(outcomes);
    }

    #[test]
    fn archives_created_concurrently_are_complete() {
        let dist = workspace::target().join("dist");
        let name = format!("xtask-test-{}", std::process::id());
        let one = |number: u32| {
            let work = dist.join(format!("{name}-{number}"));
            fs::create_dir_all(work.join(&name)).unwrap();
            fs::write(work.join(&name).join("program"), vec![b'x'; 1 << 20]).unwrap();
            let archive = dist.join(format!("{name}.tar.gz"));
            pack(&work, &name, &archive, "-1").unwrap();
            let listed = process::output(command("tar", ["-tzvf"]).arg(&archive)).unwrap();
            fs::remove_dir_all(&work).unwrap();
            (archive, listed)
        };
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || one(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (archive, listed) in &made {
            assert!(archive == &made[0].0 && listed.contains("1048576"), "{listed}");
        }
        fs::remove_file(&made[0].0).unwrap();
    }
}
