//! The seccomp profile in the engine's format.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::calls::{FREE, PRIVILEGED, REFUSED};
use super::{options, requests};

/// The profile in the form of the OCI runtimes' configuration, with podman's conditions on
/// capabilities.
pub(super) static PROFILE: LazyLock<String> = LazyLock::new(|| profile().to_string());

/// The kernel's error numbers.
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
const EPROTONOSUPPORT: u32 = 93;
const EAFNOSUPPORT: u32 = 97;

/// The `CLONE_NEW…` flags of all namespaces that `clone` creates, and of those that `unshare`
/// creates: the same and time namespaces.
const CLONE_NAMESPACES: u64 = 0x7e02_0000;
const UNSHARE_NAMESPACES: u64 = 0x7e02_0080;
/// Linux unchanged, as on a 32-bit machine, with an old version number, both; and the query of the
/// current one.
const PERSONALITIES: [u64; 5] = [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// Families that stay within the container's network: Unix sockets, IPv4, IPv6.
const UNIX: u64 = 1;
const FAMILIES: [u64; 3] = [UNIX, 2, 10];
/// Communication with the kernel, only for these: routes and addresses, sockets, device events,
/// generic netlink families.
const NETLINK: u64 = 16;
const NETLINK_SUBJECTS: [u64; 4] = [0, 4, 15, 16];
/// The kernel's audit. With the error of a kernel without audit, PAM continues (`su`, `sudo`,
/// `passwd`); with any other error it gives up.
const NETLINK_AUDIT: u64 = 9;
/// The packet filter, only available with the capability to configure networks.
const NETLINK_NETFILTER: u64 = 12;
const PACKET: u64 = 17;

fn profile() -> Value {
    let mut rules: Vec<Value> = FREE.iter().map(|calls| allow(calls)).collect();
    for (capability, calls) in PRIVILEGED {
        let condition = json!({"caps": [capability]});
        rules.push(with(allow(calls), "includes", condition.clone()));
        rules.push(with(refuse(calls, EPERM), "excludes", condition));
    }
    rules.push(refuse(REFUSED, EPERM));
    rules.extend(namespaces());
    rules.extend(PERSONALITIES.map(|persona| when(allow("personality"), &[equal(0, persona)])));
    rules.extend(sockets());
    rules.extend(requests::permitted().into_iter().map(|request| when(allow("ioctl"), &[request])));
    rules.extend(options::permitted().iter().map(|option| when(allow("setsockopt"), option)));
    rules.extend(options::refused().iter().map(|option| when(refuse("setsockopt", EPERM), option)));
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": ENOSYS,
        "archMap": [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
        ],
        "syscalls": rules,
    })
}

/// New processes, but in no new namespace. With the capability, everything that the kernel permits.
fn namespaces() -> Vec<Value> {
    let admin = || json!({"caps": ["CAP_SYS_ADMIN"]});
    let none_of =
        |namespaces| json!({"index": 0, "value": namespaces, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"});
    vec![
        with(allow("clone clone3 unshare"), "includes", admin()),
        with(when(allow("clone"), &[none_of(CLONE_NAMESPACES)]), "excludes", admin()),
        with(when(allow("unshare"), &[none_of(UNSHARE_NAMESPACES)]), "excludes", admin()),
    ]
}

/// An allowlist, because others leave the network namespace (`AF_VSOCK` leads to the machine's
/// hypervisor) or are large parts of the kernel that no task needs (`AF_ALG`, `AF_CAN`, `AF_TIPC`
/// …). Values are compared in all 64 bits; a value that the kernel would truncate is not in the
/// list.
fn sockets() -> Vec<Value> {
    let socket = || allow("socket");
    let mut rules: Vec<Value> = FAMILIES.iter().map(|family| when(socket(), &[equal(0, *family)])).collect();
    rules.extend(NETLINK_SUBJECTS.map(|subject| when(socket(), &[equal(0, NETLINK), equal(2, subject)])));
    rules.push(when(refuse("socket", EPROTONOSUPPORT), &[equal(0, NETLINK), equal(2, NETLINK_AUDIT)]));
    let admin = json!({"caps": ["CAP_NET_ADMIN"]});
    let packet_filter = [equal(0, NETLINK), equal(2, NETLINK_NETFILTER)];
    rules.push(with(when(socket(), &packet_filter), "includes", admin));
    let raw = || json!({"caps": ["CAP_NET_RAW"]});
    rules.push(with(when(socket(), &[equal(0, PACKET)]), "includes", raw()));
    rules.push(with(when(refuse("socket", EPERM), &[equal(0, PACKET)]), "excludes", raw()));
    let others = (0..NETLINK).filter(|family| !FAMILIES.contains(family));
    let unknown = || refuse("socket", EAFNOSUPPORT);
    rules.extend(others.map(|family| when(unknown(), &[equal(0, family)])));
    rules.push(when(allow("socketpair"), &[equal(0, UNIX)]));
    rules.push(when(unknown(), &[json!({"index": 0, "value": PACKET, "op": "SCMP_CMP_GT"})]));
    rules
}

fn allow(calls: &str) -> Value {
    json!({"names": names(calls), "action": "SCMP_ACT_ALLOW"})
}

fn refuse(calls: &str, errno: u32) -> Value {
    json!({"names": names(calls), "action": "SCMP_ACT_ERRNO", "errnoRet": errno})
}

fn names(calls: &str) -> Vec<&str> {
    calls.split_ascii_whitespace().collect()
}

fn equal(index: u32, value: u64) -> Value {
    json!({"index": index, "value": value, "op": "SCMP_CMP_EQ"})
}

/// The rule, for calls whose arguments meet all of `conditions`.
fn when(rule: Value, conditions: &[Value]) -> Value {
    with(rule, "args", json!(conditions))
}

fn with(mut rule: Value, key: &str, value: Value) -> Value {
    if let Some(fields) = rule.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
    rule
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Whether a rule without conditions, or with `capability` alone, permits `call`.
    fn permits(call: &str, capability: Option<&str>) -> bool {
        let profile: Value = serde_json::from_str(&PROFILE).unwrap();
        profile["syscalls"].as_array().unwrap().iter().any(|rule| {
            let names = rule["names"].as_array().unwrap();
            let caps = &rule["includes"]["caps"];
            let is_free = rule["includes"].is_null() && rule["args"].is_null();
            let has = capability
                .is_some_and(|name| caps.as_array().is_some_and(|caps| caps.iter().any(|cap| cap == name)));
            rule["action"] == "SCMP_ACT_ALLOW" && names.iter().any(|name| name == call) && (is_free || has)
        })
    }

    #[test]
    fn namespaces_and_mounts_need_the_capability() {
        for call in
            ["unshare", "clone", "clone3", "setns", "mount", "move_mount", "fsopen", "pivot_root", "umount2"]
        {
            assert!(!permits(call, None), "{call}");
            assert!(permits(call, Some("CAP_SYS_ADMIN")), "{call}");
        }
        for call in ["keyctl", "add_key", "userfaultfd", "kexec_load"] {
            assert!(!permits(call, None) && !permits(call, Some("CAP_SYS_ADMIN")), "{call}");
        }
        for call in ["read", "execve", "fork", "vfork", "futex", "epoll_pwait2", "ptrace"] {
            assert!(permits(call, None), "{call}");
        }
    }

    #[test]
    fn every_call_is_listed_once() {
        let mut seen = BTreeSet::new();
        let lists = FREE.iter().chain([&REFUSED]);
        for call in
            lists.chain(PRIVILEGED.iter().map(|(_, calls)| calls)).flat_map(|calls| names(calls)).chain([
                "clone",
                "clone3",
                "unshare",
                "personality",
                "socket",
                "socketpair",
                "ioctl",
                "setsockopt",
            ])
        {
            assert!(seen.insert(call), "{call}");
        }
        for call in ["socketcall", "io_uring_setup", "modify_ldt", "file_setattr"] {
            assert!(!seen.contains(call), "{call}");
        }
    }

    /// The filter's result for `socket(family, …, protocol)`: the result of overlapping rules would
    /// depend on the runtime's library.
    fn answers(family: u64, protocol: u64, capability: Option<&str>) -> Vec<String> {
        let profile: Value = serde_json::from_str(&PROFILE).unwrap();
        let has = |condition: &Value| {
            condition["caps"]
                .as_array()
                .is_some_and(|caps| caps.iter().any(|cap| Some(cap.as_str().unwrap()) == capability))
        };
        let meets = |argument: &Value| {
            let is = if argument["index"] == 0 { family } else { protocol };
            let value = argument["value"].as_u64().unwrap();
            if argument["op"] == "SCMP_CMP_GT" { is > value } else { is == value }
        };
        profile["syscalls"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|rule| rule["names"].as_array().unwrap().iter().any(|name| name == "socket"))
            .filter(|rule| rule["includes"].is_null() || has(&rule["includes"]))
            .filter(|rule| rule["excludes"].is_null() || !has(&rule["excludes"]))
            .filter(|rule| rule["args"].as_array().unwrap().iter().all(meets))
            .map(|rule| format!("{} {}", rule["action"].as_str().unwrap(), rule["errnoRet"]))
            .collect()
    }

    #[test]
    fn socket_outside_of_the_containers_network_is_refused() {
        for family in [1, 2, 10] {
            assert_eq!(answers(family, 0, None), ["SCMP_ACT_ALLOW null"], "{family}");
        }
        for family in
            (0..60).filter(|family| ![1, 2, 10, 16, 17].contains(family)).chain([1 << 32 | 2, u64::MAX])
        {
            assert_eq!(answers(family, 0, None), ["SCMP_ACT_ERRNO 97"], "{family}");
        }
        assert_eq!(answers(17, 3, None), ["SCMP_ACT_ERRNO 1"]);
        assert_eq!(answers(17, 3, Some("CAP_NET_RAW")), ["SCMP_ACT_ALLOW null"]);
        assert_eq!(answers(16, 0, None), ["SCMP_ACT_ALLOW null"]);
        assert_eq!(answers(16, 9, None), ["SCMP_ACT_ERRNO 93"]);
        assert_eq!(answers(16, 12, Some("CAP_NET_ADMIN")), ["SCMP_ACT_ALLOW null"]);
        for subject in [6, 12, 21] {
            assert!(answers(16, subject, None).is_empty(), "{subject}: the default, which is an error");
        }
    }
}
