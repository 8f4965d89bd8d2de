//! Linux capabilities as the kernel numbers them.

/// In the order of their numbers.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// The names (without `CAP_`) of the bits in a set as `/proc` shows it; a bit that has no name yet is told by its number.
pub(super) fn names(set: u64) -> Vec<String> {
    (0..u64::BITS)
        .filter(|bit| set >> bit & 1 == 1)
        .map(|bit| {
            let known = usize::try_from(bit).ok().and_then(|bit| NAMES.get(bit));
            known.map_or_else(|| format!("#{bit}"), |&name| name.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_the_names_that_the_kernel_gives_them() {
        assert!(names(0).is_empty());
        // As `capsh --decode` prints them.
        assert_eq!(
            names(0xeb),
            ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"].map(str::to_owned)
        );
        assert_eq!(
            names(1 << 12 | 1 << 21 | 1 << 40 | 1 << 63),
            ["NET_ADMIN", "SYS_ADMIN", "CHECKPOINT_RESTORE", "#63"]
        );
    }
}
