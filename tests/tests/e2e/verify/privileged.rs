//! Guarantees that no isolation field can disable: the checks in containers that podman creates
//! without the sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use e2e_tests::engine;
use e2e_tests::setting::Setting;
use serde_json::{Value, json};

const PROCESSES: u32 = 40;

/// The results of the checks `ids` in a container with `overrides`.
async fn verdicts(ids: &[&str], overrides: &Value) -> BTreeMap<String, (bool, String)> {
    let probe = Setting::of_this_run().proxy_dir.join("sandbox-inside");
    let namespaces: BTreeMap<String, String> = ["net", "pid", "mnt", "ipc", "uts"]
        .into_iter()
        .map(|name| {
            let link = fs::read_link(format!("/proc/self/ns/{name}")).expect("a namespace");
            (name.to_owned(), link.to_string_lossy().into_owned())
        })
        .collect();
    let order = json!({
        "checks": ids,
        "hostname": "sandbox",
        "namespaces": namespaces,
        "owned": ["/run/sandbox/file"],
        "variables": ["HOME", "HOSTNAME", "PATH", "TERM", "container"],
        "has_proxy": true,
        "processes": PROCESSES,
    });
    let mut spec = json!({
        "image": Setting::of_this_run().clients_image,
        "command": ["/inside", "verify", order.to_string()],
        "entrypoint": [],
        "hostname": "sandbox",
        "netns": {"nsmode": "none"},
        "mounts": [],
    });
    if let (Some(spec), Some(overrides)) = (spec.as_object_mut(), overrides.as_object()) {
        spec.extend(overrides.clone());
    }
    let own = json!({"type": "bind", "source": probe, "destination": "/inside", "options": ["ro"]});
    match spec.get_mut("mounts").and_then(Value::as_array_mut) {
        Some(mounts) => mounts.push(own),
        None => panic!("mounts are a list"),
    }
    let text = engine::printed(&spec).await;
    let findings: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let found: BTreeMap<String, (bool, String)> = findings
        .iter()
        .map(|finding| {
            let text = |key: &str| finding[key].as_str().expect("a text").to_owned();
            (text("check"), (finding["held"] == true, text("detail")))
        })
        .collect();
    let asked: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), asked, "{text}");
    found
}

async fn assert_all(held: bool, ids: &[&str], overrides: &Value) {
    let found = verdicts(ids, overrides).await;
    assert!(found.values().all(|(is, _)| *is == held), "{found:#?}");
}

const OF_THE_HOST: [&str; 6] = [
    "namespaces_own",
    "processes_own",
    "proc_sys_readonly",
    "sys_readonly",
    "masked_paths",
    "environment_clean",
];

#[tokio::test(flavor = "multi_thread")]
async fn container_sharing_host_namespaces_is_detected() {
    assert_all(true, &OF_THE_HOST, &json!({})).await;
    let shared = json!({
        "privileged": true,
        "pidns": {"nsmode": "host"},
        "ipcns": {"nsmode": "host"},
        "unmask": ["ALL"],
        "env": {"SECRET": "x"},
    });
    assert_all(false, &OF_THE_HOST, &shared).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writable_files_of_the_sandbox_and_readable_keys_are_detected() {
    let ids = ["mounts_bounded", "sandbox_files_kept", "private_keys_absent"];
    let folder = tempfile::tempdir().expect("a folder");
    let (public, private) = (folder.path().join("public"), folder.path().join("private"));
    fs::write(&public, "-----BEGIN CERTIFICATE-----").expect("a file");
    fs::write(&private, ["-----BEGIN PRIVATE", "KEY-----"].join(" ")).expect("a file");
    let mount = |source: &std::path::Path, option| json!({"mounts": [{"type": "bind", "source": source, "destination": "/run/sandbox/file", "options": [option]}]});
    assert_all(true, &ids, &mount(&public, "ro")).await;
    assert_all(false, &ids, &mount(&private, "rw")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn container_able_to_raise_its_limits_or_enable_ipv6_is_detected() {
    let ids = ["cgroup_readonly", "ipv6_stays_off"];
    let off =
        json!({"sysctl": {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}});
    assert_all(true, &ids, &off).await;
    assert_all(false, &ids, &json!({"privileged": true})).await;
}

/// The default bridge of podman, whose gateway is the host: it refuses connections to ports without
/// a listener.
#[tokio::test(flavor = "multi_thread")]
async fn network_with_neighbours_and_no_proxy_is_detected() {
    let gateway = "10.88.0.1";
    let bridge = json!({"netns": {"nsmode": "bridge"}, "dns_server": ["10.88.0.9"]});
    let found = verdicts(&["neighbours_absent", "proxy_answers"], &bridge).await;
    let (held, detail) = &found["neighbours_absent"];
    assert!(!held && detail.contains(&format!("{gateway} answers")), "{found:#?}");
    assert!(!found["proxy_answers"].0, "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn process_refusal_not_caused_by_the_limit_is_detected() {
    let limited = json!({"resource_limits": {"pids": {"limit": PROCESSES}}});
    assert_all(true, &["processes_bounded"], &limited).await;
    // A filter that fails every new thread with the kernel's error at the limit.
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.json");
    let filter = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["clone", "clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 11},
    ]});
    fs::write(&profile, filter.to_string()).expect("a profile");
    let found = verdicts(&["processes_bounded"], &json!({"seccomp_profile_path": profile})).await;
    let (held, detail) = &found["processes_bounded"];
    assert!(!held && detail.starts_with("0 threads, then"), "{found:#?}");
}
