//! Converts a plan to the body of podman's native call that creates a container, its
//! `SpecGenerator`.
//!
//! The Docker-compatible call silently ignores too much: ulimits on rootless engines, masked paths,
//! and on podman 4 CDI devices and annotations.

use sandbox_workspace::overlay_folders;
use serde_json::{Map, Value, json};

use crate::spec::{AppArmorProfile, Device, Isolation, Launch, Mount, Seccomp, Tmpfs, UserNamespace};

use super::plan::{Attachment, ContainerPlan, Networks};

/// A file on the host's `/run`, which root in a container could fill without bound. Without a
/// read-only root nothing else protects it.
const ENGINES_FILE: &str = "/run/.containerenv";
/// The period of processor accounting, in microseconds.
const PERIOD: i64 = 100_000;

/// The body of the call that creates `plan` on a rootful or rootless engine, without the name.
/// `null` leaves a value to the image or the engine.
pub(super) fn body(plan: &ContainerPlan, of_root: bool) -> Value {
    let isolation = &plan.isolation;
    let (namespace, networks) = network(&plan.network.networks);
    let (users, ids) = users(isolation.user_namespace);
    let detachment = &plan.detachment;
    json!({
        "image": plan.image,
        "entrypoint": plan.entrypoint,
        "command": plan.command,
        "env": plan.env.variables(),
        "work_dir": plan.working_dir,
        "user": isolation.user,
        "hostname": isolation.hostname,
        "stop_signal": isolation.stop_signal.number(),
        "labels": plan.labels.to_map(),
        "annotations": detachment.annotations,
        "stdin": plan.stdin,
        "terminal": plan.terminal.is_some(),
        // Podman 5 waits this long before it kills on a forced removal. The sandbox waits on its
        // own side when it stops a container.
        "stop_timeout": 0,
        // Disables the image's health check, which the engine would run next to the task.
        "healthconfig": {"Test": ["NONE"]},
        // Output goes to the attached client; a driver would write it to the host's disk, so it has
        // a bound or there is none.
        "log_configuration": {"driver": detachment.log_driver(), "size": detachment.log_limit},
        "sysctl": plan.network.sysctls,
        // The engine's own file contains the host's name; it is not needed if the sandbox's file
        // replaces it.
        "use_image_hosts": has_own_hosts(plan),
        "dns_server": plan.network.dns.map(|server| [server]),
        "netns": namespace,
        "networks": networks,
        "mounts": mounts(plan),
        // Volumes that an image declares are removed with the container, regardless of the engine's
        // configuration.
        "image_volume_mode": "anonymous",
        "overlay_volumes": plan.mounts.iter().filter_map(overlay).collect::<Vec<_>>(),
        "resource_limits": resources(plan),
        // Podman 5 passes on its service's score, which might spare it. A rootless service's may be
        // too high to be lowered.
        "oom_score_adj": of_root.then_some(0),
        "storage_opts": plan.disk.map(|bytes| json!({"size": bytes.to_string()})),
        "cap_drop": ["ALL"],
        "cap_add": plan.capabilities().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "no_new_privileges": isolation.no_new_privileges,
        "seccomp_profile_path": seccomp(&isolation.seccomp),
        "apparmor_profile": isolation.apparmor.as_ref().map(AppArmorProfile::as_str),
        "read_only_filesystem": isolation.read_only_root,
        // Otherwise podman 5 makes shared memory read-only. The other folders that it makes
        // writable are in the plan, with a bound.
        "read_write_tmpfs": isolation.read_only_root,
        "mask": masks(isolation),
        "init": isolation.init,
        "ipcns": {"nsmode": if isolation.shm_size == 0 { "none" } else { "private" }},
        "shm_size": (isolation.shm_size > 0).then(|| signed(isolation.shm_size)),
        "r_limits": (!isolation.ulimits.is_empty()).then(|| limits(isolation)),
        "userns": users,
        "idmappings": ids,
        "devices": isolation.devices.iter().map(device).collect::<Vec<_>>(),
    })
}

/// Podman refuses a whole document because of one number that is out of range.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn network(networks: &Networks) -> (Value, Value) {
    let place = |Attachment { network, address }: &Attachment| {
        let place = address.map_or_else(|| json!({}), |address| json!({"static_ips": [address]}));
        (network.clone(), place)
    };
    match networks {
        Networks::Default => (Value::Null, Value::Null),
        Networks::Attached(attachments) if !attachments.is_empty() => {
            let networks: Map<String, Value> = attachments.iter().map(place).collect();
            (json!({"nsmode": "bridge"}), networks.into())
        }
        Networks::None | Networks::Attached(_) => (json!({"nsmode": "none"}), Value::Null),
    }
}

fn has_own_hosts(plan: &ContainerPlan) -> bool {
    let mut targets = plan.mounts.iter().map(Mount::container_path);
    targets.any(|target| target == Launch::HOSTS_FILE)
}

/// With an explicit range, the engine needs no range of its own in `/etc/subuid`.
fn users(namespace: UserNamespace) -> (Value, Value) {
    match namespace {
        UserNamespace::Host => (Value::Null, Value::Null),
        UserNamespace::Private { first, size } => {
            let range = json!([{"container_id": 0, "host_id": first, "size": size}]);
            (json!({"nsmode": "private"}), json!({"UIDMap": range, "GIDMap": range}))
        }
    }
}

fn seccomp(seccomp: &Seccomp) -> Value {
    match seccomp {
        // Launching inserts the file of the sandbox's own profile.
        Seccomp::Sandbox | Seccomp::Default => Value::Null,
        Seccomp::Profile(path) => path.to_string_lossy().into(),
        Seccomp::Unconfined => "unconfined".into(),
    }
}

fn masks(isolation: &Isolation) -> Vec<&str> {
    let engines_file = (!isolation.read_only_root).then_some(ENGINES_FILE);
    let masked = isolation.masked_paths.iter().map(String::as_str);
    masked.chain(engines_file).collect()
}

fn limits(isolation: &Isolation) -> Vec<Value> {
    let limits = isolation.ulimits.iter();
    limits.map(|limit| json!({"type": limit.kind.name(), "soft": limit.soft, "hard": limit.hard})).collect()
}

/// Only requested limits: an engine that cannot enforce limits warns of each one.
fn resources(plan: &ContainerPlan) -> Value {
    let mut resources = Map::new();
    if let Some(memory) = plan.memory {
        // By default podman gives as much swap as memory.
        let with_swap = plan.memory_with_swap().map(signed);
        resources.insert("memory".to_owned(), json!({"limit": signed(memory), "swap": with_swap}));
    }
    if let Some(nano) = plan.nano_cpus {
        let quota = nano / (1_000_000_000 / PERIOD);
        resources.insert("cpu".to_owned(), json!({"quota": quota, "period": PERIOD}));
    }
    if let Some(pids) = plan.pids {
        resources.insert("pids".to_owned(), json!({"limit": pids}));
    }
    if resources.is_empty() { Value::Null } else { resources.into() }
}

fn mounts(plan: &ContainerPlan) -> Vec<Value> {
    let direct = plan.mounts.iter().filter(|mount| mount.copy_dir().is_none());
    direct.map(|mount| bind(plan, mount)).chain(plan.isolation.tmpfs.iter().map(tmpfs)).collect()
}

fn bind(plan: &ContainerPlan, mount: &Mount) -> Value {
    // Mounts of the container stay in it, and later mounts of the host do not appear in it.
    let mut options = vec![if mount.read_only() { "ro" } else { "rw" }, "rprivate"];
    options.extend(plan.detachment.sharing.get(mount.container_path()).map(|sharing| sharing.relabel()));
    json!({
        "type": "bind",
        "source": mount.host_path().to_string_lossy(),
        "destination": mount.container_path(),
        "options": options,
    })
}

fn overlay(mount: &Mount) -> Option<Value> {
    let (upper, work) = overlay_folders(mount.copy_dir()?);
    Some(json!({
        "source": mount.host_path().to_string_lossy(),
        "destination": mount.container_path(),
        "options": [format!("upperdir={}", upper.display()), format!("workdir={}", work.display())],
    }))
}

/// All options are explicit, because defaults differ between versions.
fn tmpfs(tmpfs: &Tmpfs) -> Value {
    let exec = if tmpfs.exec { "exec" } else { "noexec" };
    let copy = if tmpfs.copy_up { "tmpcopyup" } else { "notmpcopyup" };
    let size = format!("size={}", tmpfs.size);
    let mode = format!("mode={:04o}", tmpfs.mode);
    json!({
        "type": "tmpfs",
        "source": "tmpfs",
        "destination": tmpfs.path,
        "options": ["rw", size, mode, exec, "nosuid", "nodev", copy],
    })
}

fn device(device: &Device) -> Value {
    match device {
        // Without `m`: nodes of its kind cannot be created elsewhere.
        Device::Node { host, container } => json!({"path": format!("{}:{container}:rw", host.display())}),
        Device::Cdi(name) => json!({"path": name}),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::super::plan::{Detachment, PlannedNetwork};
    use super::*;
    use crate::instance::InstanceLock;
    use crate::labels::Labels;
    use crate::spec::{Capability, ContainerEnv, Sharing, Ulimit, UlimitKind};

    /// Any plan for tests.
    pub(crate) fn a_plan() -> ContainerPlan {
        plan(Networks::None, Isolation::agent())
    }

    fn plan(networks: Networks, isolation: Isolation) -> ContainerPlan {
        let state = tempfile::tempdir().unwrap();
        ContainerPlan {
            name: "n".to_owned(),
            image: "localhost/base:1".to_owned(),
            entrypoint: None,
            command: Vec::new(),
            env: ContainerEnv::default().with("A", "b=c"),
            working_dir: None,
            mounts: vec![Mount::read_only_at("/srv/a:b", "/data")],
            network: PlannedNetwork {
                networks,
                sysctls: BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "0".to_owned())]),
                ..PlannedNetwork::default()
            },
            isolation,
            memory: None,
            nano_cpus: None,
            pids: None,
            disk: None,
            labels: Labels::new("sandbox", &InstanceLock::acquire(state.path()).unwrap(), "c"),
            stdin: false,
            terminal: None,
            detachment: Detachment::default(),
        }
    }

    fn check(plan: &ContainerPlan, expected: impl IntoIterator<Item = (&'static str, Value)>) {
        let body = body(plan, true);
        for (field, expected) in expected {
            assert_eq!(body.pointer(field), Some(&expected), "{field}");
        }
    }

    #[test]
    fn body_has_every_field_of_the_plan() {
        let networks = Networks::Attached(vec![
            Attachment { network: "inner".to_owned(), address: Some([10, 199, 0, 3].into()) },
            Attachment { network: "outer".to_owned(), address: None },
        ]);
        let mut plan = ContainerPlan {
            memory: Some(64 << 20),
            nano_cpus: Some(500_000_000),
            pids: Some(7),
            disk: Some(1 << 20),
            stdin: true,
            ..plan(networks, Isolation::agent())
        };
        plan.network.dns = Some([10, 199, 0, 2].into());
        let bind = json!({"type": "bind", "source": "/srv/a:b", "destination": "/data", "options": ["ro", "rprivate"]});
        check(
            &plan,
            [
                ("/env", json!({"A": "b=c"})),
                ("/stdin", json!(true)),
                ("/stop_timeout", json!(0)),
                ("/stop_signal", json!(15)),
                ("/hostname", json!("sandbox")),
                ("/healthconfig/Test", json!(["NONE"])),
                ("/labels/sandbox.role", json!("task")),
                ("/netns", json!({"nsmode": "bridge"})),
                ("/networks", json!({"inner": {"static_ips": ["10.199.0.3"]}, "outer": {}})),
                ("/cap_drop", json!(["ALL"])),
                ("/cap_add", json!(["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"])),
                ("/no_new_privileges", json!(true)),
                ("/mask", json!(["/run/.containerenv"])),
                ("/log_configuration", json!({"driver": "none", "size": null})),
                ("/resource_limits/memory", json!({"limit": 64 << 20, "swap": 64 << 20})),
                ("/resource_limits/cpu", json!({"quota": 50_000, "period": 100_000})),
                ("/resource_limits/pids", json!({"limit": 7})),
                ("/oom_score_adj", json!(0)),
                ("/image_volume_mode", json!("anonymous")),
                ("/storage_opts", json!({"size": "1048576"})),
                ("/dns_server", json!(["10.199.0.2"])),
                ("/init", json!(true)),
                ("/sysctl", json!({"net.ipv4.ip_forward": "0"})),
                ("/mounts", json!([bind])),
            ],
        );
    }

    #[test]
    fn body_has_every_field_of_the_isolation() {
        let isolation = Isolation {
            capabilities: [Capability::KILL].into(),
            seccomp: Seccomp::Profile("/p.json".into()),
            apparmor: Some("mine".parse().unwrap()),
            masked_paths: vec!["/a".to_owned(), "/b".to_owned()],
            read_only_root: true,
            tmpfs: vec![
                Tmpfs::new("/tmp", 4096),
                Tmpfs { mode: 0o700, exec: true, copy_up: true, ..Tmpfs::new("/x", 8192) },
            ],
            shm_size: 4096,
            ulimits: vec![Ulimit { kind: UlimitKind::OpenFiles, soft: 1, hard: u64::MAX }],
            user_namespace: UserNamespace::Private { first: 200_000, size: 65_536 },
            devices: vec![Device::node("/dev/kvm"), Device::Cdi("v/c=n".to_owned())],
            ..Isolation::agent()
        };
        let range = json!([{"container_id": 0, "host_id": 200_000, "size": 65_536}]);
        check(
            &plan(Networks::None, isolation),
            [
                ("/cap_add", json!(["KILL"])),
                ("/seccomp_profile_path", json!("/p.json")),
                ("/apparmor_profile", json!("mine")),
                ("/mask", json!(["/a", "/b"])),
                ("/read_only_filesystem", json!(true)),
                ("/mounts/1/destination", json!("/tmp")),
                (
                    "/mounts/1/options",
                    json!(["rw", "size=4096", "mode=1777", "noexec", "nosuid", "nodev", "notmpcopyup"]),
                ),
                (
                    "/mounts/2/options",
                    json!(["rw", "size=8192", "mode=0700", "exec", "nosuid", "nodev", "tmpcopyup"]),
                ),
                ("/ipcns/nsmode", json!("private")),
                ("/shm_size", json!(4096)),
                ("/r_limits", json!([{"type": "nofile", "soft": 1, "hard": u64::MAX}])),
                ("/userns/nsmode", json!("private")),
                ("/idmappings", json!({"UIDMap": range, "GIDMap": range})),
                ("/devices", json!([{"path": "/dev/kvm:/dev/kvm:rw"}, {"path": "v/c=n"}])),
            ],
        );
    }

    #[test]
    fn unset_fields_are_left_to_the_engine() {
        let bare = Isolation {
            no_new_privileges: false,
            seccomp: Seccomp::Default,
            ulimits: Vec::new(),
            shm_size: 0,
            ..Isolation::agent()
        };
        let unfiltered = Isolation { seccomp: Seccomp::Unconfined, ..Isolation::agent() };
        let nothing = ["/shm_size", "/r_limits", "/userns", "/idmappings", "/resource_limits"];
        let nothing = nothing.map(|field| (field, Value::Null));
        check(&plan(Networks::Default, bare.clone()), nothing);
        check(
            &plan(Networks::Default, bare),
            [
                ("/no_new_privileges", json!(false)),
                ("/seccomp_profile_path", json!(null)),
                ("/ipcns/nsmode", json!("none")),
                ("/netns", json!(null)),
                ("/networks", json!(null)),
            ],
        );
        check(&plan(Networks::Default, unfiltered), [("/seccomp_profile_path", json!("unconfined"))]);
    }

    #[test]
    fn own_hosts_file_replaces_the_engines() {
        let mut plan = a_plan();
        check(&plan, [("/use_image_hosts", json!(false))]);
        plan.mounts.push(Mount::read_only_at("/state/hosts", Launch::HOSTS_FILE));
        check(&plan, [("/use_image_hosts", json!(true))]);
    }

    #[test]
    fn oom_score_is_unset_on_a_rootless_engine() {
        assert_eq!(body(&a_plan(), false).get("oom_score_adj"), Some(&Value::Null));
    }

    #[test]
    fn copy_on_write_mount_is_an_overlay() {
        let mut plan = a_plan();
        plan.mounts = vec![Mount::copy_on_write("/srv/a:b", "/workspace", "/state/copy")];
        let options = ["upperdir=/state/copy/upper", "workdir=/state/copy/work"];
        let overlay = json!({"source": "/srv/a:b", "destination": "/workspace", "options": options});
        check(&plan, [("/overlay_volumes", json!([overlay])), ("/mounts", json!([]))]);
    }

    #[test]
    fn detached_run_has_a_log_limit_and_labelled_volumes() {
        let mut plan = a_plan();
        plan.mounts = vec![
            Mount::read_only_at("/srv/a", "/own"),
            Mount::read_only_at("/srv/a:b", "/a"),
            Mount::read_write("/srv/b", "/b"),
        ];
        plan.detachment = Detachment {
            log_limit: Some(65536),
            annotations: BTreeMap::from([("krun.cpus".to_owned(), "2".to_owned())]),
            sharing: BTreeMap::from([
                ("/a".to_owned(), Sharing::Private),
                ("/b".to_owned(), Sharing::Shared),
            ]),
        };
        check(
            &plan,
            [
                ("/log_configuration", json!({"driver": "k8s-file", "size": 65536})),
                ("/annotations", json!({"krun.cpus": "2"})),
                ("/mounts/0/options", json!(["ro", "rprivate"])),
                ("/mounts/1/options", json!(["ro", "rprivate", "Z"])),
                ("/mounts/2/options", json!(["rw", "rprivate", "z"])),
            ],
        );
    }

    #[test]
    fn container_without_a_network_has_no_attachments() {
        let expected = [("/netns", json!({"nsmode": "none"})), ("/networks", json!(null))];
        check(&plan(Networks::None, Isolation::proxy()), expected.clone());
        // An empty list means none, not the default.
        check(&plan(Networks::Attached(Vec::new()), Isolation::proxy()), expected);
        check(
            &plan(Networks::None, Isolation::proxy()),
            [
                ("/cap_add", json!([])),
                ("/read_only_filesystem", json!(true)),
                ("/user", json!("65534:65534")),
                ("/command", json!([])),
            ],
        );
    }
}
