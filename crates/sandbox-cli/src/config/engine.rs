//! Finds the engine's socket.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use sandbox::EngineAddress;
use sandbox_files::{FileLock, create_folder, or_absent};

use super::Environment;
use crate::failure::{Failure, START_ENGINE};
use crate::printer::{Printer, sanitize_name};

/// Where distributions and administrators install podman. `PATH` is not used, because a task could
/// have written a program there.
const PODMAN: [&str; 2] = ["/usr/bin/podman", "/usr/local/bin/podman"];
/// The idle time in seconds after which a service started by this program ends. A run keeps
/// requests open until it ends.
const IDLE: u64 = 600;
/// The maximum time for its start, with its storage on a slow disk.
const STARTING: Duration = Duration::from_secs(30);
/// The folder of containers' state in that for sockets. Podman takes at most 50 characters for its path.
const RUNROOT: &str = "c";
/// Seconds for one call of podman's command line.
const DEADLINE: &str = "60";
/// The variables that podman gets: no credentials.
const VARIABLES: [&str; 8] = [
    "HOME",
    "PATH",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
];

/// The engine and its source: the flag, the file, otherwise the library's search.
pub(crate) fn find_engine(
    flag: Option<&EngineAddress>,
    file: Option<&EngineAddress>,
    environment: &Environment,
    is_there: impl Fn(&Path) -> bool,
) -> Result<(EngineAddress, String), Failure> {
    if let Some(address) = flag {
        return Ok((address.clone(), "--engine".to_owned()));
    }
    if let Some(address) = file {
        return Ok((address.clone(), "the configuration".to_owned()));
    }
    let variable = |name: &str| environment.exact(name).map(OsStr::to_owned);
    let found = EngineAddress::discover_in(variable, is_there);
    found.map_err(|error| Failure::new(error.to_string()).with_hint(START_ENGINE))
}

/// The podman service that an earlier command of this user started, otherwise a new one. `None` if
/// podman is not installed, the user has no folder for a socket, or `CONTAINER_HOST` names another
/// engine.
pub(crate) fn own_service(
    environment: &Environment,
    printer: Printer,
) -> Result<Option<EngineAddress>, Failure> {
    let is_named = environment.exact("CONTAINER_HOST").is_some_and(|value| !value.is_empty());
    let (Some(folder), Some(podman), false) = (runtime_folder(environment), installed(), is_named) else {
        return Ok(None);
    };
    let mut service = service_in(&folder, &mut command(podman, environment))?;
    // It stays for later commands.
    if service.process.take().is_some() {
        printer.message(format_args!(
            "engine: started podman's service, which ends after {} minutes without use; `systemctl --user enable --now podman.socket` has \
             one always (as root without --user)",
            IDLE / 60
        ));
    }
    Ok(Some(service.address.clone()))
}

fn installed() -> Option<&'static Path> {
    PODMAN.iter().map(Path::new).find(|path| path.exists())
}

/// Podman with the variables that it gets.
#[expect(clippy::disallowed_methods, reason = "there is no socket yet to drive the engine through")]
fn command(podman: &Path, environment: &Environment) -> Command {
    let mut command = Command::new(podman);
    command.env_clear().envs(VARIABLES.iter().filter_map(|name| Some((name, environment.exact(name)?))));
    command
}

/// A podman service, and its process if this program started it: that ends with this value.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) address: EngineAddress,
    process: Option<Child>,
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            end(process);
        }
    }
}

/// Ends podman, which without root is two processes.
fn end(process: &mut Child) {
    let _ = kill_process_group(Pid::from_child(process), Signal::KILL);
    let _ = process.wait();
}

/// Podman with storage of its own, in namespaces of its own.
#[derive(Debug)]
pub(crate) struct Podman {
    storage: PathBuf,
    /// Its folder for sockets, in memory.
    run: PathBuf,
    /// Storage with further images, which it only reads.
    images: Option<PathBuf>,
    environment: Environment,
}

impl Podman {
    pub(crate) fn new(
        storage: PathBuf,
        run: PathBuf,
        images: Option<PathBuf>,
        environment: &Environment,
    ) -> Self {
        let environment = environment.with("XDG_RUNTIME_DIR", &run);
        Self { storage, run, images, environment }
    }

    /// Starts its service.
    pub(crate) fn serve(&self) -> Result<Service, Failure> {
        for folder in [&self.storage, &self.run] {
            let failed = Failure::doing(format!("create `{}`", folder.display()));
            create_folder(folder, 0o700).map_err(failed)?;
        }
        service_in(&self.run.join("service"), &mut self.command()?)
    }

    /// Ends its containers, and removes its storage.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        if self.storage.exists() {
            create_folder(&self.run, 0o700)
                .map_err(Failure::doing(format!("create `{}`", self.run.display())))?;
            self.call(&["rm", "--all", "--force", "--time=0"], None)?;
            // It has files of the user's subordinate ids. A mount in it stays until the namespaces end; if
            // more does, the removal below fails.
            let _ = self.call(&["unshare", "rm", "-rf"], Some(&self.storage));
            // This creates the storage again.
            self.end_namespaces()?;
        }
        for folder in [&self.storage, &self.run] {
            let failed = Failure::doing(format!("remove `{}`", folder.display()));
            or_absent(fs::remove_dir_all(folder)).map_err(failed)?;
        }
        Ok(())
    }

    /// Ends the process that keeps its namespaces, and removes its sockets.
    pub(crate) fn end_namespaces(&self) -> Result<(), Failure> {
        self.call(&["system", "migrate"], None)?;
        or_absent(fs::remove_dir_all(&self.run))
            .map_err(Failure::doing(format!("remove `{}`", self.run.display())))
    }

    fn call(&self, arguments: &[&str], path: Option<&Path>) -> Result<(), Failure> {
        let shown = format!("run `podman {}`", arguments.join(" "));
        let podman = self.command()?;
        let mut called = command(Path::new("timeout"), &self.environment);
        called.args(["--kill-after=5", DEADLINE]).arg(podman.get_program()).args(podman.get_args());
        let called = called.args(arguments).args(path).stdin(Stdio::null()).output();
        let output = called.map_err(Failure::doing(&shown))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        Err(Failure::new(format!("failed to {shown}: {}", sanitize_name(message.trim()))))
    }

    fn command(&self) -> Result<Command, Failure> {
        let Some(podman) = installed() else {
            return Err(Failure::new(format!(
                "podman is not installed: there is no {}",
                PODMAN.join(" or ")
            )));
        };
        let mut command = command(podman, &self.environment);
        command.arg("--root").arg(&self.storage).arg("--runroot").arg(self.run.join(RUNROOT));
        command.args(["--storage-driver=overlay", "--cgroup-manager=cgroupfs"]);
        if let Some(images) = &self.images {
            command.arg("--storage-opt").arg(format!("overlay.imagestore={}", images.display()));
        }
        Ok(command)
    }
}

/// The folder for this user's sockets until the next boot.
fn runtime_folder(environment: &Environment) -> Option<PathBuf> {
    let of_user = environment.path("XDG_RUNTIME_DIR").filter(|path| path.is_absolute());
    of_user
        .or_else(|| geteuid().is_root().then(|| PathBuf::from("/run")))
        .map(|folder| folder.join("sandbox"))
}

/// The service with its socket in `folder`, which `podman` starts unless it answers.
fn service_in(folder: &Path, podman: &mut Command) -> Result<Service, Failure> {
    let failed = || Failure::doing(format!("start podman's service in `{}`", folder.display()));
    let address = EngineAddress::unix(folder.join("podman.sock"));
    create_folder(folder, 0o700).map_err(failed())?;
    // Only one of concurrent commands starts it.
    let _lock = FileLock::exclusive_blocking(&folder.join("lock")).map_err(failed())?;
    if answers(&address) {
        return Ok(Service { address, process: None });
    }
    let log = folder.join("podman.log");
    let output = File::create(&log).map_err(failed())?;
    podman
        .args(["system", "service", "--time", &IDLE.to_string(), &address.to_string()])
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(failed())?)
        .stderr(output)
        // Ctrl-C in the terminal must not end it.
        .process_group(0);
    let mut process = podman.spawn().map_err(failed())?;
    if !await_answer(&address, &mut process) {
        let mut messages = String::new();
        // Its output is only a part of the message.
        let _ = File::open(&log).and_then(|file| file.take(2000).read_to_string(&mut messages));
        let message = format!("failed to start podman's service: {}", messages.trim());
        return Err(Failure::new(message).with_hint(START_ENGINE));
    }
    Ok(Service { address, process: Some(process) })
}

fn answers(address: &EngineAddress) -> bool {
    UnixStream::connect(address.socket()).is_ok()
}

/// Whether the service answers before it ends.
fn await_answer(address: &EngineAddress, child: &mut Child) -> bool {
    let deadline = Instant::now() + STARTING;
    while Instant::now() < deadline {
        if answers(address) {
            return true;
        }
        if !matches!(child.try_wait(), Ok(None)) {
            return false;
        }
        // tidy: sleep: nothing tells when another program listens
        thread::sleep(Duration::from_millis(20));
    }
    // It is useless, and may hang.
    end(child);
    false
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A script that replaces podman.
    fn podman(folder: &Path, script: &str) -> PathBuf {
        let path = folder.join("podman");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn service_start_failure_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let podman = podman(folder.path(), "echo \"no $SECRET subuids\" >&2; exit 125");
        let environment = Environment::from([("SECRET", "key"), ("PATH", "/usr/bin:/bin")]);
        let run = folder.path().join("run");
        let failed = service_in(&run, &mut command(&podman, &environment)).unwrap_err();
        assert!(failed.to_string().ends_with("start podman's service: no  subuids"), "{failed:?}");
    }

    #[test]
    fn running_service_is_reused() {
        let folder = tempfile::tempdir().unwrap();
        let (run, count) = (folder.path().join("run"), folder.path().join("count"));
        let podman = podman(folder.path(), &format!("echo >> '{}'", count.display()));
        let start = || service_in(&run, &mut command(&podman, &Environment::default()));
        assert!(start().is_err(), "the control: it listens to nothing");
        let _listener = UnixListener::bind(run.join("podman.sock")).unwrap();
        assert_eq!(start().unwrap().address.socket(), run.join("podman.sock"));
        assert_eq!(fs::read_to_string(count).unwrap(), "\n");
    }

    #[test]
    fn flag_overrides_file_and_file_overrides_environment() {
        let environment = Environment::from([("CONTAINER_HOST", "unix:///environment.sock")]);
        let parse = |text: &str| text.parse::<EngineAddress>().unwrap();
        let (flag, file) = (parse("/flag.sock"), parse("/file.sock"));
        for (flag, file, expected) in [
            (Some(&flag), Some(&file), "/flag.sock"),
            (None, Some(&file), "/file.sock"),
            (None, None, "/environment.sock"),
        ] {
            let (address, _) = find_engine(flag, file, &environment, |_| false).unwrap();
            assert_eq!(address.socket(), Path::new(expected));
        }
    }
}
