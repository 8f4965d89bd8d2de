//! Building the workspace's programs with cargo.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{self, command};
use crate::workspace;

/// The selection of packages and features for all builds of tests and the programs that they start,
/// so that nothing is built twice.
///
/// With the feature, the command panics on request; shipped programs are built without it.
pub(crate) const FOR_TESTS: [&str; 3] = ["--workspace", "--features", "sandbox-cli/forced-panic"];

/// A `cargo` invocation in the workspace, with the cargo that runs us.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(program);
    cargo.current_dir(workspace::root()).args(args);
    without_our_variables(&mut cargo);
    cargo
}

/// Removes the variables that the cargo that runs us has set: they would reach build scripts, and
/// make cargo rebuild the results of a plain cargo.
pub(crate) fn without_our_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_PRIMARY_PACKAGE"]
            .iter()
            .any(|prefix| text.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
}

/// Builds, and returns the executables by target name. Diagnostics go to stderr as usual.
pub(crate) fn executables<'a>(args: impl IntoIterator<Item = &'a str>) -> Result<BTreeMap<String, PathBuf>> {
    executables_of(&mut cargo(args))
}

/// Like [`executables`], for any `cargo build`.
pub(crate) fn executables_of(cargo: &mut Command) -> Result<BTreeMap<String, PathBuf>> {
    cargo.arg("--message-format=json-render-diagnostics").stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = cargo.output().with_context(|| format!("failed to start {}", process::describe(cargo)))?;
    // Errors are on stderr; stdout has only machine-readable messages.
    if !output.status.success() {
        bail!("{} ended with {}", process::describe(cargo), output.status);
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    Ok(messages.lines().filter_map(|line| executable(&serde_json::from_str(line).ok()?)).collect())
}

/// The members of the workspace, from `cargo metadata`.
pub(crate) fn packages() -> Result<Vec<Value>> {
    let text = process::output(&mut cargo(["metadata", "--format-version=1", "--no-deps", "--offline"]))
        .or_else(|_| process::output(&mut cargo(["metadata", "--format-version=1", "--no-deps"])))?;
    let mut metadata: Value = serde_json::from_str(&text).context("cargo metadata printed no JSON")?;
    match metadata.get_mut("packages").map(Value::take) {
        Some(Value::Array(packages)) => Ok(packages),
        _ => bail!("cargo metadata lists no packages"),
    }
}

/// Builds one program of the workspace and returns its path. The features are those of the whole
/// workspace.
pub(crate) fn program(name: &str, profile: &[&str]) -> Result<PathBuf> {
    let args = ["build", "--workspace", "--bin", name].into_iter().chain(profile.iter().copied());
    executables(args)?.remove(name).with_context(|| format!("cargo built no program {name}"))
}

/// Like [`program`], built together with all tests: dependencies of tests select features too, so
/// that nothing is built again with other features.
pub(crate) fn program_for_tests(name: &str) -> Result<PathBuf> {
    let args = ["build", "--bins", "--tests", "--examples"].into_iter().chain(FOR_TESTS);
    executables(args)?.remove(name).with_context(|| format!("cargo built no program {name}"))
}

/// Builds one program so that it runs in an empty container, and puts it at `destination`.
///
/// The explicit target separates these objects from those of ordinary builds: neither invalidates
/// the other.
pub(crate) fn static_program(package: &str, name: &str, profile: &[&str], destination: &Path) -> Result<()> {
    install(&build_static(&mut cargo(["build"]), &[], package, name, profile)?, destination)
}

/// Builds one static program with `cargo`; returns its content.
pub(crate) fn build_static(
    cargo: &mut Command,
    flags: &[String],
    package: &str,
    name: &str,
    profile: &[&str],
) -> Result<Vec<u8>> {
    let target = static_target()?;
    let all = ["-C", "target-feature=+crt-static"].into_iter().chain(flags.iter().map(String::as_str));
    cargo
        .args(["--package", package, "--bin", name, "--target", &target])
        .args(profile)
        // With an explicit target the flags do not apply to build scripts.
        .env("CARGO_ENCODED_RUSTFLAGS", all.collect::<Vec<_>>().join("\u{1f}"));
    let built = executables_of(cargo)?
        .remove(name)
        .with_context(|| format!("cargo built no program {name} of {package}"))?;
    let bytes = fs::read(&built).with_context(|| format!("failed to read {}", built.display()))?;
    if asks_for_a_loader(&bytes) {
        bail!("{} is not static: it requires a dynamic loader", built.display());
    }
    Ok(bytes)
}

/// The target for static programs: musl where the toolchain and a C compiler for it are installed,
/// else glibc.
pub(crate) fn static_target() -> Result<String> {
    let host = host_target()?;
    let architecture = host.split('-').next().unwrap_or_default();
    let musl = format!("{architecture}-unknown-linux-musl");
    let sysroot = process::output(command("rustc", ["--print", "sysroot"]).current_dir(workspace::root()))?;
    let installed = Path::new(sysroot.trim()).join("lib/rustlib").join(&musl).join("lib").is_dir();
    if installed && process::find_program("musl-gcc").is_some() {
        return Ok(musl);
    }
    Ok(format!("{architecture}-unknown-linux-gnu"))
}

/// The target that this toolchain builds for by default.
pub(crate) fn host_target() -> Result<String> {
    let text = process::output(command("rustc", ["-vV"]).current_dir(workspace::root()))?;
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc names no host")
}

fn executable(message: &Value) -> Option<(String, PathBuf)> {
    if message.pointer("/profile/test").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let path = message.get("executable")?.as_str()?;
    let name = message.pointer("/target/name")?.as_str()?;
    Some((name.to_owned(), PathBuf::from(path)))
}

/// An ELF program that the kernel starts through a loader has a segment of type `PT_INTERP`.
fn asks_for_a_loader(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, width: usize| -> Option<usize> {
        let bytes = elf.get(at..at + width)?;
        bytes
            .iter()
            .rev()
            .try_fold(0_usize, |sum, byte| sum.checked_mul(256)?.checked_add(usize::from(*byte)))
    };
    let (Some(table), Some(size), Some(count)) = (number(0x20, 8), number(0x36, 2), number(0x38, 2)) else {
        return true;
    };
    (0..count).any(|index| number(table + index * size, 4) == Some(PT_INTERP as usize))
}

/// Replaces the file in one step. An equal file keeps its time, so that files derived from it stay
/// fresh.
pub(crate) fn install(bytes: &[u8], destination: &Path) -> Result<()> {
    if fs::read(destination).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let parent = destination.parent().context("the destination has no folder")?;
    fs::create_dir_all(parent).with_context(|| format!("failed to create {}", parent.display()))?;
    // Another task may be installing the same file.
    let unfinished = destination.with_extension(format!("unfinished-{}", std::process::id()));
    fs::write(&unfinished, bytes).with_context(|| format!("failed to write {}", unfinished.display()))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&unfinished, mode)?;
    fs::rename(&unfinished, destination).with_context(|| format!("failed to place {}", destination.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_program_is_distinguished_from_a_static_one() {
        let dynamic = fs::read("/proc/self/exe").unwrap();
        assert!(asks_for_a_loader(&dynamic));
        let mut header = vec![0; 0x40];
        header.extend([1, 0, 0, 0]); // one segment, PT_LOAD
        for (at, value) in [(0x20, 0x40), (0x36, 0x38), (0x38, 1)] {
            header[at] = value;
        }
        assert!(!asks_for_a_loader(&header));
        header[0x40] = 3;
        assert!(asks_for_a_loader(&header));
        assert!(asks_for_a_loader(b"#!/bin/sh"), "a file that is not a program is not a static program");
    }

    #[test]
    fn executables_are_found_among_cargo_messages() {
        let message =
            serde_json::json!({"reason": "compiler-artifact", "target": {"name": "x"}, "executable": "/t/x"});
        assert_eq!(executable(&message), Some(("x".into(), "/t/x".into())));
        let test =
            serde_json::json!({"target": {"name": "x"}, "executable": "/t/x-1", "profile": {"test": true}});
        assert_eq!(executable(&test), None, "the tests of a program have the same name");
        assert_eq!(executable(&serde_json::json!({"target": {"name": "x"}, "executable": null})), None);
    }
}
