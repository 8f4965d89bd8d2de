//! Facts about one process.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use crate::spec::UlimitKind;
use sandbox_files::host_path::Identity;

use super::filter::Filter;
use super::mountinfo::{self, KernelMount};
use super::node::Node;
use super::process::Process;

/// A soft and a hard limit; `None` is unlimited.
pub(in crate::container) type SoftAndHard = (Option<u64>, Option<u64>);

/// The facts in `/proc` about the first process of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::container) struct KernelFacts {
    /// The capabilities that any of its processes can ever have, as a bit set.
    pub(in crate::container) bounding: u64,
    pub(in crate::container) no_new_privileges: bool,
    /// How much sooner the kernel kills it for lack of memory; negative values mean later.
    pub(in crate::container) oom_score_adj: i32,
    /// The names of its network interfaces.
    pub(in crate::container) interfaces: BTreeSet<String>,
    /// Whether any interface has an IPv6 address, loopback included.
    pub(in crate::container) has_ipv6: bool,
    /// Whether IPv4 packets are forwarded between its interfaces.
    pub(in crate::container) forwards_ipv4: bool,
    /// The namespaces that it shares with this process: `net`, `pid`, `mnt`, `ipc`, `uts`.
    pub(in crate::container) shared_namespaces: BTreeSet<&'static str>,
    /// Its user, as a number on the host.
    pub(in crate::container) user: u32,
    /// The mapping of its users: first number inside, first number outside, count.
    pub(in crate::container) users: Vec<(u32, u32, u32)>,
    /// The mapping of its groups.
    pub(in crate::container) groups: Vec<(u32, u32, u32)>,
    pub(in crate::container) limits: BTreeMap<UlimitKind, SoftAndHard>,
    /// The controllers with a control group of the container's own: `memory`, `cpu`, `pids`.
    pub(in crate::container) controlled: BTreeSet<&'static str>,
    pub(in crate::container) mounts: Vec<KernelMount>,
    /// The queried paths that do not exist in the container.
    pub(in crate::container) absent: BTreeSet<String>,
    /// The mounted files at the queried paths that exist.
    pub(in crate::container) roots: BTreeMap<String, Identity>,
    /// The devices at the queried paths.
    pub(in crate::container) nodes: BTreeMap<String, Node>,
    /// The requested devices of the host, by their paths in the container.
    pub(in crate::container) planned_nodes: BTreeMap<String, Node>,
    /// The maximum bytes of its root file system, if queried: see
    /// [`disk_bound`](super::disk_bound).
    pub(in crate::container) disk: Option<u64>,
    /// The seccomp filter that the runtime was asked to load.
    pub(in crate::container) filter: Option<Filter>,
    /// The requested profile, if any, or why it cannot be read.
    pub(in crate::container) profile: Option<Result<Filter, String>>,
    /// The `AppArmor` profile that the runtime was asked to apply.
    pub(in crate::container) apparmor: Option<String>,
}

/// Reads the facts about `first`, which must be a process of the container. `asked` are paths in
/// the container.
pub(in crate::container) fn read(
    proc: &Path,
    first: Process<'_>,
    asked: &[String],
) -> Result<KernelFacts, String> {
    let pid = first.pid;
    let process = proc.join(pid.to_string());
    let text = |name: &str| {
        let path = process.join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    if !first.is_of_container(proc) {
        return Err(format!("process {pid} is not the container's"));
    }
    let status = text("status")?;
    Ok(KernelFacts {
        bounding: field(&status, "CapBnd")
            .and_then(|bits| u64::from_str_radix(bits, 16).ok())
            .ok_or("no CapBnd")?,
        no_new_privileges: field(&status, "NoNewPrivs").ok_or("no NoNewPrivs")? == "1",
        oom_score_adj: text("oom_score_adj")?.trim().parse().map_err(|_| "no oom_score_adj")?,
        interfaces: interfaces(&text("net/dev")?),
        has_ipv6: has_ipv6(&process.join("net/if_inet6"))
            .map_err(|error| format!("net/if_inet6: {error}"))?,
        forwards_ipv4: forwards(&text("net/snmp")?).ok_or("no Forwarding in net/snmp")?,
        shared_namespaces: shared_namespaces(proc, &process)?,
        user: field(&status, "Uid")
            .and_then(|ids| ids.split_whitespace().next()?.parse().ok())
            .ok_or("no Uid")?,
        users: ids(&text("uid_map")?).ok_or("no uid_map")?,
        groups: ids(&text("gid_map")?).ok_or("no gid_map")?,
        limits: limits(&text("limits")?).ok_or("no limits")?,
        controlled: first.controlled(proc),
        mounts: mountinfo::parse(&text("mountinfo")?).ok_or("no mountinfo")?,
        absent: asked
            .iter()
            .filter(|path| is_absent(&process.join("root").join(path.trim_start_matches('/'))))
            .cloned()
            .collect(),
        roots: BTreeMap::new(),
        nodes: BTreeMap::new(),
        planned_nodes: BTreeMap::new(),
        disk: None,
        filter: None,
        profile: None,
        apparmor: None,
    })
}

/// The mounted files at `targets` in the container of the process `pid`.
pub(in crate::container) fn roots<'a>(
    proc: &Path,
    pid: u32,
    targets: impl Iterator<Item = &'a str>,
) -> io::Result<BTreeMap<String, Identity>> {
    look_at(proc, pid, targets, |held| Identity::of(held).ok())
}

/// The devices among `targets` in the container of the process `pid`.
pub(in crate::container) fn nodes<'a>(
    proc: &Path,
    pid: u32,
    targets: impl Iterator<Item = &'a str>,
) -> io::Result<BTreeMap<String, Node>> {
    look_at(proc, pid, targets, |held| Node::of(held).ok()?)
}

/// Links are resolved in the container's own root.
fn look_at<'a, T>(
    proc: &Path,
    pid: u32,
    targets: impl Iterator<Item = &'a str>,
    look: impl Fn(OwnedFd) -> Option<T>,
) -> io::Result<BTreeMap<String, T>> {
    let path = proc.join(pid.to_string()).join("root");
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = openat(CWD, path, flags | OFlags::DIRECTORY, Mode::empty())?;
    let open = |target: &str| openat2(&root, target, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    Ok(targets.filter_map(|target| Some((target.to_owned(), look(open(target).ok()?)?))).collect())
}

/// A path that cannot be inspected does not count as absent.
fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Three numbers per line.
fn ids(map: &str) -> Option<Vec<(u32, u32, u32)>> {
    map.lines()
        .map(|line| {
            let mut numbers = line.split_whitespace().map(str::parse);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?))
        })
        .collect()
}

/// A title, the soft limit and the hard limit, in columns.
fn limits(table: &str) -> Option<BTreeMap<UlimitKind, SoftAndHard>> {
    let limit = |text: &str| match text {
        "unlimited" => Some(None),
        number => Some(Some(number.parse().ok()?)),
    };
    UlimitKind::ALL
        .into_iter()
        .map(|kind| {
            let line = table.lines().find_map(|line| line.strip_prefix(kind.title()))?;
            let mut columns = line.split_whitespace();
            Some((kind, (limit(columns.next()?)?, limit(columns.next()?)?)))
        })
        .collect()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// `net/dev` has two header lines, then a line for each interface.
fn interfaces(dev: &str) -> BTreeSet<String> {
    dev.lines()
        .skip(2)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim().to_owned())
        .collect()
}

/// A kernel without IPv6 does not have the file.
fn has_ipv6(addresses: &Path) -> io::Result<bool> {
    match std::fs::read_to_string(addresses) {
        Ok(text) => Ok(!text.trim().is_empty()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// `net/snmp` has a line of names and a line of values for each protocol; 1 means forwarding, 2 not
/// forwarding.
fn forwards(snmp: &str) -> Option<bool> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let (_, value) = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "Forwarding")?;
    match value {
        "1" => Some(true),
        "2" => Some(false),
        _ => None,
    }
}

fn shared_namespaces(proc: &Path, process: &Path) -> Result<BTreeSet<&'static str>, String> {
    let of = |process: &Path, name: &str| {
        let path = process.join("ns").join(name);
        path.read_link().map_err(|error| format!("{}: {error}", path.display()))
    };
    let mut shared = BTreeSet::new();
    for name in ["net", "pid", "mnt", "ipc", "uts"] {
        if of(process, name)? == of(&proc.join("self"), name)? {
            shared.insert(name);
        }
    }
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const SNMP: &str = "Ip: Forwarding DefaultTTL InReceives\nIp: 2 64 0\nIcmp: InMsgs\nIcmp: 0\n";

    fn read(proc: &Path, pid: u32, id: &str) -> Result<KernelFacts, String> {
        super::read(proc, process(pid, id), &[])
    }

    fn process(pid: u32, id: &str) -> Process<'_> {
        Process { pid, monitor: 6, id }
    }

    fn fake(id: &str, status: &str, addresses: &str, snmp: &str) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        for (process, namespace) in [("7", "net:[7]"), ("self", "net:[1]")] {
            fs::create_dir_all(proc.path().join(process).join("net")).unwrap();
            fs::create_dir_all(proc.path().join(process).join("ns")).unwrap();
            for name in ["net", "pid", "mnt", "ipc", "uts"] {
                symlink(namespace, proc.path().join(process).join("ns").join(name)).unwrap();
            }
        }
        let process = proc.path().join("7");
        fs::write(process.join("cgroup"), format!("1:name=systemd:/libpod_parent/libpod-{id}\n")).unwrap();
        fs::write(process.join("status"), status).unwrap();
        for (name, text) in [
            ("uid_map", "         0     200000      65536\n"),
            ("gid_map", "         0     300000      65536\n"),
            ("limits", LIMITS),
            ("oom_score_adj", "200\n"),
            ("mountinfo", "155 84 0:49 / / rw,relatime - overlay overlay rw\n"),
        ] {
            fs::write(process.join(name), text).unwrap();
        }
        fs::write(process.join("net/if_inet6"), addresses).unwrap();
        fs::write(process.join("net/snmp"), snmp).unwrap();
        fs::write(process.join("net/dev"), "Inter-| Receive\n face |bytes\n    lo: 0 0\n  eth0: 1 2\n")
            .unwrap();
        proc
    }

    const STATUS: &str =
        "Name:\tcrun\nUid:\t1000\t1000\t1000\t1000\nCapBnd:\t00000000000000eb\nNoNewPrivs:\t1\n";
    const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     \n\
Max cpu time              unlimited            unlimited            seconds   \n\
Max file size             unlimited            unlimited            bytes     \n\
Max data size             unlimited            unlimited            bytes     \n\
Max stack size            8388608              unlimited            bytes     \n\
Max core file size        0                    0                    bytes     \n\
Max resident set          unlimited            unlimited            bytes     \n\
Max processes             100                  200                  processes \n\
Max open files            512                  1024                 files     \n\
Max locked memory         65536                65536                bytes     \n\
Max address space         unlimited            unlimited            bytes     \n\
Max file locks            unlimited            unlimited            locks     \n\
Max pending signals       96365                96365                signals   \n";

    #[test]
    fn facts_are_read_from_proc() {
        let proc = fake("0f", STATUS, "", SNMP);
        let asked = ["/nowhere", "/etc"].map(str::to_owned);
        fs::create_dir_all(proc.path().join("7/root/etc")).unwrap();
        let facts = super::read(proc.path(), process(7, "0f"), &asked).unwrap();
        let expected = KernelFacts {
            bounding: 0xeb,
            no_new_privileges: true,
            oom_score_adj: 200,
            interfaces: BTreeSet::from(["eth0".to_owned(), "lo".to_owned()]),
            has_ipv6: false,
            forwards_ipv4: false,
            shared_namespaces: BTreeSet::new(),
            user: 1000,
            users: vec![(0, 200_000, 65_536)],
            groups: vec![(0, 300_000, 65_536)],
            limits: facts.limits.clone(),
            controlled: BTreeSet::new(),
            mounts: facts.mounts.clone(),
            absent: BTreeSet::from(["/nowhere".to_owned()]),
            roots: BTreeMap::new(),
            nodes: BTreeMap::new(),
            planned_nodes: BTreeMap::new(),
            disk: None,
            filter: None,
            profile: None,
            apparmor: None,
        };
        assert_eq!(facts, expected);
        assert_eq!(facts.mounts.len(), 1);
        for (kind, limits) in [
            (UlimitKind::Core, (Some(0), Some(0))),
            (UlimitKind::Processes, (Some(100), Some(200))),
            (UlimitKind::Stack, (Some(8 << 20), None)),
            (UlimitKind::Cpu, (None, None)),
        ] {
            assert_eq!(facts.limits.get(&kind), Some(&limits), "{kind:?}");
        }
    }

    #[test]
    fn devices_are_identified_in_the_containers_root() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("7")).unwrap();
        symlink("/dev", proc.path().join("7/root")).unwrap();
        let found = nodes(proc.path(), 7, ["/null", "/", "/nothing"].into_iter()).unwrap();
        assert_eq!(found, BTreeMap::from([("/null".to_owned(), Node::character((1, 3)))]));
        assert!(nodes(proc.path(), 8, std::iter::empty()).is_err());
    }

    #[test]
    fn weaker_confinement_is_reported() {
        let status = STATUS.replace("NoNewPrivs:\t1", "NoNewPrivs:\t0");
        let proc = fake("0f", &status, "fe80... 02 40 20 80 eth0\n", &SNMP.replace("Ip: 2", "Ip: 1"));
        let net = proc.path().join("7/ns/net");
        fs::remove_file(&net).unwrap();
        symlink("net:[1]", &net).unwrap();
        let facts = read(proc.path(), 7, "0f").unwrap();
        assert!(!facts.no_new_privileges && facts.has_ipv6 && facts.forwards_ipv4);
        assert_eq!(facts.shared_namespaces, BTreeSet::from(["net"]));
    }

    #[test]
    fn missing_or_foreign_process_is_an_error() {
        assert!(read(fake("0e", STATUS, "", SNMP).path(), 7, "0f").is_err(), "another container's process");
        assert!(read(fake("0f", STATUS, "", SNMP).path(), 8, "0f").is_err(), "no such process");
        assert!(read(fake("0f", STATUS, "", "").path(), 7, "0f").is_err(), "no Forwarding");
        assert!(read(fake("0f", STATUS, "", &SNMP.replace("Ip: 2", "Ip: 3")).path(), 7, "0f").is_err());
        for file in ["uid_map", "gid_map", "limits", "mountinfo", "oom_score_adj"] {
            let proc = fake("0f", STATUS, "", SNMP);
            fs::remove_file(proc.path().join("7").join(file)).unwrap();
            assert!(read(proc.path(), 7, "0f").is_err(), "{file}");
        }
        for line in ["CapBnd", "NoNewPrivs", "Uid"] {
            let status: String =
                STATUS.lines().filter(|text| !text.starts_with(line)).collect::<Vec<_>>().join("\n");
            assert!(read(fake("0f", &status, "", SNMP).path(), 7, "0f").is_err(), "{line}");
        }
    }
}
