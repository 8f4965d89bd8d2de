//! Runs programs, with errors that name the command.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A command with its arguments.
pub(crate) fn command<I, S>(program: impl AsRef<std::ffi::OsStr>, args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<std::ffi::OsStr>,
{
    let mut command = Command::new(program);
    command.args(args);
    command
}

/// Runs a command with its output on our stderr.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::from(io::stderr()))
        .status()
        .with_context(|| format!("failed to start {}", describe(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}

/// Runs a command; its output is only in the error of a failure.
pub(crate) fn run_quietly(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Runs a command and returns its stdout.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("failed to start {}", describe(command)))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}\n{stdout}{stderr}", describe(command), output.status);
    }
    Ok(stdout)
}

/// The command as a user would type it, shortened.
pub(crate) fn describe(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|w| w.to_string_lossy())
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(300) {
        Some((end, _)) => format!("`{}…`", line.get(..end).unwrap_or_default()),
        None => format!("`{line}`"),
    }
}

/// Finds a program on PATH and in system folders that are often not on a user's PATH.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    proc_status("Uid").is_some_and(|ids| ids.split_whitespace().next() == Some("0"))
}

/// One field of `/proc/self/status`.
pub(crate) fn proc_status(field: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_program_is_named_with_its_output() {
        let error = output(&mut command("sh", ["-c", "echo said >&2; exit 3"])).unwrap_err().to_string();
        assert!(
            error.contains("exit 3") && error.contains("said") && error.contains("exit status: 3"),
            "{error}"
        );
    }

    #[test]
    fn output_is_the_stdout_of_the_program() {
        assert_eq!(output(&mut command("echo", ["one", "two"])).unwrap(), "one two\n");
    }
}
