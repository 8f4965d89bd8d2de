//! One run of a test program: a folder that holds all that its tests make on the host, and what they leave on the engine.
//!
//! The folder is new for each run, so that nothing an earlier one left can hide a fault. It goes at the end with every container and
//! network that was made from it. A run that was killed leaves all of that; the next run on the engine removes it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::engine::Socket;
use crate::process::{self, command};
use crate::report::say;
use crate::workspace;

/// What names the folder to the tests, and identifies their processes.
pub(crate) const VARIABLE: &str = "SANDBOX_E2E_FOLDER";
/// The names of all such folders begin with it.
const PREFIX: &str = "sandbox-e2e-run-";
/// The file that a run holds a lock on, in its folder.
const OWNER: &str = "owner";

/// A folder that belongs to this process until [`TestRun::end`], or until the process ends in any way.
pub(crate) struct TestRun<'a> {
    folder: PathBuf,
    socket: &'a Socket,
    /// Never read: the lock goes with it.
    _owner: File,
}

impl<'a> TestRun<'a> {
    /// Makes the folder, and removes what runs that were killed have left on this machine and on the engine.
    pub(crate) fn begin(socket: &'a Socket) -> Result<Self> {
        remove_dead(&std::env::temp_dir(), socket)?;
        Self::make(&std::env::temp_dir(), socket)
    }

    fn make(parent: &Path, socket: &'a Socket) -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let seed = format!("{} {now}", std::process::id());
        let tag = workspace::fingerprint(seed.as_bytes()) & 0xffff_ffff;
        let folder = parent.join(format!("{PREFIX}{tag:08x}"));
        // Under another name until its lock is held: what has no lock counts as dead.
        let fresh = parent.join(format!("sandbox-e2e-new-{tag:08x}"));
        let make = |path: &Path| fs::DirBuilder::new().mode(0o755).create(path);
        let owner = make(&fresh)
            .and_then(|()| make(&fresh.join("tmp")))
            .and_then(|()| File::create(fresh.join(OWNER)))
            .with_context(|| format!("cannot make {}", fresh.display()))?;
        owner.try_lock().context("cannot lock a file of our own")?;
        fs::rename(&fresh, &folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder, socket, _owner: owner })
    }

    /// The variables that keep the tests in the folder.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [(VARIABLE, self.folder.clone()), ("TMPDIR", self.folder.join("tmp"))]
    }

    /// Removes the folder and all that was made from it.
    pub(crate) fn end(self) -> Result<()> {
        end_processes(&self.folder);
        remove_objects(self.socket, |lock| lock.starts_with(&self.folder))?;
        remove_folder(&self.folder)
    }
}

/// Removes what dead runs have left in `parent` and on the engine. The folder of one that ran on another engine goes as well; its objects
/// are found by the next run there, because their folder is gone.
fn remove_dead(parent: &Path, socket: &Socket) -> Result<()> {
    let entries = fs::read_dir(parent).with_context(|| format!("cannot read {}", parent.display()))?;
    let folders: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_run(parent, path) && is_dead(path))
        .collect();
    for folder in &folders {
        end_processes(folder);
    }
    remove_objects(socket, |lock| {
        let mut folders = lock.ancestors().filter(|path| is_run(parent, path));
        folders.any(is_dead)
    })?;
    for folder in &folders {
        say(format!("removing {}, which a killed run left", folder.display()));
        remove_folder(folder)?;
    }
    Ok(())
}

fn is_run(parent: &Path, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.parent() == Some(parent) && name.starts_with(PREFIX)
}

/// Whether the folder's lock is free. One that cannot be judged counts as alive.
fn is_dead(folder: &Path) -> bool {
    match File::open(folder.join(OWNER)) {
        Ok(owner) => !matches!(owner.try_lock(), Err(TryLockError::WouldBlock | TryLockError::Error(_))),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Ends what the tests started and left behind; some of it may be starting more.
fn end_processes(folder: &Path) {
    for _ in 0..5 {
        let processes = processes(folder);
        if processes.is_empty() {
            return;
        }
        // One that has ended by itself meanwhile is not a fault.
        drop(process::run_quietly(command("kill", ["-KILL"]).args(&processes)));
    }
}

fn processes(folder: &Path) -> Vec<String> {
    let mark = [VARIABLE.as_bytes(), b"=", folder.as_os_str().as_encoded_bytes()].concat();
    let has_mark = |environment: &[u8]| environment.split(|byte| *byte == 0).any(|variable| variable == mark);
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.parse::<u32>().is_ok_and(|pid| pid != std::process::id()))
        .filter(|name| {
            fs::read(format!("/proc/{name}/environ")).is_ok_and(|environment| has_mark(&environment))
        })
        .collect()
}

/// Removes the containers and networks whose instance's lock file `is_ours`.
fn remove_objects(socket: &Socket, is_ours: impl Fn(&Path) -> bool) -> Result<()> {
    const FILTER: &str = "filters=%7B%22label%22%3A%5B%22sandbox.owner%22%5D%7D";
    let lists = [
        (format!("containers/json?all=true&{FILTER}"), "containers", "Id", "Labels"),
        (format!("networks/json?{FILTER}"), "networks", "name", "labels"),
    ];
    for (list, kind, id, labels) in lists {
        let answer = socket.request("GET", &format!("/v4.0.0/libpod/{list}"))?.ok()?;
        let objects: Value = serde_json::from_str(&answer).context("the engine's list is no JSON")?;
        for object in objects.as_array().into_iter().flatten() {
            let lock = object.get(labels).and_then(|labels| labels.get("sandbox.lock")?.as_str());
            let id = object.get(id).and_then(Value::as_str).unwrap_or_default();
            if lock.is_some_and(|lock| is_ours(Path::new(lock))) {
                let target = format!("/v4.0.0/libpod/{kind}/{id}?force=true&timeout=0");
                // What goes by itself meanwhile is not a fault.
                drop(socket.request("DELETE", &target));
            }
        }
    }
    Ok(())
}

/// What a killed run had mounted in its folder goes first: nothing behind a mount may be removed.
fn remove_folder(folder: &Path) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("cannot read our mounts")?;
    let mounts = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut inside: Vec<&str> = mounts.filter(|path| Path::new(path).starts_with(folder)).collect();
    inside.reverse();
    for mount in inside {
        process::run_quietly(&mut command("umount", ["--lazy", mount]))?;
    }
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// A folder of the test's own; the tasks have no crate for that.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// An engine with one container and one network for each of `locks`; gives what it was asked to remove.
    fn engine(folder: &Path, locks: &[PathBuf]) -> (Socket, thread::JoinHandle<Vec<String>>) {
        let path = folder.join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let list = |id: &str, labels: &str| {
            let objects: Vec<Value> = locks
                .iter()
                .enumerate()
                .map(|(number, lock)| serde_json::json!({id: format!("{number}"), labels: {"sandbox.lock": lock}}))
                .collect();
            Value::from(objects).to_string()
        };
        let (containers, networks) = (list("Id", "Labels"), list("name", "labels"));
        let serving = thread::spawn(move || {
            let mut removed = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut line = String::new();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                reader.read_line(&mut line).unwrap();
                let body = match line.split(' ').collect::<Vec<_>>().as_slice() {
                    ["GET", "/end", ..] => return removed,
                    ["GET", target, ..] if target.contains("/containers/") => containers.as_str(),
                    ["GET", ..] => networks.as_str(),
                    [_, target, ..] => {
                        removed.push(
                            target.split(['?', '/']).rev().skip(1).take(2).collect::<Vec<_>>().join(" of "),
                        );
                        ""
                    }
                    _ => "",
                };
                write!(stream, "HTTP/1.0 200 OK\r\n\r\n{body}").unwrap();
            }
            removed
        });
        (Socket::new(path), serving)
    }

    fn removed(socket: &Socket, serving: thread::JoinHandle<Vec<String>>) -> Vec<String> {
        drop(socket.request("GET", "/end"));
        serving.join().unwrap()
    }

    #[test]
    fn a_run_takes_what_was_made_from_its_folder_along() {
        let parent = Folder::new("run-end");
        let (probe, _) = engine(&parent.0, &[]);
        let run = TestRun::make(&parent.0, &probe).unwrap();
        fs::remove_file(parent.0.join("engine.sock")).unwrap();
        let lock = run.folder.join("state/instances/0.lock");
        let (socket, serving) = engine(&parent.0, &[lock, "/elsewhere/0.lock".into()]);
        let (_, folder) = &run.environment()[0];
        let mut child = command("sh", ["-c", "echo; exec sleep 600"])
            .env(VARIABLE, folder)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The kernel shows what a process is called with some time after its start.
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let mut other = command("cat", [] as [&str; 0])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let folder = run.folder.clone();
        TestRun { socket: &socket, ..run }.end().unwrap();
        assert!(!folder.exists());
        assert_eq!(removed(&socket, serving), ["0 of containers", "0 of networks"]);
        assert!(!child.wait().unwrap().success(), "it was ended");
        // The control: a process that is not of the run lives.
        other.stdin.take().unwrap().write_all(b"here").unwrap();
        let mut said = String::new();
        other.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(other.wait().unwrap().success() && said == "here");
    }

    #[test]
    fn what_a_killed_run_left_goes_and_what_lives_stays() {
        let parent = Folder::new("run-dead");
        let dead = parent.0.join(format!("{PREFIX}0"));
        fs::create_dir_all(dead.join("state")).unwrap();
        fs::write(dead.join(OWNER), "").unwrap();
        let unrelated = parent.0.join("sandbox-other");
        fs::create_dir(&unrelated).unwrap();
        let nowhere = Socket::new("/no/such/socket");
        let alive = TestRun::make(&parent.0, &nowhere).unwrap();
        let gone = parent.0.join(format!("{PREFIX}1"));
        let locks = [&dead, &alive.folder, &gone, &unrelated].map(|folder| folder.join("instances/0.lock"));
        let (socket, serving) = engine(&parent.0, &locks);
        remove_dead(&parent.0, &socket).unwrap();
        assert!(!dead.exists() && unrelated.exists());
        assert!(alive.folder.join("tmp").is_dir());
        let expected = ["0 of containers", "2 of containers", "0 of networks", "2 of networks"];
        assert_eq!(removed(&socket, serving), expected);
    }
}
