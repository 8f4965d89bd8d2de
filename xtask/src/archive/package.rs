//! The packages for distributions. Equal content results in an equal package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::{self, Needed};
use crate::process::{self, command};
use crate::report::step;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const SUMMARY: &str = "Run AI agents and untrusted commands in containers that reach only what is allowed";
const DESCRIPTION: &str = "\
sandbox runs an AI coding agent, or any command, unattended in a podman
container that reaches only what an allowlist permits. Credentials stay on the
host, every request is on record, and sessions survive crashes.";
/// The oldest podman that is supported.
const PODMAN: &str = "4.3";

/// Creates the package for Debian and its derivatives, from the folder that becomes `/usr`.
pub(super) fn deb(usr: &Path, work: &Path) -> Result<PathBuf> {
    apt::ensure(&[Needed { program: "dpkg-deb", package: "dpkg" }])?;
    let root = work.join("deb");
    let control = root.join("DEBIAN");
    fs::create_dir_all(&control).with_context(|| format!("failed to create {}", control.display()))?;
    process::run_quietly(
        command("cp", ["--archive", "--reflink=auto", "--"]).arg(usr).arg(root.join("usr")),
    )?;
    // Debian's packages have their completions in another folder.
    let zsh = root.join("usr/share/zsh");
    fs::rename(zsh.join("site-functions"), zsh.join("vendor-completions"))?;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let libc = glibc(&fs::read(usr.join("bin/sandbox"))?);
    // Debian 12's netavark 1.4 needs iptables, Debian 13's 1.14 nftables, and neither package says so.
    let description = DESCRIPTION.replace('\n', "\n ");
    fs::write(
        control.join("control"),
        format!(
            "Package: sandbox\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: sandbox developers <sandbox@localhost>\n\
             Section: utils\nPriority: optional\nDepends: libc6 (>= {libc}), podman (>= {PODMAN}), netavark, nftables | netavark (<< 1.5), iptables | netavark (>= 1.14), catatonit\nConflicts: policycoreutils-sandbox\n\
             Recommends: git, uidmap\nDescription: {SUMMARY}\n {description}\n"
        ),
    )?;
    let package = work.join(format!("sandbox_{VERSION}_{architecture}.deb"));
    readable(&root)?;
    let mut pack = command("dpkg-deb", ["--root-owner-group", "-Zxz", "-z1", "--build"]);
    step("packing for Debian", || process::run_quietly(dated(pack.arg(&root).arg(&package))))?;
    Ok(package)
}

/// Creates the package for Fedora and its derivatives.
pub(super) fn rpm(usr: &Path, work: &Path) -> Result<PathBuf> {
    apt::ensure(&[Needed { program: "rpmbuild", package: "rpm" }])?;
    let top = work.join("rpm");
    fs::create_dir_all(&top).with_context(|| format!("failed to create {}", top.display()))?;
    readable(usr)?;
    // Folders that no other package uses are listed as a whole.
    let own = ["libexec/sandbox", "share/doc/sandbox"];
    let found = process::output(command("find", ["-type", "f", "-printf", "%P\n"]).current_dir(usr))?;
    let shared = found.lines().filter(|file| !own.iter().any(|folder| Path::new(file).starts_with(folder)));
    let mut files: Vec<String> = shared.chain(own).map(|file| format!("\"/usr/{file}\"")).collect();
    files.sort_unstable();
    let spec = top.join("sandbox.spec");
    // The files are final: rpmbuild must not strip, compress or link them.
    let text = format!(
        "Name: sandbox\nVersion: {VERSION}\nRelease: 1\nSummary: {SUMMARY}\nLicense: MIT OR Apache-2.0\n\
         Requires: podman >= {PODMAN}\nConflicts: policycoreutils-sandbox\n\
         %global debug_package %{{nil}}\n%global __os_install_post %{{nil}}\n%global _build_id_links none\n\
         %description\n{DESCRIPTION}\n\
         %install\nmkdir -p %{{buildroot}}\ncp -a '{}' %{{buildroot}}/usr\n\
         %files\n%defattr(-,root,root)\n{}\n",
        usr.display(),
        files.join("\n")
    );
    fs::write(&spec, text)?;
    let architecture = std::env::consts::ARCH;
    let mut rpmbuild = command("rpmbuild", ["-bb", "--target", architecture]);
    for (name, value) in [
        ("_topdir", top.display().to_string()),
        ("_rpmfilename", "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm".to_owned()),
        ("_buildhost", "localhost".to_owned()),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
    ] {
        rpmbuild.arg("--define").arg(format!("{name} {value}"));
    }
    step("packing for Fedora", || process::run_quietly(dated(rpmbuild.arg(&spec))))?;
    Ok(top.join("RPMS").join(format!("sandbox-{VERSION}-1.{architecture}.rpm")))
}

/// Makes the files readable for every user, independently of the umask.
fn readable(folder: &Path) -> Result<()> {
    process::run_quietly(command("chmod", ["--recursive", "u=rwX,go=rX"]).arg(folder))
}

/// Gives all files the same time.
fn dated(command: &mut Command) -> &mut Command {
    command.env("SOURCE_DATE_EPOCH", "1")
}

/// The highest version of the C library that a symbol of `program` requires.
fn glibc(program: &[u8]) -> String {
    let names = program.split(|byte| *byte == 0).filter_map(|name| name.strip_prefix(b"GLIBC_"));
    let versions = names.filter_map(|name| {
        let (major, minor) = std::str::from_utf8(name).ok()?.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    let (major, minor) = versions.max().unwrap_or_default();
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("bin/sandbox", "program\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_PRIVATE\0"),
            ("libexec/sandbox/sandbox-proxy", "proxy"),
            ("share/zsh/site-functions/_sandbox", "#compdef sandbox"),
            ("share/man/man1/sandbox.1", ".TH sandbox 1"),
            ("share/doc/sandbox/docs/git.md", "# Git"),
        ] {
            let file = folder.path().join("usr").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        folder
    }

    #[test]
    fn debian_package_is_reproducible_and_has_each_file_in_its_place() {
        let made = [folder(), folder()].map(|folder| {
            let package = deb(&folder.path().join("usr"), folder.path()).unwrap();
            let listed = process::output(command("dpkg-deb", ["--contents"]).arg(&package)).unwrap();
            for file in [
                "root/root",
                "./usr/bin/sandbox\n",
                "./usr/libexec/sandbox/sandbox-proxy\n",
                "./usr/share/man/man1/sandbox.1\n",
                "./usr/share/zsh/vendor-completions/_sandbox\n",
            ] {
                assert!(listed.contains(file), "{file}: {listed}");
            }
            let depends =
                process::output(command("dpkg-deb", ["--field"]).arg(&package).arg("Depends")).unwrap();
            assert!(depends.starts_with("libc6 (>= 2.34), podman (>= 4.3)"), "{depends}");
            fs::read(package).unwrap()
        });
        assert!(made[0] == made[1]);
    }

    #[test]
    fn fedora_package_is_reproducible_and_has_each_file_in_its_place() {
        let made = [folder(), folder()].map(|folder| {
            let package = rpm(&folder.path().join("usr"), folder.path()).unwrap();
            let mut query = command("rpm", ["--query", "--list", "--requires", "--package"]);
            let listed = process::output(query.arg(&package)).unwrap();
            for line in [
                "/usr/bin/sandbox\n",
                "/usr/libexec/sandbox\n",
                "/usr/share/doc/sandbox/docs\n",
                "/usr/share/man/man1/sandbox.1\n",
                "podman >= 4.3\n",
            ] {
                assert!(listed.contains(line), "{line}: {listed}");
            }
            fs::read(package).unwrap()
        });
        assert!(made[0] == made[1]);
    }
}
