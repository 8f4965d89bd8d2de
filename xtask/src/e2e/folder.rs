//! The folder of one run of the end-to-end tests, with everything that they create on the host, and
//! the removal of their objects on the engine.
//!
//! The folder is new for each run, so that no file of an earlier run can hide an error. It is
//! removed at the end with every process, container and network that was created from it. If a run
//! is killed, the next run of the checkout on the engine removes all of that.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::engine::Socket;
use crate::process::{self, command};
use crate::workspace;

/// The variable that names the folder to the tests, and identifies their processes.
const VARIABLE: &str = "SANDBOX_E2E_FOLDER";

/// A folder that belongs to this process.
pub(crate) struct RunFolder<'a> {
    path: PathBuf,
    socket: &'a Socket,
    /// Only held: the lock that allows one run at a time on an engine.
    _owner: File,
}

impl<'a> RunFolder<'a> {
    /// Waits until no other run of this checkout uses `engine`, and removes the folders and objects
    /// of killed ones.
    pub(crate) fn create(engine: &str, socket: &'a Socket) -> Result<Self> {
        let lock = workspace::state().join(format!("{engine}.tests"));
        let owner = File::create(&lock).with_context(|| format!("failed to create {}", lock.display()))?;
        owner.lock().with_context(|| format!("failed to lock {}", lock.display()))?;
        let prefix = format!("sandbox-e2e-{}-{engine}-", workspace::tag());
        // It contains sockets, whose paths must be short.
        let parent = std::env::temp_dir();
        remove_with(&parent.join(&prefix), socket)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = parent.join(format!("{prefix}{:08x}", now & 0xffff_ffff));
        for folder in [&path, &path.join("tmp")] {
            let created = DirBuilder::new().mode(0o755).create(folder);
            created.with_context(|| format!("failed to create {}", folder.display()))?;
        }
        Ok(Self { path, socket, _owner: owner })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The variables that keep the tests in the folder.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [(VARIABLE, self.path.clone()), ("TMPDIR", self.path.join("tmp"))]
    }

    /// Removes the folder and everything that was created from it.
    pub(crate) fn remove(self) -> Result<()> {
        remove_with(&self.path, self.socket)
    }
}

/// Removes all folders whose paths begin with `prefix`, and everything that was created from them.
fn remove_with(prefix: &Path, socket: &Socket) -> Result<()> {
    let is_ours = |path: &[u8]| path.starts_with(prefix.as_os_str().as_encoded_bytes());
    end_processes(is_ours);
    remove_objects(socket, is_ours)?;
    let entries =
        fs::read_dir(prefix.parent().unwrap_or(prefix)).context("failed to list temporary files")?;
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    folders
        .filter(|path| is_ours(path.as_os_str().as_encoded_bytes()))
        .try_for_each(|path| remove_folder(&path))
}

/// Kills the remaining processes of the tests; repeatedly, since they may be starting others.
fn end_processes(is_ours: impl Fn(&[u8]) -> bool) {
    for _ in 0..5 {
        let processes = processes(&is_ours);
        if processes.is_empty() {
            return;
        }
        // It is not an error if one has ended by itself meanwhile.
        drop(process::run_quietly(command("kill", ["-KILL"]).args(&processes)));
    }
}

fn processes(is_ours: impl Fn(&[u8]) -> bool) -> Vec<String> {
    let mark = format!("{VARIABLE}=");
    let is_marked = |environment: &[u8]| {
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable.strip_prefix(mark.as_bytes()).is_some_and(&is_ours))
    };
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.parse::<u32>().is_ok_and(|pid| pid != std::process::id()))
        .filter(|name| fs::read(format!("/proc/{name}/environ")).is_ok_and(|text| is_marked(&text)))
        .collect()
}

/// Removes the containers and networks whose instance's lock file `is_ours`.
fn remove_objects(socket: &Socket, is_ours: impl Fn(&[u8]) -> bool) -> Result<()> {
    const FILTER: &str = "filters=%7B%22label%22%3A%5B%22sandbox.owner%22%5D%7D";
    let lists = [
        (format!("containers/json?all=true&{FILTER}"), "containers", "Id", "Labels"),
        (format!("networks/json?{FILTER}"), "networks", "name", "labels"),
    ];
    for (list, kind, id, labels) in lists {
        let answer = socket.request("GET", &format!("/v4.0.0/libpod/{list}"))?.ok()?;
        let objects: Value = serde_json::from_str(&answer).context("the engine's list is not JSON")?;
        for object in objects.as_array().into_iter().flatten() {
            let lock = object.get(labels).and_then(|labels| labels.get("sandbox.lock")?.as_str());
            let id = object.get(id).and_then(Value::as_str).unwrap_or_default();
            if lock.is_some_and(|lock| is_ours(lock.as_bytes())) {
                let target = format!("/v4.0.0/libpod/{kind}/{id}?force=true&timeout=0");
                // It is not an error if one has disappeared by itself meanwhile.
                drop(socket.request("DELETE", &target));
            }
        }
    }
    Ok(())
}

/// Removes the folder of a run. Mounts of a killed run in it are unmounted first: files behind a
/// mount must not be removed.
fn remove_folder(folder: &Path) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("failed to read our mounts")?;
    let mounts = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut inside: Vec<&str> = mounts.filter(|path| Path::new(path).starts_with(folder)).collect();
    inside.reverse();
    for mount in inside {
        process::run_quietly(&mut command("umount", ["--lazy", mount]))?;
    }
    fs::remove_dir_all(folder).with_context(|| format!("failed to remove {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn process_of_a_run_is_killed_and_another_is_not() {
        let folder = std::env::temp_dir().join(format!("xtask-run-{}", std::process::id()));
        // The environment of a process is not readable during exec: each prints a line afterwards.
        let started = |folder: &Path| {
            let mut child = command("sh", ["-c", "echo; read -r line; echo \"$line\""])
                .env(VARIABLE, folder)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            child
        };
        let mut child = started(&folder.join("0"));
        let mut other = started(Path::new("/elsewhere"));
        end_processes(|path| path.starts_with(folder.as_os_str().as_encoded_bytes()));
        assert!(!child.wait().unwrap().success());
        other.stdin.take().unwrap().write_all(b"here\n").unwrap();
        let mut printed = String::new();
        other.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        assert!(other.wait().unwrap().success() && printed == "here\n");
    }
}
