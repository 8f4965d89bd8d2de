//! A podman service with separate storage, which later callers find again.
//!
//! Its state is in `target/xtask/NAME`; its socket is in a short folder in `/tmp`, since a socket's
//! path must be shorter than 108 bytes. A running service is reused; a dead one is cleaned up and
//! restarted.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum as _;

use super::http::{Socket, ping};
use super::launch::{self, Runtime, Separation, Storage};
use super::leftovers;
use super::ordinary_user;
use crate::apt::{self, Needed};
use crate::debian::Debian;
use crate::netns::{self, Pair};
use crate::process::{self, command};
use crate::report::{say, seconds};
use crate::workspace;

/// The engines that the project supports and tests: podman versions, each from the Debian release
/// that has it, run by root and by an ordinary user, gVisor, and storage with quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Podman {
    /// 4.3.1, from Debian 12.
    #[value(name = "4")]
    Four,
    /// 5.4.2, from Debian 13.
    #[value(name = "5")]
    Five,
    /// 4.3.1, without root.
    #[value(name = "4-rootless")]
    FourRootless,
    /// 5.4.2, without root.
    #[value(name = "5-rootless")]
    FiveRootless,
    /// 5.4.2, with gVisor as the runtime of all containers.
    #[value(name = "gvisor")]
    Gvisor,
    /// 5.4.2, with storage that supports quotas for the writes of a container.
    #[value(name = "quota")]
    Quota,
}

const PODMAN_FOUR: Debian = Debian {
    suite: "bookworm",
    packages: &[
        "podman",
        "crun",
        "netavark",
        "aardvark-dns",
        "catatonit",
        "iptables",
        "iproute2",
        "ca-certificates",
        "slirp4netns",
        "uidmap",
        "busybox-static",
        "git",
    ],
};
const PODMAN_FIVE: Debian = Debian {
    suite: "trixie",
    packages: &[
        "podman",
        "crun",
        "netavark",
        "aardvark-dns",
        "catatonit",
        "nftables",
        "iproute2",
        "ca-certificates",
        "passt",
        "uidmap",
        "busybox-static",
        "git",
        "runsc",
    ],
};

/// A device that the engine's host describes, which replaces a GPU in the tests.
const DESCRIBED_DEVICE: &str = r#"{"cdiVersion": "0.5.0", "kind": "sandbox.test/device", "devices": [
{"name": "zero", "containerEdits": {"deviceNodes": [{"path": "/dev/described", "hostPath": "/dev/zero"}]}}]}
"#;

impl Podman {
    /// The engine's name, which its state folder, socket and namespaces have.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Four => "podman4",
            Self::Five => "podman5",
            Self::FourRootless => "podman4-rootless",
            Self::FiveRootless => "podman5-rootless",
            Self::Gvisor => "gvisor",
            Self::Quota => "quota",
        }
    }

    /// The test binary for this engine.
    pub(crate) fn tests(self) -> &'static str {
        match self {
            Self::Four | Self::Five | Self::FourRootless | Self::FiveRootless => "e2e",
            Self::Gvisor => "gvisor",
            Self::Quota => "quota",
        }
    }

    /// The Debian system that it runs in, built once for all engines that share it.
    pub(crate) fn root(self) -> Result<PathBuf> {
        match self {
            Self::Four | Self::FourRootless => PODMAN_FOUR.folder("podman4"),
            Self::Five | Self::FiveRootless | Self::Gvisor | Self::Quota => PODMAN_FIVE.folder("podman5"),
        }
    }

    /// The runtime of its containers.
    fn runtime(self) -> Runtime {
        match self {
            Self::Gvisor => Runtime::Gvisor,
            _ => Runtime::Own,
        }
    }

    fn storage(self) -> Storage {
        match self {
            Self::Quota => Storage::Quotas,
            _ => Storage::Folder,
        }
    }
}

impl Podman {
    /// Whether an ordinary user runs it.
    pub(crate) fn is_rootless(self) -> bool {
        matches!(self, Self::FourRootless | Self::FiveRootless)
    }
}

/// A private engine, running or not.
pub(crate) struct PrivateEngine {
    podman: Option<Podman>,
    state: PathBuf,
    socket: Socket,
}

impl PrivateEngine {
    /// The engine of one podman version, or of the podman that this machine has.
    pub(crate) fn new(podman: Option<Podman>) -> Self {
        let name = podman.map_or("own", Podman::name);
        let folder = socket_folder(podman);
        Self {
            podman,
            state: workspace::state().join(name),
            socket: Socket::new(folder.join(format!("{name}.sock"))),
        }
    }

    /// The namespaces of an engine of a named version; the machine's own podman stays in the
    /// machine's network.
    pub(crate) fn network(&self) -> Option<Pair> {
        self.podman.map(|podman| Pair::of(podman.name()))
    }

    /// Whether an ordinary user runs it.
    pub(crate) fn is_rootless(&self) -> bool {
        self.podman.is_some_and(Podman::is_rootless)
    }

    /// The flag that selects it on the command line, with a leading space.
    pub(crate) fn version_flag(&self) -> String {
        let name = self.podman.and_then(|podman| podman.to_possible_value());
        name.map_or(String::new(), |name| format!(" --podman {}", name.get_name()))
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The process of the service, if it is running.
    pub(crate) fn pid(&self) -> Option<u32> {
        let pid: u32 = fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        // The kernel reuses process ids: only a process that serves our socket is the engine.
        String::from_utf8_lossy(&line).contains(&self.socket.url()).then_some(pid)
    }

    /// Starts the engine unless it is running; returns its version.
    pub(crate) fn ensure(&self) -> Result<String> {
        let _lock = self.lock()?;
        if self.runtime() == Runtime::Gvisor {
            // Podman reads the hook for each container.
            launch::write_hook(&self.state)?;
        }
        if self.pid().is_some()
            && let Some(version) = ping(&self.socket)
        {
            return Ok(version);
        }
        self.clean_up();
        self.start()
    }

    /// Stops the engine and removes its containers and namespaces. It is not an error if they do
    /// not exist.
    pub(crate) fn stop(&self) -> Result<()> {
        let _lock = self.lock()?;
        if ping(&self.socket).is_some() {
            self.remove_containers();
        }
        self.clean_up();
        if let Some(pair) = self.network() {
            pair.remove();
        }
        Ok(())
    }

    fn start(&self) -> Result<String> {
        let begin = Instant::now();
        let mut launch = self.launch_command()?;
        self.write_client()?;
        let log = self.state.join("service.log");
        let output = File::create(&log).with_context(|| format!("failed to write {}", log.display()))?;
        launch.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
        // In its own process group, Ctrl-C in the terminal that started it does not end it.
        let mut child = launch.process_group(0).spawn()?;
        fs::write(self.pid_file(), child.id().to_string())?;
        let version = self.await_ping(&mut child, &log)?;
        // The containers of a killed engine are dead, but their names are still in use.
        self.remove_containers();
        say(format!("podman {version} serves {} ({})", self.socket.url(), seconds(begin.elapsed())));
        Ok(version)
    }

    /// Every program in the chain replaces itself by the next, so that the child's id is that of
    /// the engine.
    fn launch_command(&self) -> Result<Command> {
        apt::ensure(&[Needed { program: "unshare", package: "util-linux" }])?;
        let separation = self.separation();
        let script = separation.script(self.runtime(), self.storage());
        let mut launch = match self.network() {
            Some(pair) => {
                pair.ensure()?;
                netns::enter(&pair.host, ["unshare", "--mount", "sh", "-c", &script])
            }
            None if separation == Separation::Mounts => command("unshare", ["--mount", "sh", "-c", &script]),
            None => command("sh", ["-c", &script]),
        };
        launch.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        launch.envs(
            ["HOME", "XDG_RUNTIME_DIR"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        match self.podman {
            Some(podman) => launch.env("NEW_ROOT", Self::own_root(podman)?),
            None => install_podman().map(|()| &mut launch)?,
        };
        make_socket_folder(&socket_folder(self.podman))?;
        self.storage().prepare(&self.state)?;
        let configuration = launch::write_configuration(&self.state)?;
        if separation == Separation::OrdinaryUser {
            let folder = socket_folder(self.podman);
            ordinary_user::own(&[&self.state, &self.state.join("networks"), &folder])?;
        }
        launch
            .env("STATE", &self.state)
            .env("DRIVER", self.storage().driver(&self.state))
            .env("SOCKET", self.socket.path())
            .env("CHECKOUT", workspace::root())
            .env("CONTAINERS_CONF", configuration)
            .env("ORDINARY_USER", ordinary_user::ID.to_string())
            .env("PODMAN_IGNORE_CGROUPSV1_WARNING", "1");
        Ok(launch)
    }

    fn runtime(&self) -> Runtime {
        self.podman.map_or(Runtime::Own, Podman::runtime)
    }

    fn storage(&self) -> Storage {
        self.podman.map_or(Storage::Folder, Podman::storage)
    }

    fn separation(&self) -> Separation {
        match self.podman {
            Some(podman) if podman.is_rootless() => Separation::OrdinaryUser,
            Some(_) => Separation::Root,
            None if process::is_root() => Separation::Mounts,
            None => Separation::User,
        }
    }

    /// The Debian system that an engine of a named version runs in.
    fn own_root(podman: Podman) -> Result<PathBuf> {
        if !process::is_root() {
            bail!("a private {} needs root, for mount and network namespaces", podman.name());
        }
        let root = podman.root()?;
        // Containers resolve names in the world, never with the machine's own resolver.
        for (file, text) in [
            ("etc/resolv.conf", "nameserver 203.0.113.10\n"),
            // Without it podman asks the name server for `localhost`, and waits if there is none.
            ("etc/hosts", "127.0.0.1 localhost\n"),
            ("etc/cdi/sandbox-test.json", DESCRIBED_DEVICE),
        ] {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap_or(&file))?;
            fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        }
        ordinary_user::add(&root)?;
        Ok(root)
    }

    /// Waits until the engine responds. It polls, since the engine does not report when its socket
    /// exists.
    fn await_ping(&self, child: &mut Child, log: &Path) -> Result<String> {
        let deadline = Instant::now() + Duration::from_mins(1);
        while Instant::now() < deadline {
            if let Some(version) = ping(&self.socket) {
                return Ok(version);
            }
            if let Some(status) = child.try_wait()? {
                let text = fs::read_to_string(log).unwrap_or_default();
                bail!("the engine ended with {status} before it responded; its output was:\n{text}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the engine did not respond within a minute; see {}", log.display())
    }

    /// Ends all remaining processes of an engine, even of a killed one, and removes its pid file
    /// and socket.
    fn clean_up(&self) {
        if let Some(pid) = self.pid() {
            drop(process::run_quietly(&mut command("kill", ["-TERM", &pid.to_string()])));
            await_end(pid, Duration::from_secs(5));
        }
        let network = self.network().map(|pair| Pair::path(&pair.host));
        if process::is_root() {
            leftovers::end(&self.state, network.as_deref());
        }
        drop(fs::remove_file(self.pid_file()));
        drop(fs::remove_file(self.socket.path()));
    }

    /// Removes containers through the engine, so that it removes cgroups and bridges as well.
    fn remove_containers(&self) {
        let Ok(text) = self
            .socket
            .request("GET", "/v4.0.0/libpod/containers/json?all=true")
            .and_then(super::http::Answer::ok)
        else {
            return;
        };
        let list: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        for id in list.as_array().into_iter().flatten().filter_map(|container| container.get("Id")?.as_str())
        {
            let target = format!("/v4.0.0/libpod/containers/{id}?force=true&timeout=0");
            drop(self.socket.request("DELETE", &target));
        }
    }

    /// Writes a `podman` for users that runs in the engine's namespaces. The tasks themselves use
    /// only the socket.
    fn write_client(&self) -> Result<()> {
        let file = self.client();
        let network = self.network().map(|pair| Pair::path(&pair.host));
        let text =
            self.separation().client_script(&self.state, network.as_deref(), self.runtime(), self.storage());
        fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// Starts a TCP service on all addresses of the engine's host, for tests without the permission
    /// to start one.
    pub(crate) fn host_service(&self, port: u16) -> Result<HostService> {
        let (Some(podman), Some(pair)) = (self.podman, self.network()) else {
            bail!("the machine's own podman has no separate host");
        };
        let busybox = podman.root()?.join("usr/bin/busybox");
        let mut serve = netns::enter(&pair.host, []);
        serve.arg(busybox).args(["nc", "-ll", "-p"]);
        serve.args([port.to_string().as_str(), "-e", "/bin/true"]);
        let child = serve.stdin(Stdio::null()).spawn();
        child.map(HostService).context("failed to start a service of the host")
    }

    /// The path of the `podman` for users.
    pub(crate) fn client(&self) -> PathBuf {
        self.state.join("podman")
    }

    fn pid_file(&self) -> PathBuf {
        self.state.join("pid")
    }

    /// Concurrent callers must not both start the engine.
    fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.state)
            .with_context(|| format!("failed to create {}", self.state.display()))?;
        let path = self.state.join("lock");
        let file = File::create(&path).with_context(|| format!("failed to write {}", path.display()))?;
        file.lock().with_context(|| format!("failed to lock {}", path.display()))?;
        Ok(file)
    }
}

/// A service of the host, which ends when this value is dropped.
pub(crate) struct HostService(Child);

impl Drop for HostService {
    fn drop(&mut self) {
        // It is not an error here if the service has ended by itself: the tests' controls detect
        // that.
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

/// Installs podman and its dependencies for bridges, for an engine on the machine itself.
fn install_podman() -> Result<()> {
    let netavark =
        ["/usr/libexec/podman", "/usr/lib/podman"].iter().any(|f| Path::new(f).join("netavark").exists());
    if process::find_program("podman").is_some() && netavark {
        return Ok(());
    }
    say("this machine lacks podman or its network program");
    apt::install(&[
        "podman",
        "crun",
        "netavark",
        "aardvark-dns",
        "catatonit",
        "uidmap",
        "slirp4netns",
        "iptables",
        "nftables",
    ])
}

/// The folder of the socket, which only the owner of the engine can enter.
fn socket_folder(podman: Option<Podman>) -> PathBuf {
    let owner = if podman.is_some_and(Podman::is_rootless) { "-user" } else { "" };
    PathBuf::from(format!("/tmp/sbx-{}{owner}", workspace::tag()))
}

/// Creates the folder, and checks its owner: the name is predictable, so another user may have
/// created it first.
fn make_socket_folder(folder: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    let own = fs::metadata("/proc/self")?.uid();
    if !found.is_dir() || ![own, ordinary_user::ID].contains(&found.uid()) {
        bail!("{} belongs to another user; remove it", folder.display());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    Ok(())
}

fn await_end(pid: u32, limit: Duration) {
    let deadline = Instant::now() + limit;
    let process = PathBuf::from(format!("/proc/{pid}/ns/mnt"));
    while Instant::now() < deadline && fs::metadata(&process).is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
}
