//! Parts of the host that are visible in the container.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use sandbox_inside::Order;

use super::observation::{Observation, errno, kernel};

const NOT_WRITABLE: &[Errno] = &[Errno::EROFS, Errno::EACCES, Errno::EPERM, Errno::ENOENT];

pub(super) fn namespaces_own(order: &Order) -> Observation {
    let mut problems = Vec::new();
    for (name, of_host) in &order.namespaces {
        match fs::read_link(format!("/proc/self/ns/{name}")) {
            Ok(own) if own == Path::new(of_host) => problems.push(format!("{name} is the host's")),
            Ok(_) => {}
            Err(error) => problems.push(format!("{name}: {error}")),
        }
    }
    if order.namespaces.is_empty() {
        problems.push("the host's are not known".to_owned());
    }
    let names: Vec<&str> = order.namespaces.keys().map(String::as_str).collect();
    Observation::from_problems(&problems, names.join(", "))
}

/// The first process is the engine's init or this process, and nothing else runs.
pub(super) fn processes_own() -> Observation {
    let entries = match fs::read_dir("/proc") {
        Ok(entries) => entries,
        Err(error) => return Observation::unknown("/proc", error),
    };
    let mut numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let own = std::process::id();
    let strange: Vec<String> = numbers
        .iter()
        .filter(|number| **number != 1 && **number != own)
        .map(|number| format!("process {number} is there"))
        .collect();
    Observation::from_problems(&strange, format!("{} processes", numbers.len()))
}

fn cannot_write(path: &str) -> Observation {
    // Nothing is written: opening the file is sufficient evidence.
    Observation::refused(path, kernel(OpenOptions::new().write(true).open(path)), NOT_WRITABLE)
}

pub(super) fn proc_sys_readonly() -> Observation {
    let paths = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/randomize_va_space",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/fs/file-max",
        "/proc/sysrq-trigger",
        "/proc/irq/default_smp_affinity",
    ];
    summary(paths.map(cannot_write), paths.len())
}

pub(super) fn sys_readonly() -> Observation {
    let paths = [
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
        "/sys/class/net/lo/mtu",
        "/sys/module/kernel/parameters/panic",
    ];
    let below = Observation::refused(
        "mkdir /sys/sandbox-verify",
        kernel(fs::create_dir("/sys/sandbox-verify")),
        NOT_WRITABLE,
    );
    summary(paths.map(cannot_write).into_iter().chain([below]), paths.len() + 1)
}

fn summary(parts: impl IntoIterator<Item = Observation>, count: usize) -> Observation {
    let seen = Observation::all(parts);
    if seen.held { Observation::held(format!("{count} attempts")) } else { seen }
}

/// Control groups version 2 are one tree; version 1 has one for each controller.
pub(super) fn cgroup_readonly() -> Observation {
    let root = Path::new("/sys/fs/cgroup");
    let mut folders: Vec<PathBuf> = Vec::new();
    if root.join("cgroup.controllers").exists() {
        folders.push(root.to_owned());
    } else if let Ok(entries) = fs::read_dir(root) {
        let trees = entries.flatten().map(|entry| entry.path());
        folders.extend(trees.filter(|path| path.join("cgroup.procs").exists()));
    }
    let mut parts = Vec::new();
    for folder in &folders {
        let path = folder.join("sandbox-verify");
        let attempt = kernel(fs::create_dir(&path));
        if attempt.is_ok() {
            let _ = fs::remove_dir(&path);
        }
        parts.push(Observation::refused(&path.display().to_string(), attempt, NOT_WRITABLE));
        for file in ["cgroup.procs", "memory.max", "memory.limit_in_bytes", "pids.max", "release_agent"] {
            let path = folder.join(file);
            if path.exists() {
                parts.push(cannot_write(&path.display().to_string()));
            }
        }
    }
    let count = parts.len();
    summary(parts, count)
}

pub(super) fn masked_paths() -> Observation {
    let paths = [
        "/proc/kcore",
        "/proc/keys",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/latency_stats",
        "/proc/acpi",
        "/proc/scsi",
        "/sys/firmware",
    ];
    let problems: Vec<String> = paths
        .into_iter()
        .filter(|path| has_content(Path::new(path)))
        .map(|path| format!("{path} can be read"))
        .collect();
    Observation::from_problems(&problems, format!("{} paths reveal nothing", paths.len()))
}

fn has_content(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
        }
        Ok(_) => {
            let mut byte = [0];
            File::open(path).and_then(|mut file| file.read(&mut byte)).is_ok_and(|count| count > 0)
        }
        Err(_) => false,
    }
}

pub(super) fn kernel_log_hidden() -> Observation {
    let read = |path: &str| {
        let opened = kernel(File::open(path).map(drop));
        Observation::refused(path, opened, &[Errno::EPERM, Errno::EACCES, Errno::ENOENT])
    };
    Observation::all([read("/proc/kmsg"), read("/dev/kmsg")])
}

const HARMLESS: [&str; 15] = [
    "console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
    "stdout", "tty", "urandom",
];

pub(super) fn devices_minimal(order: &Order) -> Observation {
    let entries = match fs::read_dir("/dev") {
        Ok(entries) => entries,
        Err(error) => return Observation::unknown("/dev", error),
    };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let strange: Vec<String> = names
        .iter()
        .filter(|name| *name != "zero" && !HARMLESS.contains(&name.as_str()))
        .filter(|name| !order.devices.contains(&format!("/dev/{name}")))
        .map(|name| format!("/dev/{name} is there"))
        .collect();
    Observation::from_problems(&strange, format!("{} entries", names.len()))
}

pub(super) fn hosts_file_clean(order: &Order) -> Observation {
    let text = match fs::read_to_string("/etc/hosts") {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Observation::held("there is none"),
        Err(error) => return Observation::unknown(format!("/etc/hosts ({})", errno(&error)), error),
    };
    let mut problems = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        for name in line.split_whitespace().skip(1) {
            let known = name == "localhost" || name == order.hostname || order.hosts.contains(name);
            if !known && !name.starts_with("ip6-") {
                problems.push(format!("it knows {name}"));
            }
        }
    }
    Observation::from_problems(&problems, format!("{} lines", text.lines().count()))
}
