//! The scripts and the configuration with which a private engine is started.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::ordinary_user;
use crate::apt::{self, Needed};
use crate::process::{self, command};
use crate::workspace;

/// How an engine is separated from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separation {
    /// Its own root folder, network and mounts.
    Root,
    /// Like `Root`, with an ordinary user who runs the engine without root.
    OrdinaryUser,
    /// The machine's podman as root, with its own mounts.
    Mounts,
    /// The machine's podman without root, which creates its own namespaces.
    User,
}

/// The runtime of an engine's containers. The API has no parameter for the runtime of one
/// container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runtime {
    /// Podman's default.
    Own,
    /// `runsc`, which gives each container its own kernel.
    Gvisor,
}

/// Where an engine keeps its images and containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storage {
    /// In its state folder.
    Folder,
    /// On a separate file system that supports quotas for containers, in a file of its state
    /// folder.
    Quotas,
}

/// Runs inside a new mount namespace before the engine. Paths are passed as variables, never inside
/// the text.
///
/// - Where cgroup v2 is mounted next to v1 (hybrid), podman assumes that the machine has cgroup v2
///   and fails.
/// - `/dev/shm`, like `/run` below, is separate for each engine: podman keeps locks and network
///   state there under fixed names, and the next engine must not see those of a killed one.
const OWN_MOUNTS: &str = "
set -eu
mount --make-rprivate /
if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
";

/// Makes a Debian folder the root, and shares the folders that callers mount from. With
/// `pivot_root`, not `chroot`: unpacking layers remounts `/`, which fails if `/` is not a mount
/// point.
const OWN_ROOT: &str = r#"
mount --bind "$NEW_ROOT" "$NEW_ROOT"
for folder in /proc /sys /dev /tmp; do mount --rbind "$folder" "$NEW_ROOT$folder"; done
mkdir -p "$NEW_ROOT$CHECKOUT"
mount --bind "$CHECKOUT" "$NEW_ROOT$CHECKOUT"
mkdir -p "$NEW_ROOT/.old"
cd "$NEW_ROOT"
pivot_root . .old
umount -l /.old
cd /
mount -t tmpfs -o mode=755 tmpfs /run
"#;

/// Prepares the machine for podman without root. The engine gets its own device node, since the
/// machine's may be accessible only to root.
const FOR_USER: &str = r#"
if ! [ -e /dev/net/tun ]; then
    echo "this machine has no tunnel device, which rootless networks require: modprobe tun" >&2
    exit 1
fi
mkdir -p "/run/user/$ORDINARY_USER" /run/devices "$STATE/home"
chown "$ORDINARY_USER:$ORDINARY_USER" "/run/user/$ORDINARY_USER" "$STATE/home"
chmod 700 "/run/user/$ORDINARY_USER"
mknod -m 666 /run/devices/tun c 10 200
mount --bind /run/devices/tun /dev/net/tun
mount --make-rshared /
"#;

/// The machine's `/run` stays: it may contain the resolver's configuration.
const OWN_STATE: &str = r#"
for folder in /run/containers /run/libpod /run/crun /run/netns; do
    mkdir -p "$folder"
    mount -t tmpfs -o mode=755 tmpfs "$folder"
done
"#;

/// The kernel detaches the loop device when the last process of the namespace has ended.
const OWN_DISK: &str = r#"
mkdir -p "$STATE/storage"
mount -t btrfs -o loop "$STATE/disk.img" "$STATE/storage"
"#;

const SERVE: &str = r#" --log-level warn system service --time=0 "unix://$SOCKET""#;

impl Separation {
    /// The script that starts the engine by `exec`.
    pub(super) fn script(self, runtime: Runtime, storage: Storage) -> String {
        let before = match self {
            Self::Root => [OWN_MOUNTS, OWN_ROOT].concat(),
            Self::OrdinaryUser => [OWN_MOUNTS, OWN_ROOT, FOR_USER].concat(),
            Self::Mounts => [OWN_MOUNTS, OWN_STATE].concat(),
            Self::User => String::new(),
        };
        format!("{before}{}\nexec {}{}{SERVE}\n", storage.mount(), self.podman(), runtime.flags())
    }

    /// A script that runs podman's command line in the engine's namespaces, with the engine's
    /// storage.
    ///
    /// `network` is the engine's namespace if it has its own. It is not taken from the service's
    /// process: podman's first thread, which `/proc` shows, may still be in the namespace of a
    /// container.
    pub(super) fn client_script(
        self,
        state: &Path,
        network: Option<&Path>,
        runtime: Runtime,
        storage: Storage,
    ) -> String {
        let network = network.map(|path| format!("--net='{}' ", path.display())).unwrap_or_default();
        let enter = match self {
            Self::Root | Self::OrdinaryUser | Self::Mounts => {
                format!("nsenter --target \"$(cat \"$STATE/pid\")\" --mount {network}-- ")
            }
            Self::User => String::new(),
        };
        let (state, driver, podman) = (state.display(), storage.driver(state), self.podman());
        format!(
            "#!/bin/sh\n# podman's command line for the private engine, with its mounts, network and storage.\n\
             export STATE='{state}' DRIVER={driver} PODMAN_IGNORE_CGROUPSV1_WARNING=1\n\
             export CONTAINERS_CONF=\"$STATE/containers.conf\" ORDINARY_USER={}\nexec {enter}{podman}{} \"$@\"\n",
            ordinary_user::ID,
            runtime.flags()
        )
    }

    /// The program with the flags that select the engine's storage.
    fn podman(self) -> &'static str {
        match self {
            Self::Root | Self::Mounts => {
                r#"podman --root "$STATE/storage" --runroot /run/containers/storage --storage-driver "$DRIVER" --cgroup-manager cgroupfs"#
            }
            Self::OrdinaryUser => {
                r#"setpriv --reuid "$ORDINARY_USER" --regid "$ORDINARY_USER" --clear-groups env "HOME=$STATE/home" "XDG_RUNTIME_DIR=/run/user/$ORDINARY_USER" podman --root "$STATE/storage" --runroot "/run/user/$ORDINARY_USER/storage" --storage-driver "$DRIVER" --cgroup-manager cgroupfs"#
            }
            Self::User => r#"podman --root "$STATE/storage" --runroot "$STATE/run""#,
        }
    }
}

impl Runtime {
    /// The flags that select it on podman's command line, with a leading space.
    fn flags(self) -> &'static str {
        match self {
            Self::Own => "",
            Self::Gvisor => r#" --runtime runsc --runtime-flag network=host --hooks-dir "$STATE/hooks""#,
        }
    }
}

/// The hook that `sandbox doctor` recommends for engines with gVisor.
const HOOK: &str = "crates/sandbox-cli/src/commands/doctor/gvisor-hook.json";

/// Writes the hook that an engine with gVisor needs, byte for byte as `sandbox doctor` prints it.
pub(super) fn write_hook(state: &Path) -> Result<()> {
    let (source, folder) = (workspace::root().join(HOOK), state.join("hooks"));
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    fs::copy(&source, folder.join("sandbox.json"))
        .map(drop)
        .with_context(|| format!("failed to copy {}", source.display()))
}

impl Storage {
    /// The size of the sparse file, which grows on writes.
    const DISK: u64 = 4 << 30;

    /// The name of podman's storage driver.
    pub(super) fn driver(self, state: &Path) -> &'static str {
        match self {
            Self::Folder => folder_driver(state),
            Self::Quotas => "btrfs",
        }
    }

    fn mount(self) -> &'static str {
        match self {
            Self::Folder => "",
            Self::Quotas => OWN_DISK,
        }
    }

    /// Creates the file system unless it exists.
    pub(super) fn prepare(self, state: &Path) -> Result<()> {
        let disk = state.join("disk.img");
        if self == Self::Folder || disk.exists() {
            return Ok(());
        }
        apt::ensure(&[Needed { program: "mkfs.btrfs", package: "btrfs-progs" }])?;
        let unfinished = state.join("disk.unfinished");
        File::create(&unfinished)
            .and_then(|file| file.set_len(Self::DISK))
            .with_context(|| format!("failed to create {}", unfinished.display()))?;
        process::run_quietly(command("mkfs.btrfs", ["--quiet", "--force"]).arg(&unfinished))?;
        fs::rename(&unfinished, &disk).with_context(|| format!("failed to rename {}", unfinished.display()))
    }
}

/// Overlay storage does not work on an overlay, as inside a container.
fn folder_driver(state: &Path) -> &'static str {
    let kind = process::output(command("stat", ["-f", "-c", "%T"]).arg(state));
    if kind.is_ok_and(|kind| kind.trim() == "overlayfs") { "vfs" } else { "overlay" }
}

/// Writes the engine's containers.conf and returns its path.
pub(super) fn write_configuration(state: &Path) -> Result<PathBuf> {
    let networks = state.join("networks");
    fs::create_dir_all(&networks).with_context(|| format!("failed to create {}", networks.display()))?;
    let text = configuration(&networks, capped_limits());
    let file = state.join("containers.conf");
    fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
    Ok(file)
}

fn configuration(networks: &Path, limits: Option<Limits>) -> String {
    let limits = limits.map_or(String::new(), |Limits { files, processes }| {
        format!("default_ulimits = [\"nofile={files}:{files}\", \"nproc={processes}:{processes}\"]\n")
    });
    format!(
        "[containers]\n{limits}\n[engine]\nevents_logger = \"file\"\n\n[network]\nnetwork_backend = \"netavark\"\n\
         network_config_dir = \"{}\"\n",
        networks.display()
    )
}

#[derive(Clone, Copy)]
struct Limits {
    files: u64,
    processes: u64,
}

/// podman raises two limits for every container; without `CAP_SYS_RESOURCE` the kernel refuses
/// values above our own.
fn capped_limits() -> Option<Limits> {
    const CAP_SYS_RESOURCE: u64 = 1 << 24;
    let effective = process::proc_status("CapEff").and_then(|hex| u64::from_str_radix(&hex, 16).ok())?;
    if effective & CAP_SYS_RESOURCE != 0 {
        return None;
    }
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    // podman 4 lowers its own hard limit on processes to the kernel's `pid_max` before it starts a
    // container.
    let pid_max = fs::read_to_string("/proc/sys/kernel/pid_max").ok()?.trim().parse().ok()?;
    let processes = hard_limit(&text, "Max processes").min(pid_max);
    Some(Limits { files: hard_limit(&text, "Max open files"), processes })
}

fn hard_limit(text: &str, name: &str) -> u64 {
    const PODMAN_ASKS_FOR: u64 = 1_048_576;
    let hard = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().nth(1)?.parse().ok());
    hard.unwrap_or(PODMAN_ASKS_FOR).min(PODMAN_ASKS_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
                          Max processes             96365                unlimited            processes \n\
                          Max open files            1024                 20000                files     \n";

    #[test]
    fn hard_limits_are_read_and_bounded() {
        assert_eq!(hard_limit(LIMITS, "Max open files"), 20_000);
        assert_eq!(hard_limit(LIMITS, "Max processes"), 1_048_576);
    }

    #[test]
    fn limits_are_configured_only_where_necessary() {
        let with = configuration(Path::new("/n"), Some(Limits { files: 7, processes: 8 }));
        assert!(with.contains("default_ulimits = [\"nofile=7:7\", \"nproc=8:8\"]\n"), "{with}");
        assert!(!configuration(Path::new("/n"), None).contains("ulimits"));
    }
}
