//! `dist`: an archive with the programs, their manual and completions.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::cargo;
use crate::process::{self, command};
use crate::report::step;
use crate::task_proxy_image::{self, SUPERVISOR};
use crate::workspace;

#[derive(Args)]
pub(crate) struct DistArgs {}

/// Files of the checkout that every archive holds.
const DOCUMENTS: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];
const SHELLS: [(&str, &str); 3] = [
    ("bash", "sandbox.bash"),
    ("zsh", "_sandbox"),
    ("fish", "sandbox.fish"),
];

/// Prints the archive's path.
pub(crate) fn run(_: &DistArgs) -> Result<()> {
    let proxy = task_proxy_image::build()?;
    let verify_probe = task_proxy_image::build_verify_probe()?;
    let sandbox = step("building the sandbox command", || {
        cargo::program("sandbox", &["--release"])
    })?;
    let name = format!("sandbox-{}-{}", env!("CARGO_PKG_VERSION"), cargo::host_target()?);
    let folder = workspace::target().join("dist").join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fill(&folder, &sandbox, &proxy)?;
    copy(&verify_probe, &folder.join("sandbox-verify-probe"))?;
    println!("{}", pack(&folder, &name)?.display());
    Ok(())
}

fn fill(folder: &Path, sandbox: &Path, proxy: &Path) -> Result<()> {
    fs::create_dir_all(folder.join("completions"))?;
    fs::create_dir_all(folder.join("man"))?;
    // Side by side: the sandbox looks for the others beside itself.
    copy(sandbox, &folder.join("sandbox"))?;
    copy(proxy, &folder.join("sandbox-proxy"))?;
    copy(&proxy.with_file_name(SUPERVISOR), &folder.join(SUPERVISOR))?;
    for document in DOCUMENTS {
        copy(&workspace::root().join(document), &folder.join(document))?;
    }
    for (shell, file) in SHELLS {
        let text = process::output(&mut command(sandbox, ["completions", shell]))?;
        fs::write(folder.join("completions").join(file), text)?;
    }
    process::run_quietly(command(sandbox, ["man"]).arg(folder.join("man")))
}

/// Equal content gives an equal archive: names in order, no owner, no time.
fn pack(folder: &Path, name: &str) -> Result<PathBuf> {
    let archive = folder.with_file_name(format!("{name}.tar.gz"));
    let mut tar = command(
        "tar",
        [
            "--create",
            "--gzip",
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
        ],
    );
    tar.args(["--mtime=@0", "--file"])
        .arg(&archive)
        .arg("--directory");
    tar.arg(folder.parent().context("the folder has no parent")?)
        .arg(name);
    step("packing", || process::run_quietly(tar.env("GZIP", "-n")))?;
    Ok(archive)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}
