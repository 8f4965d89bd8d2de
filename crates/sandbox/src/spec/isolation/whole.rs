//! The complete confinement of a container in one value.
//!
//! This file defines everything about a field that is independent of the engine: its meaning,
//! default, validation and display. `container/request.rs` requests it from the engine, and a
//! module of `container/verify` checks that it is in force.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::{
    AppArmorProfile, Capability, Device, HostEntry, Runtime, Seccomp, StopSignal, Tmpfs, Ulimit, UlimitKind,
    UserNamespace, rules,
};
use crate::spec::{InvalidSpec, Mount};

/// The confinement of a container, except for its network and resource limits.
///
/// Start with [`Isolation::agent`] or [`Isolation::untrusted`] and change what you need. Every
/// setting is verified before the container's process starts, from the engine's report and where
/// possible from the kernel's. A setting that the engine's version does not support is an error,
/// never ignored.
///
/// ```
/// use sandbox::Isolation;
/// use sandbox::isolation::Tmpfs;
///
/// let isolation = Isolation {
///     read_only_root: true,
///     tmpfs: vec![Tmpfs::new("/tmp", 256 << 20)],
///     ..Isolation::agent()
/// };
/// assert!(isolation.no_new_privileges);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Isolation {
    /// The capabilities that root in the container keeps; all others are dropped. Valid only for
    /// root: for another user podman would make them effective in every process.
    pub capabilities: BTreeSet<Capability>,
    /// Set-user-id programs and file capabilities grant nothing.
    pub no_new_privileges: bool,
    /// The seccomp filter.
    pub seccomp: Seccomp,
    /// The `AppArmor` profile. `None`: the default of the engine's service, which may be none.
    pub apparmor: Option<AppArmorProfile>,
    /// Files and folders of the container that appear empty, in addition to those that the engine
    /// always hides.
    pub masked_paths: Vec<String>,
    /// The root file system is read-only. `/tmp`, `/run` and `/var/tmp`, which the engine would
    /// then make writable without a bound, are limited to 64, 16 and 32 MiB unless `tmpfs` or a
    /// mount covers them.
    pub read_only_root: bool,
    /// In-memory file systems.
    pub tmpfs: Vec<Tmpfs>,
    /// Bytes of `/dev/shm`. 0: none.
    pub shm_size: u64,
    /// Bytes of swap on top of [`ResourceLimits::memory`](crate::ResourceLimits::memory).
    pub swap: u64,
    /// Limits on each process.
    pub ulimits: Vec<Ulimit>,
    /// `USER` or `USER:GROUP`, names or numbers. `None`: the image's user.
    pub user: Option<String>,
    /// The home folder, for the variable `HOME`. `None`: the image's home folder of the user.
    pub home: Option<String>,
    /// The mapping of the container's users to users of the host.
    pub user_namespace: UserNamespace,
    /// The required runtime. `None`: the one that the engine's service uses.
    pub runtime: Option<Runtime>,
    /// The container's host name.
    pub hostname: String,
    /// Entries of the container's hosts file in addition to `localhost` and its own name. Nothing
    /// of the host's file is included, and no name for the host.
    pub hosts: Vec<HostEntry>,
    /// Devices of the host.
    pub devices: Vec<Device>,
    /// A process of the engine is PID 1: it reaps zombies and forwards signals.
    pub init: bool,
    /// The signal that asks the process to end, on a stop or a timeout.
    pub stop_signal: StopSignal,
    /// How long the process may then take before it is killed.
    pub stop_timeout: Duration,
}

impl Isolation {
    /// The folders that podman makes writable under a read-only root, with the bounds that it
    /// lacks.
    const UNBOUNDED: [(&str, u64); 3] = [("/tmp", 64 << 20), ("/run", 16 << 20), ("/var/tmp", 32 << 20)];

    /// For a coding agent that builds software and installs packages as root inside of the
    /// container: root has access to all files of the container, may become another user, which
    /// package managers need, and may end processes of other users. No raw sockets, no network
    /// settings, no devices, no mounts, no privileges through set-user-id programs, no core dumps.
    #[must_use]
    pub fn agent() -> Self {
        Self {
            capabilities: [
                Capability::CHOWN,
                Capability::DAC_OVERRIDE,
                Capability::FOWNER,
                Capability::KILL,
                Capability::SETGID,
                Capability::SETUID,
            ]
            .into(),
            no_new_privileges: true,
            seccomp: Seccomp::Sandbox,
            apparmor: None,
            masked_paths: Vec::new(),
            read_only_root: false,
            tmpfs: Vec::new(),
            shm_size: 64 << 20,
            swap: 0,
            ulimits: vec![Ulimit::fixed(UlimitKind::Core, 0)],
            user: None,
            home: None,
            user_namespace: UserNamespace::Host,
            runtime: None,
            hostname: "sandbox".to_owned(),
            hosts: Vec::new(),
            devices: Vec::new(),
            init: true,
            stop_signal: StopSignal::Term,
            stop_timeout: Duration::from_secs(5),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidSpec> {
        let invalid =
            |field: &str, problem: String| Err(InvalidSpec::new(format!("isolation.{field}"), problem));
        self.seccomp.validate()?;
        self.user_namespace.validate()?;
        self.tmpfs.iter().try_for_each(Tmpfs::validate)?;
        self.ulimits.iter().try_for_each(Ulimit::validate)?;
        self.hosts.iter().try_for_each(HostEntry::validate)?;
        self.devices.iter().try_for_each(Device::validate)?;
        self.refuse_duplicates()?;
        for path in &self.masked_paths {
            if !rules::is_plain_path(path) {
                return invalid(
                    "masked_paths",
                    format!("`{}` is not a plain absolute path in the container", path.escape_debug()),
                );
            }
        }
        if !rules::is_host_name(&self.hostname, 64) {
            let name = self.hostname.escape_debug();
            return invalid(
                "hostname",
                format!("`{name}` is not a host name; write up to 64 letters, digits, `-` and `.`"),
            );
        }
        if let Some(user) = &self.user
            && !user.splitn(2, ':').all(rules::is_account)
        {
            let user = user.escape_debug();
            return invalid("user", format!("`{user}` is not a user; write USER or USER:GROUP"));
        }
        if let Some(home) = &self.home
            && !rules::is_plain_path(home)
        {
            return invalid("home", format!("`{}` is not a plain absolute path", home.escape_debug()));
        }
        if (1..4096).contains(&self.shm_size) || self.shm_size > 1 << 50 {
            return invalid("shm_size", "must be 0 or at least 4k".to_owned());
        }
        if self.swap > 1 << 50 {
            return invalid(
                "swap",
                "is more than any machine has; podman cannot leave swap unlimited".to_owned(),
            );
        }
        if self.stop_timeout > Duration::from_hours(1) {
            return invalid("stop_timeout", "must be at most an hour".to_owned());
        }
        Ok(())
    }

    fn refuse_duplicates(&self) -> Result<(), InvalidSpec> {
        let mut paths = BTreeSet::new();
        if let Some(twice) = self.tmpfs.iter().find(|tmpfs| !paths.insert(&tmpfs.path)) {
            return Err(InvalidSpec::new("isolation.tmpfs", format!("`{}` is given twice", twice.path)));
        }
        let mut kinds = BTreeSet::new();
        match self.ulimits.iter().find(|ulimit| !kinds.insert(ulimit.kind)) {
            Some(twice) => {
                Err(InvalidSpec::new("isolation.ulimits", format!("`{}` is given twice", twice.kind.name())))
            }
            None => Ok(()),
        }
    }

    /// The closest flags of `podman run`, except those that are rendered elsewhere.
    pub(crate) fn flags(&self) -> Vec<String> {
        let Self {
            capabilities,
            no_new_privileges,
            seccomp,
            apparmor,
            masked_paths,
            read_only_root,
            tmpfs,
            shm_size,
            ulimits,
            user,
            user_namespace,
            hosts,
            devices,
            init,
            stop_signal,
            // Rendered elsewhere, or without a flag.
            runtime: _,
            hostname: _,
            swap: _,
            home: _,
            stop_timeout: _,
        } = self;
        let mut line = vec!["--cap-drop=all".to_owned()];
        line.extend(capabilities.iter().map(|capability| format!("--cap-add={capability}")));
        if *no_new_privileges {
            line.push("--security-opt=no-new-privileges".to_owned());
        }
        match seccomp {
            Seccomp::Default => {}
            Seccomp::Sandbox => line.push("--security-opt=seccomp=sandbox.json".to_owned()),
            Seccomp::Profile(path) => line.push(format!("--security-opt=seccomp={}", path.display())),
            Seccomp::Unconfined => line.push("--security-opt=seccomp=unconfined".to_owned()),
        }
        line.extend(apparmor.iter().map(|profile| format!("--security-opt=apparmor={profile}")));
        if !masked_paths.is_empty() {
            line.push(format!("--security-opt=mask={}", masked_paths.join(":")));
        }
        if *read_only_root {
            line.push("--read-only".to_owned());
        }
        line.extend(
            tmpfs
                .iter()
                .map(|tmpfs| format!("--tmpfs={}:size={},mode={:o}", tmpfs.path, tmpfs.size, tmpfs.mode)),
        );
        line.push(format!("--shm-size={shm_size}b"));
        let ulimits = ulimits.iter();
        line.extend(
            ulimits.map(|limit| format!("--ulimit={}={}:{}", limit.kind.name(), limit.soft, limit.hard)),
        );
        line.extend(user.iter().map(|user| format!("--user={user}")));
        if let UserNamespace::Private { first, size } = user_namespace {
            line.push(format!("--uidmap=0:{first}:{size}"));
            line.push(format!("--gidmap=0:{first}:{size}"));
        }
        line.extend(devices.iter().map(|device| match device {
            Device::Node { host, container } => format!("--device={}:{container}", host.display()),
            Device::Cdi(name) => format!("--device={name}"),
        }));
        line.extend(hosts.iter().map(|entry| format!("--add-host={}:{}", entry.name, entry.address)));
        if *init {
            line.push("--init".to_owned());
        }
        line.push(format!("--stop-signal={}", stop_signal.name()));
        line
    }

    /// Replaces the sandbox's own profile by the file that it is in.
    pub(crate) fn filtered(mut self, profile: Option<&std::path::Path>) -> Self {
        if let (Seccomp::Sandbox, Some(profile)) = (&self.seccomp, profile) {
            self.seccomp = Seccomp::Profile(profile.to_owned());
        }
        self
    }

    /// Fills in the settings that follow from `image_user`, the user of the image, and from
    /// `mounts`.
    #[must_use]
    pub(crate) fn resolved(mut self, image_user: &str, mounts: &[Mount]) -> Self {
        let user = self.user.as_deref().unwrap_or(image_user);
        let is_root = matches!(user.split(':').next(), None | Some("" | "0" | "root"));
        if !is_root {
            self.capabilities.clear();
        }
        if self.read_only_root {
            let taken: BTreeSet<PathBuf> = self
                .tmpfs
                .iter()
                .map(|tmpfs| tmpfs.path.as_str())
                .chain(mounts.iter().map(Mount::container_path))
                .map(PathBuf::from)
                .collect();
            let bounded = Self::UNBOUNDED
                .into_iter()
                .filter(|(path, _)| !taken.contains(std::path::Path::new(path)))
                .map(|(path, size)| Tmpfs::new(path, size));
            self.tmpfs.extend(bounded);
        }
        self
    }
}

impl Default for Isolation {
    /// [`Isolation::agent`].
    fn default() -> Self {
        Self::agent()
    }
}
