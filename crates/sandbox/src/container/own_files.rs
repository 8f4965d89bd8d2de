//! Files with a container's host name, hosts and name server.
//!
//! Podman writes such files itself. Its hosts file is derived from the host's (podman 4), and
//! always contains the host's address; its Docker-compatible API cannot disable that. All of them
//! are on the host's `/run` and are writable: root in a container could fill the host's memory
//! through them. So the sandbox's own files are mounted over them, read-only.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sandbox_files::{Replacement, create_folder, hex};
use sha2::{Digest as _, Sha256};

use crate::spec::{Isolation, Launch, Mount, Runtime, SYSTEM_FILE, system_file};

use super::ContainerError;

/// Podman's own file with facts about the container.
const ENGINES_FILE: &str = "/run/.containerenv";

/// How long a file is kept that no start uses: there is one for each subnet.
const UNUSED: Duration = Duration::from_hours(24);

/// The folder of these files, each named by its content: most containers share them.
#[derive(Debug)]
pub(crate) struct OwnFiles {
    folder: PathBuf,
}

impl OwnFiles {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { folder: state_dir.join("identity") }
    }

    /// The files of a launch with `resolver` as its `/etc/resolv.conf`; `None` leaves it to the
    /// engine. A mount of the caller replaces the sandbox's file.
    pub(crate) fn of(&self, launch: &Launch, resolver: Option<&str>) -> Result<Vec<Mount>, ContainerError> {
        let hostname = format!("{}\n", launch.isolation.hostname);
        let mut files = vec![(Launch::HOSTS_FILE, hosts(&launch.isolation)), ("/etc/hostname", hostname)];
        // gVisor masks nothing, so that this file would be writable there, too.
        if launch.isolation.runtime == Some(Runtime::Runsc) {
            files.push((ENGINES_FILE, String::new()));
        }
        files.extend(resolver.map(|text| ("/etc/resolv.conf", text.to_owned())));
        files.extend(system_file(&launch.git_identity).map(|text| (SYSTEM_FILE, text)));
        files
            .into_iter()
            .filter(|(target, _)| !launch.has_mount_at(target))
            .map(|(target, text)| Ok(Mount::read_only_at(self.write(&text)?, target)))
            .collect()
    }

    /// Removes the files that no start has used for a day: a running container keeps its own.
    pub(crate) fn remove_old(&self) -> io::Result<()> {
        let folder = match File::open(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        // No other process may refresh a file between the check and its removal.
        if folder.try_lock().is_err() {
            return Ok(());
        }
        for entry in fs::read_dir(&self.folder)?.filter_map(Result::ok) {
            let since = entry.metadata().and_then(|facts| facts.modified());
            if since.is_ok_and(|since| since.elapsed().is_ok_and(|age| age > UNUSED)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn write(&self, text: &str) -> Result<PathBuf, ContainerError> {
        let digest = Sha256::digest(text);
        let path = self.folder.join(hex(digest.first_chunk::<16>().map_or(&[], |bytes| bytes)));
        let written = || {
            create_folder(&self.folder, 0o755)?;
            // Held until the file is refreshed: see `remove_old`.
            let folder = File::open(&self.folder)?;
            folder.lock_shared()?;
            let is_there = || fs::read_to_string(&path).is_ok_and(|there| there == text);
            if !is_there() {
                // Only one start creates it: another that has checked the file already would find a
                // different one.
                folder.lock()?;
                if !is_there() {
                    // Every user of the container reads it.
                    return Replacement::shared(0o444).write(&path, text.as_bytes());
                }
            }
            File::open(&path)?.set_modified(SystemTime::now())
        };
        match written() {
            Ok(()) => Ok(path),
            Err(source) => Err(ContainerError::OwnFile { path, source }),
        }
    }
}

fn hosts(isolation: &Isolation) -> String {
    let mut text = format!("127.0.0.1 localhost {}\n", isolation.hostname);
    for entry in &isolation.hosts {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {}", entry.address, entry.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::spec::{CommandSpec, HostEntry, ImageTag};

    fn launch(isolation: Isolation) -> CommandSpec {
        let image: ImageTag = ImageTag::new("localhost/x:1");
        CommandSpec::new("c", image, ["true"]).isolation(isolation)
    }

    fn texts(files: &OwnFiles, spec: &CommandSpec, resolver: Option<&str>) -> Vec<(String, String)> {
        files
            .of(&spec.launch, resolver)
            .unwrap()
            .iter()
            .map(|mount| {
                assert!(mount.read_only());
                let text = fs::read_to_string(mount.host_path()).unwrap();
                (mount.container_path().to_owned(), text)
            })
            .collect()
    }

    #[test]
    fn files_contain_the_specified_names_and_nothing_of_the_host() {
        let state = tempfile::tempdir().unwrap();
        let files = OwnFiles::new(state.path());
        let isolation =
            Isolation { hosts: vec![HostEntry::new("db.test", [10, 0, 0, 7])], ..Isolation::agent() };
        let expected = [
            ("/etc/hosts", "127.0.0.1 localhost sandbox\n10.0.0.7 db.test\n"),
            ("/etc/hostname", "sandbox\n"),
            ("/etc/resolv.conf", "nameserver 10.199.0.2\n"),
        ]
        .map(|(path, text)| (path.to_owned(), text.to_owned()));
        let spec = launch(isolation);
        assert_eq!(texts(&files, &spec, Some("nameserver 10.199.0.2\n")), expected);
        assert_eq!(texts(&files, &spec, None), expected[..2]);
        let own = spec.mount(Mount::read_only_at("/srv/hosts", "/etc/hosts"));
        assert_eq!(texts(&files, &own, None), expected[1..2]);
        let gvisor = Isolation { runtime: Some(Runtime::Runsc), ..Isolation::agent() };
        let of_gvisor = texts(&files, &launch(gvisor), None);
        assert_eq!(of_gvisor.last(), Some(&("/run/.containerenv".to_owned(), String::new())));
    }

    #[test]
    fn file_unused_for_a_day_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let files = OwnFiles::new(state.path());
        files.remove_old().unwrap();
        let paths = ["a\n", "b\n", "c\n"].map(|text| files.write(text).unwrap());
        for path in &paths[..2] {
            let file = File::open(path).unwrap();
            file.set_modified(SystemTime::now() - 2 * UNUSED).unwrap();
        }
        files.write("b\n").unwrap();
        let busy = File::open(state.path().join("identity")).unwrap();
        busy.lock_shared().unwrap();
        files.remove_old().unwrap();
        assert!(paths.iter().all(|path| path.exists()), "a start holds the lock");
        drop(busy);
        files.remove_old().unwrap();
        assert_eq!(paths.map(|path| path.exists()), [false, true, true]);
    }

    #[test]
    fn concurrent_starts_create_one_file() {
        use std::os::unix::fs::MetadataExt as _;
        let state = tempfile::tempdir().unwrap();
        let files = OwnFiles::new(state.path());
        for round in 0..50 {
            let text = format!("{round}\n");
            let number = || fs::metadata(files.write(&text).unwrap()).unwrap().ino();
            let numbers: Vec<u64> = std::thread::scope(|scope| {
                let starts = [(); 4].map(|()| scope.spawn(number));
                starts.map(|start| start.join().unwrap()).into()
            });
            assert!(numbers.iter().all(|it| *it == numbers[0]), "{numbers:?}");
        }
    }

    #[test]
    fn tampered_file_is_rewritten() {
        let state = tempfile::tempdir().unwrap();
        let files = OwnFiles::new(state.path());
        let path = files.write("a\n").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o444);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "6.6.6.6 bank.example\n").unwrap();
        assert_eq!(files.write("a\n").unwrap(), path);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
