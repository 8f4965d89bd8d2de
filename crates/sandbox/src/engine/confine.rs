//! From an isolation to what the engine's API calls its parts.

use bollard::models::{DeviceMapping, DeviceRequest, HostConfig, ResourcesUlimits};

use crate::spec::{Device, Isolation, Seccomp, Tmpfs, Ulimit, UserNamespace};

/// A file on the host's `/run`, which root in a container could fill without bound. Without a read-only root nothing else protects it.
const ENGINES_FILE: &str = "/run/.containerenv";

/// The part of the body of a creation that confines.
pub(super) fn host(isolation: &Isolation) -> HostConfig {
    HostConfig {
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(isolation.capabilities.iter().map(ToString::to_string).collect()),
        security_opt: security_options(isolation),
        readonly_rootfs: Some(isolation.read_only_root),
        init: Some(isolation.init),
        tmpfs: (!isolation.tmpfs.is_empty()).then(|| isolation.tmpfs.iter().map(tmpfs).collect()),
        // Podman 4 calls every container's shareable; it obeys `none` on both.
        ipc_mode: Some(
            if isolation.shm_size == 0 {
                "none"
            } else {
                "private"
            }
            .to_owned(),
        ),
        shm_size: (isolation.shm_size > 0).then(|| number(isolation.shm_size)),
        ulimits: (!isolation.ulimits.is_empty()).then(|| isolation.ulimits.iter().map(ulimit).collect()),
        userns_mode: user_namespace(isolation.user_namespace),
        devices: some(isolation.devices.iter().filter_map(node).collect()),
        device_requests: some(isolation.devices.iter().filter_map(described).collect()),
        ..HostConfig::default()
    }
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// Masks are given here because podman ignores the field that is meant for them.
fn security_options(isolation: &Isolation) -> Option<Vec<String>> {
    let mut options = Vec::new();
    if isolation.no_new_privileges {
        options.push("no-new-privileges".to_owned());
    }
    match &isolation.seccomp {
        // Launching names the file of the sandbox's own.
        Seccomp::Sandbox | Seccomp::Default => {}
        Seccomp::Profile(path) => options.push(format!("seccomp={}", path.display())),
        Seccomp::Unconfined => options.push("seccomp=unconfined".to_owned()),
    }
    let engines_file = (!isolation.read_only_root).then_some(ENGINES_FILE);
    let masks: Vec<&str> = isolation
        .masked_paths
        .iter()
        .map(String::as_str)
        .chain(engines_file)
        .collect();
    if !masks.is_empty() {
        options.push(format!("mask={}", masks.join(":")));
    }
    some(options)
}

/// Everything is written out: versions differ in what they take for granted.
fn tmpfs(tmpfs: &Tmpfs) -> (String, String) {
    let exec = if tmpfs.exec { "exec" } else { "noexec" };
    let copy = if tmpfs.copy_up { "tmpcopyup" } else { "notmpcopyup" };
    let options = format!(
        "rw,size={},mode={:04o},{exec},nosuid,nodev,{copy}",
        tmpfs.size, tmpfs.mode
    );
    (tmpfs.path.clone(), options)
}

fn ulimit(limit: &Ulimit) -> ResourcesUlimits {
    ResourcesUlimits {
        name: Some(limit.kind.name().to_owned()),
        soft: Some(number(limit.soft)),
        hard: Some(number(limit.hard)),
    }
}

/// `auto` is the one mode in which the Docker-compatible API takes a range; with the whole range given, nothing is left to choose,
/// and the engine needs no range of its own in `/etc/subuid`.
fn user_namespace(namespace: UserNamespace) -> Option<String> {
    match namespace {
        UserNamespace::Host => None,
        UserNamespace::Private { first, size } => Some(format!(
            "auto:size={size},uidmapping=0:{first}:{size},gidmapping=0:{first}:{size}"
        )),
    }
}

fn node(device: &Device) -> Option<DeviceMapping> {
    let Device::Node { host, container } = device else {
        return None;
    };
    Some(DeviceMapping {
        path_on_host: Some(host.to_string_lossy().into_owned()),
        path_in_container: Some(container.clone()),
        // Not `m`: nodes of its kind cannot be made elsewhere.
        cgroup_permissions: Some("rw".to_owned()),
    })
}

fn described(device: &Device) -> Option<DeviceRequest> {
    let Device::Cdi(name) = device else {
        return None;
    };
    Some(DeviceRequest {
        driver: Some("cdi".to_owned()),
        device_ids: Some(vec![name.clone()]),
        ..DeviceRequest::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::{Capability, UlimitKind};

    #[test]
    fn each_field_has_its_place() {
        let isolation = Isolation {
            capabilities: [Capability::KILL].into(),
            seccomp: Seccomp::Profile("/p.json".into()),
            masked_paths: vec!["/a".to_owned(), "/b".to_owned()],
            read_only_root: true,
            tmpfs: vec![
                Tmpfs::new("/tmp", 4096),
                Tmpfs {
                    mode: 0o700,
                    exec: true,
                    copy_up: true,
                    ..Tmpfs::new("/x", 8192)
                },
            ],
            shm_size: 4096,
            ulimits: vec![Ulimit {
                kind: UlimitKind::OpenFiles,
                soft: 1,
                hard: 2,
            }],
            user_namespace: UserNamespace::Private {
                first: 200_000,
                size: 65_536,
            },
            devices: vec![Device::node("/dev/kvm"), Device::Cdi("v/c=n".to_owned())],
            ..Isolation::agent()
        };
        let body = serde_json::to_value(host(&isolation)).unwrap();
        for (field, expected) in [
            ("/CapDrop", json!(["ALL"])),
            ("/CapAdd", json!(["KILL"])),
            (
                "/SecurityOpt",
                json!(["no-new-privileges", "seccomp=/p.json", "mask=/a:/b"]),
            ),
            ("/ReadonlyRootfs", json!(true)),
            ("/Init", json!(true)),
            (
                "/Tmpfs/~1tmp",
                json!("rw,size=4096,mode=1777,noexec,nosuid,nodev,notmpcopyup"),
            ),
            (
                "/Tmpfs/~1x",
                json!("rw,size=8192,mode=0700,exec,nosuid,nodev,tmpcopyup"),
            ),
            ("/IpcMode", json!("private")),
            ("/ShmSize", json!(4096)),
            ("/Ulimits", json!([{"Name": "nofile", "Soft": 1, "Hard": 2}])),
            (
                "/UsernsMode",
                json!("auto:size=65536,uidmapping=0:200000:65536,gidmapping=0:200000:65536"),
            ),
            ("/Devices/0/PathOnHost", json!("/dev/kvm")),
            ("/Devices/0/CgroupPermissions", json!("rw")),
            ("/DeviceRequests/0/Driver", json!("cdi")),
            ("/DeviceRequests/0/DeviceIDs", json!(["v/c=n"])),
        ] {
            assert_eq!(body.pointer(field), Some(&expected), "{field}");
        }
    }

    #[test]
    fn what_is_not_asked_for_is_left_to_the_engine() {
        let bare = Isolation {
            no_new_privileges: false,
            ulimits: Vec::new(),
            shm_size: 0,
            ..Isolation::agent()
        };
        let body = serde_json::to_value(host(&bare)).unwrap();
        assert_eq!(
            body.pointer("/SecurityOpt"),
            Some(&json!(["mask=/run/.containerenv"]))
        );
        for field in [
            "/Tmpfs",
            "/ShmSize",
            "/Ulimits",
            "/UsernsMode",
            "/Devices",
            "/DeviceRequests",
        ] {
            assert_eq!(body.pointer(field), None, "{field}");
        }
        assert_eq!(body.pointer("/IpcMode"), Some(&json!("none")));
    }
}
