//! The engine: its version and environment.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use sandbox::Sandbox;
use sandbox::diagnostics::{Capabilities, DiskLimits, EngineFacts};

use super::report::Check;
use super::vulnerabilities;

/// Where distributions install the programs that give a user more than one id.
const PROGRAM_FOLDERS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/bin", "/usr/local/bin"];

/// Checks of the facts that the engine reports.
pub(super) async fn checks(sandbox: &Sandbox, address: &str) -> Vec<Check> {
    let mut checks = vec![version(&sandbox.capabilities(), address)];
    match sandbox.engine_facts().await {
        Ok(facts) => {
            checks.extend([
                control_groups(&facts),
                networks(&facts),
                system_calls(&facts),
                disk(&facts),
                gvisor(&facts, find("runsc")),
                vulnerabilities::check(&sandbox.capabilities().version().to_string(), &facts),
            ]);
            if facts.rootless {
                checks.extend([tunnel(Path::new("/dev/net/tun")), network_program(&facts), user_ids()]);
            }
        }
        Err(error) => checks.push(Check::failed("engine facts", &error.into())),
    }
    checks.push(left_behind(sandbox).await);
    match sandbox.stray_bridges().await {
        Ok(found) => checks.extend(found.map(|found| bridges(&found))),
        Err(error) => checks.push(Check::failed(BRIDGES, &error.into())),
    }
    checks
}

fn version(capabilities: &Capabilities, address: &str) -> Check {
    let lacks = capabilities.limitations();
    let mut detail = format!("podman {} at {address}", capabilities.version());
    for limitation in lacks {
        detail.push_str("\nirrelevant here: ");
        detail.push_str(limitation);
    }
    Check::ok("engine", detail)
}

fn control_groups(facts: &EngineFacts) -> Check {
    let name = "control groups";
    match (facts.cgroup_version.as_str(), facts.rootless) {
        ("v1", true) => Check::warn(
            name,
            "version 1: a rootless engine ignores limits of memory, processors and processes",
            "boot with version 2 (`systemd.unified_cgroup_hierarchy=1`), or use a rootful engine",
        ),
        ("v2", true) if facts.cgroup_manager == "cgroupfs" => Check::warn(
            name,
            "version 2 without systemd: containers of a rootless engine have no control groups of \
             their own, so limits of memory, processors and processes are an error",
            EngineFacts::DELEGATION,
        ),
        ("v1", false) => Check::ok(name, "version 1; out-of-memory kills are not always reported"),
        (version, _) => Check::ok(name, format!("version {}", version.trim_start_matches('v'))),
    }
}

fn networks(facts: &EngineFacts) -> Check {
    let detail =
        format!("{}, {}", facts.network_backend, if facts.rootless { "rootless" } else { "rootful" });
    match facts.network_backend.as_str() {
        "netavark" => Check::ok("networks", detail),
        _ => Check::fail(
            "networks",
            format!("{detail}; the sandbox's isolation needs netavark"),
            "install netavark, write `network_backend = \"netavark\"` under `[network]` in /etc/containers/containers.conf, and \
             run `podman system reset`",
        ),
    }
}

fn system_calls(facts: &EngineFacts) -> Check {
    let detail = format!(
        "run by {} (for all containers of this service), images in {}",
        facts.runtime, facts.storage_driver
    );
    let name = "containers";
    if !facts.seccomp {
        return Check::warn(
            name,
            format!("{detail}; system calls are not filtered"),
            "use podman and a kernel with seccomp support",
        );
    }
    if facts.storage_driver == "vfs" {
        return Check::warn(
            name,
            format!("{detail}, which copies the whole image for each container: a start takes seconds"),
            format!(
                "run `podman system reset`, which removes all images, containers, volumes and networks, write \
                 `driver = \"overlay\"` under `[storage]` in {}, and restart podman's service",
                if facts.rootless {
                    "~/.config/containers/storage.conf"
                } else {
                    "/etc/containers/storage.conf"
                }
            ),
        );
    }
    Check::ok(name, format!("{detail}, system calls filtered"))
}

/// Only needed if the project sets a limit; a task without one can fill the shared storage.
fn disk(facts: &EngineFacts) -> Check {
    let name = "disk";
    match facts.disk_limits() {
        DiskLimits::Possible => {
            Check::ok(name, format!("{}: `resource_limits.disk` is supported", facts.storage()))
        }
        DiskLimits::WithProjectQuotas => Check::ok(
            name,
            format!(
                "{}: `resource_limits.disk` is supported if it is mounted with the option `pquota`",
                facts.storage()
            ),
        ),
        DiskLimits::Impossible => Check::warn(
            name,
            format!(
                "{}, which has no quotas: a task can fill it, and `resource_limits.disk` is an error",
                facts.storage()
            ),
            DiskLimits::HINT,
        ),
    }
}

/// The hook that an engine needs whose containers gVisor runs: `runsc` ignores sysctls, and this
/// sets those of the network. The end-to-end tests' engine uses the same file.
const GVISOR_HOOK: &str = include_str!("gvisor-hook.json");

/// The engine's service chooses gVisor, never a task.
fn gvisor(facts: &EngineFacts, installed: Option<PathBuf>) -> Check {
    let name = "gVisor";
    let runs_it = Path::new(&facts.runtime).file_name().is_some_and(|name| name == "runsc");
    if runs_it {
        return Check::warn(
            name,
            "all containers have a gVisor kernel. It lacks masked paths and system call filters, \
             applies limits to the container as a whole (exceeding one ends the container), and \
             lets a command end the container's first process; the rest of the confinement, except the network, cannot be verified \
             from the host",
            format!(
                "run `sandbox verify` to see which limits hold; if the trial run fails because of sysctls, the service lacks a hook:\n{}",
                gvisor_service(Path::new("runsc"))
            ),
        );
    }
    match installed {
        Some(path) => Check::ok(
            name,
            format!(
                "{} is installed but not used; for containers with their own kernel, start another service, as root:\n{}",
                path.display(),
                gvisor_service(&path)
            ),
        ),
        None => Check::ok(name, "runsc is not installed (optional)"),
    }
}

/// The commands that start a podman service with gVisor. `network=host` means the container's own
/// network, without gVisor's: on newer kernels, some versions of runsc mistake every network for
/// the host's.
fn gvisor_service(runsc: &Path) -> String {
    format!(
        "mkdir -p /etc/sandbox-gvisor\n\
         printf '%s\\n' '{}' > /etc/sandbox-gvisor/sysctl.json\n\
         podman --runtime {} --runtime-flag network=host --hooks-dir /etc/sandbox-gvisor system service --time=0 \
         unix:///run/sandbox-gvisor.sock &\n\
         export CONTAINER_HOST=unix:///run/sandbox-gvisor.sock",
        GVISOR_HOOK.trim_end(),
        runsc.display()
    )
}

/// The path of `program` on the host.
fn find(program: &str) -> Option<PathBuf> {
    PROGRAM_FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

fn tunnel(device: &Path) -> Check {
    match OpenOptions::new().read(true).write(true).open(device) {
        Ok(_) => Check::ok("tunnel device", device.display().to_string()),
        Err(error) => Check::fail(
            "tunnel device",
            format!("failed to open `{}`: {error}", device.display()),
            "a rootless engine needs it for networks: run `sudo modprobe tun` and `sudo chmod 0666 /dev/net/tun`",
        ),
    }
}

fn network_program(facts: &EngineFacts) -> Check {
    match facts.rootless_network_programs.first() {
        Some(program) => Check::ok("rootless networks", program),
        None => Check::fail(
            "rootless networks",
            "neither pasta nor slirp4netns is installed",
            "install the package passt (podman 5) or slirp4netns (podman 4)",
        ),
    }
}

fn user_ids() -> Check {
    match find("newuidmap") {
        Some(path) => Check::ok("user ids", path.display().to_string()),
        None => Check::fail(
            "user ids",
            "newuidmap is not installed",
            "install the package uidmap (shadow-utils on Fedora)",
        ),
    }
}

async fn left_behind(sandbox: &Sandbox) -> Check {
    let inventory = match sandbox.inventory().await {
        Ok(inventory) => inventory,
        Err(error) => return Check::failed("objects", &error.into()),
    };
    let dead = inventory.instances.iter().filter(|instance| !instance.alive);
    let containers = dead
        .flat_map(|instance| &instance.objects)
        .filter(|object| object.kind == sandbox::diagnostics::ObjectKind::Container)
        .count();
    let alive = inventory.instances.iter().filter(|instance| instance.alive).count();
    match containers {
        0 => Check::ok("objects", format!("{alive} active runs, no objects of ended ones")),
        _ => Check::warn(
            "objects",
            format!("{containers} containers of ended runs"),
            "`sandbox clean` removes them",
        ),
    }
}

const BRIDGES: &str = "bridges";

/// Bridges that a podman service leaves when it is killed while it creates networks. podman does
/// not remove them.
fn bridges(stray: &[String]) -> Check {
    if stray.is_empty() {
        return Check::ok(BRIDGES, "none without a network");
    }
    let names = stray.join(" ");
    Check::warn(
        BRIDGES,
        format!("{} without a network, from a podman that was killed: {names}", stray.len()),
        // The other ends of their veth pairs are in network namespaces that nothing else refers to.
        format!(
            "as root on the engine's host: for bridge in {names}; do ip link show master $bridge | sed -n 's/.*link-netns //p' | \
             xargs -rn1 ip netns delete; ip link delete $bridge; done"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;

    fn facts(change: impl FnOnce(&mut EngineFacts)) -> EngineFacts {
        let mut facts = EngineFacts::default();
        "v2".clone_into(&mut facts.cgroup_version);
        "netavark".clone_into(&mut facts.network_backend);
        facts.seccomp = true;
        change(&mut facts);
        facts
    }

    #[test]
    fn gvisor_hook_can_be_pasted_into_a_shell() {
        let hook: serde_json::Value = serde_json::from_str(GVISOR_HOOK).unwrap();
        assert_eq!(hook["stages"], serde_json::json!(["createRuntime"]));
        assert!(!GVISOR_HOOK.contains('\'') && GVISOR_HOOK.lines().count() == 1);
        let commands = gvisor_service(Path::new("/opt/runsc"));
        assert!(commands.contains(
            "--runtime /opt/runsc --runtime-flag network=host --hooks-dir /etc/sandbox-gvisor system service"
        ));
        assert!(
            commands.contains(&format!("'{}' > /etc/sandbox-gvisor/sysctl.json", GVISOR_HOOK.trim_end()))
        );
    }

    #[test]
    fn engine_problems_are_reported() {
        let good = facts(|_| {});
        let cni = facts(|facts| "cni".clone_into(&mut facts.network_backend));
        let unlimited = facts(|facts| {
            facts.rootless = true;
            "v1".clone_into(&mut facts.cgroup_version);
        });
        let undelegated = facts(|facts| {
            facts.rootless = true;
            "cgroupfs".clone_into(&mut facts.cgroup_manager);
        });
        let delegated = facts(|facts| {
            facts.rootless = true;
            "systemd".clone_into(&mut facts.cgroup_manager);
        });
        let of_root = facts(|facts| "cgroupfs".clone_into(&mut facts.cgroup_manager));
        let guarded = facts(|facts| "runsc".clone_into(&mut facts.runtime));
        let unfiltered = facts(|facts| facts.seccomp = false);
        let stored = |driver: &str, system: &str| {
            facts(|facts| {
                driver.clone_into(&mut facts.storage_driver);
                system.clone_into(&mut facts.storage_file_system);
            })
        };
        for (check, expected) in [
            (networks(&good), Verdict::Ok),
            (networks(&cni), Verdict::Fail),
            (control_groups(&good), Verdict::Ok),
            (control_groups(&unlimited), Verdict::Warn),
            (control_groups(&undelegated), Verdict::Warn),
            (control_groups(&delegated), Verdict::Ok),
            (control_groups(&of_root), Verdict::Ok),
            (system_calls(&good), Verdict::Ok),
            (system_calls(&unfiltered), Verdict::Warn),
            (system_calls(&stored("vfs", "")), Verdict::Warn),
            (disk(&stored("overlay", "extfs")), Verdict::Warn),
            (disk(&stored("overlay", "xfs")), Verdict::Ok),
            (disk(&stored("btrfs", "")), Verdict::Ok),
            (gvisor(&good, None), Verdict::Ok),
            (gvisor(&good, Some("/usr/bin/runsc".into())), Verdict::Ok),
            (gvisor(&guarded, None), Verdict::Warn),
            (network_program(&good), Verdict::Fail),
            (bridges(&[]), Verdict::Ok),
            (bridges(&["sbx0".to_owned()]), Verdict::Warn),
            (tunnel(Path::new("/no/such/device")), Verdict::Fail),
            (tunnel(Path::new("/dev/null")), Verdict::Ok),
        ] {
            assert_eq!(check.verdict(), expected, "{check:?}");
        }
    }
}
