//! What the kernel enforces for a container that stands but does not run yet, read from `/proc`.
//!
//! The engine's inspect does not tell whether sysctls were set, and nothing that it tells is as good as the kernel's own word. The
//! filter of system calls is not here: with no-new-privileges, runtimes load it in the last moment before the program.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// What `/proc` says about the first process of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KernelFacts {
    /// The capabilities that any process of it can ever have, as a bit set.
    pub(super) bounding: u64,
    pub(super) no_new_privileges: bool,
    /// The names of its network interfaces.
    pub(super) interfaces: BTreeSet<String>,
    /// Whether any interface has an IPv6 address, loopback included.
    pub(super) has_ipv6: bool,
    /// Whether IPv4 packets are forwarded between its interfaces.
    pub(super) forwards_ipv4: bool,
    /// Its namespaces that are also ours: `net`, `pid`, `mnt`, `ipc`, `uts`.
    pub(super) shared_namespaces: BTreeSet<&'static str>,
}

/// Reads the facts about the process `pid`, which must be of the container `id`: where this program has a process namespace of its
/// own, the number means another process.
pub(super) fn read(proc: &Path, pid: u32, id: &str) -> Result<KernelFacts, String> {
    let process = proc.join(pid.to_string());
    let text = |name: &str| {
        let path = process.join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    if !text("cgroup")?.contains(id) {
        return Err(format!("process {pid} is not the container's"));
    }
    let status = text("status")?;
    Ok(KernelFacts {
        bounding: field(&status, "CapBnd")
            .and_then(|bits| u64::from_str_radix(bits, 16).ok())
            .ok_or("no CapBnd")?,
        no_new_privileges: field(&status, "NoNewPrivs").ok_or("no NoNewPrivs")? == "1",
        interfaces: interfaces(&text("net/dev")?),
        has_ipv6: has_ipv6(&process.join("net/if_inet6"))
            .map_err(|error| format!("net/if_inet6: {error}"))?,
        forwards_ipv4: forwards(&text("net/snmp")?).ok_or("no Forwarding in net/snmp")?,
        shared_namespaces: shared_namespaces(proc, &process)?,
    })
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

/// `net/dev` has two lines of headings, then a line for each interface.
fn interfaces(dev: &str) -> BTreeSet<String> {
    dev.lines()
        .skip(2)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim().to_owned())
        .collect()
}

/// A kernel without IPv6 has no such file.
fn has_ipv6(addresses: &Path) -> io::Result<bool> {
    match std::fs::read_to_string(addresses) {
        Ok(text) => Ok(!text.trim().is_empty()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// `net/snmp` has a line of names and a line of values for each protocol; forwarding is 1, not forwarding 2.
fn forwards(snmp: &str) -> Option<bool> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let (_, value) = names
        .split(' ')
        .zip(values.split(' '))
        .find(|(name, _)| *name == "Forwarding")?;
    match value {
        "1" => Some(true),
        "2" => Some(false),
        _ => None,
    }
}

fn shared_namespaces(proc: &Path, process: &Path) -> Result<BTreeSet<&'static str>, String> {
    let of = |process: &Path, name: &str| {
        let path = process.join("ns").join(name);
        path.read_link()
            .map_err(|error| format!("{}: {error}", path.display()))
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
        fs::write(
            process.join("cgroup"),
            format!("1:name=systemd:/libpod_parent/libpod-{id}\n"),
        )
        .unwrap();
        fs::write(process.join("status"), status).unwrap();
        fs::write(process.join("net/if_inet6"), addresses).unwrap();
        fs::write(process.join("net/snmp"), snmp).unwrap();
        fs::write(
            process.join("net/dev"),
            "Inter-| Receive\n face |bytes\n    lo: 0 0\n  eth0: 1 2\n",
        )
        .unwrap();
        proc
    }

    const STATUS: &str = "Name:\tcrun\nCapBnd:\t00000000000000eb\nNoNewPrivs:\t1\n";

    #[test]
    fn reads_what_the_kernel_says() {
        let proc = fake("0f", STATUS, "", SNMP);
        let facts = read(proc.path(), 7, "0f").unwrap();
        let expected = KernelFacts {
            bounding: 0xeb,
            no_new_privileges: true,
            interfaces: BTreeSet::from(["eth0".to_owned(), "lo".to_owned()]),
            has_ipv6: false,
            forwards_ipv4: false,
            shared_namespaces: BTreeSet::new(),
        };
        assert_eq!(facts, expected);
    }

    #[test]
    fn weaknesses_are_seen() {
        let status = STATUS.replace("NoNewPrivs:\t1", "NoNewPrivs:\t0");
        let proc = fake(
            "0f",
            &status,
            "fe80... 02 40 20 80 eth0\n",
            &SNMP.replace("Ip: 2", "Ip: 1"),
        );
        let net = proc.path().join("7/ns/net");
        fs::remove_file(&net).unwrap();
        symlink("net:[1]", &net).unwrap();
        let facts = read(proc.path(), 7, "0f").unwrap();
        assert!(!facts.no_new_privileges && facts.has_ipv6 && facts.forwards_ipv4);
        assert_eq!(facts.shared_namespaces, BTreeSet::from(["net"]));
    }

    #[test]
    fn what_is_missing_or_another_process_is_no_answer() {
        assert!(
            read(fake("0e", STATUS, "", SNMP).path(), 7, "0f").is_err(),
            "another container's process"
        );
        assert!(
            read(fake("0f", STATUS, "", SNMP).path(), 8, "0f").is_err(),
            "no such process"
        );
        assert!(
            read(fake("0f", STATUS, "", "").path(), 7, "0f").is_err(),
            "no Forwarding"
        );
        assert!(
            read(
                fake("0f", STATUS, "", &SNMP.replace("Ip: 2", "Ip: 3")).path(),
                7,
                "0f"
            )
            .is_err()
        );
        for line in ["CapBnd", "NoNewPrivs"] {
            let status: String = STATUS
                .lines()
                .filter(|text| !text.starts_with(line))
                .collect::<Vec<_>>()
                .join("\n");
            assert!(
                read(fake("0f", &status, "", SNMP).path(), 7, "0f").is_err(),
                "{line}"
            );
        }
    }
}
