//! What an archive is made of: the programs, their manual, completions and bill of materials, and the documents.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

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
    /// As the tests use them.
    Dev,
}

/// Files of the checkout that every archive holds, beside those in [`DOCS`].
const DOCUMENTS: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "crates/sandbox/outcomes.md",
];
/// The folder of documents that every archive holds whole.
const DOCS: &str = "docs";
const SHELLS: [(&str, &str); 3] = [("bash", "sandbox.bash"), ("zsh", "_sandbox"), ("fish", "sandbox.fish")];

/// The bill of materials, in the archive.
const SBOM: &str = "sandbox.cdx.json";

/// Makes the archive and gives its path.
pub(crate) fn make(build: Build) -> Result<PathBuf> {
    let (mark, level) = match build {
        Build::Release => ("", "-6"),
        Build::Dev => ("-dev", "-1"),
    };
    let sandbox = step("building the sandbox command", || match build {
        Build::Release => cargo::program("sandbox", &["--release"]),
        Build::Dev => cargo::program_for_tests("sandbox"),
    })?;
    let name = format!("sandbox-{}-{}{mark}", env!("CARGO_PKG_VERSION"), cargo::host_target()?);
    // Another `dist` may be at work: each has a folder of its own, and the last archive counts.
    let dist = folder(build);
    let work = dist.join(format!("work-{}", std::process::id()));
    let archive = dist.join(format!("{name}.tar.gz"));
    let packed = fill(&work.join(&name), &sandbox, build).and_then(|()| pack(&work, &name, &archive, level));
    let removed = fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()));
    packed.and(removed).map(|()| archive)
}

/// Apart from each other: people unpack `sandbox-*`.
fn folder(build: Build) -> PathBuf {
    match build {
        Build::Release => workspace::target().join("dist"),
        Build::Dev => workspace::state().join("dist"),
    }
}

fn fill(folder: &Path, sandbox: &Path, build: Build) -> Result<()> {
    for part in ["completions", "man"] {
        fs::create_dir_all(folder.join(part))?;
    }
    // Side by side: the sandbox looks for the others beside itself.
    copy(sandbox, &folder.join("sandbox"))?;
    match build {
        Build::Release => reproducible::build(&PROGRAMS, folder)?,
        Build::Dev => {
            // Most of a development build: packing it takes longer than building it.
            process::run_quietly(command("strip", ["--strip-debug"]).arg(folder.join("sandbox")))?;
            let proxy = task_proxy_image::build_for_tests()?;
            PROGRAMS.iter().try_for_each(|name| copy(&proxy.with_file_name(name), &folder.join(name)))?;
        }
    }
    let shipped: Vec<PathBuf> = ["sandbox"].iter().chain(&PROGRAMS).map(|name| folder.join(name)).collect();
    let sbom = serde_json::to_string_pretty(&sbom::document(&shipped)?)?;
    fs::write(folder.join(SBOM), sbom + "\n")?;
    add_documents(folder)?;
    for (shell, file) in SHELLS {
        let text = process::output(&mut command(sandbox, ["completions", shell]))?;
        fs::write(folder.join("completions").join(file), text)?;
    }
    process::run_quietly(command(sandbox, ["man"]).arg(folder.join("man")))
}

/// Their links have to lead to something in the archive: whoever reads them has no checkout.
fn add_documents(folder: &Path) -> Result<()> {
    for document in documents()? {
        let (from, to) = (workspace::root().join(&document), folder.join(&document));
        let parent = to.parent().unwrap_or(folder);
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        copy(&from, &to)?;
    }
    markdown::check_links(folder).context("the archive's documents are not whole")
}

/// By their paths in the checkout, which are those in the archive.
fn documents() -> Result<Vec<PathBuf>> {
    let folder = workspace::root().join(DOCS);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut documents: Vec<_> = DOCUMENTS.iter().map(PathBuf::from).collect();
    for entry in entries {
        documents.push(Path::new(DOCS).join(entry?.file_name()));
    }
    Ok(documents)
}

/// Equal content gives an equal archive: names in order, no owner, no time.
fn pack(work: &Path, name: &str, archive: &Path, level: &str) -> Result<()> {
    let unfinished = work.join("unfinished");
    let mut tar =
        command("tar", ["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mtime=@0", "--file"]).arg(&unfinished);
    tar.arg("--directory").arg(work).arg(name);
    step("packing", || process::run_quietly(tar.env("GZIP", format!("-n {level}"))))?;
    fs::rename(&unfinished, archive).with_context(|| format!("cannot place {}", archive.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_an_archive_link_to_nothing_outside_of_it() {
        let folder = workspace::target().join("dist").join(format!("xtask-documents-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let added = add_documents(&folder);
        let outcomes = folder.join("crates/sandbox/outcomes.md").is_file();
        fs::remove_dir_all(&folder).unwrap();
        added.unwrap();
        assert!(outcomes);
    }

    #[test]
    fn two_archives_made_at_once_are_both_whole() {
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
