//! The parser of `/proc/self`.

use std::collections::BTreeSet;
use std::fs;

/// A mount, as listed in `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// The mounted part of its file system: `/` is all of it.
    pub(super) root: String,
    pub(super) target: String,
    pub(super) flags: BTreeSet<String>,
    pub(super) file_system: String,
    pub(super) options: BTreeSet<String>,
}

impl Mount {
    pub(super) fn is_writable(&self) -> bool {
        self.flags.contains("rw") && self.options.contains("rw")
    }

    /// Whether the file system is in memory, and belongs to this container.
    pub(super) fn is_in_memory(&self) -> bool {
        self.file_system == "tmpfs" && self.root == "/"
    }
}

/// The visible mounts. Of several at one path only the last counts.
pub(super) fn mounts() -> Result<Vec<Mount>, String> {
    let text = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    parse(&text).ok_or_else(|| "a line of mountinfo cannot be read".to_owned())
}

fn parse(text: &str) -> Option<Vec<Mount>> {
    let mut mounts: Vec<Mount> = Vec::new();
    for line in text.lines() {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut kind = kind.split(' ');
        let list = |text: &str| text.split(',').map(str::to_owned).collect();
        let mount = Mount {
            root: place.next()?.to_owned(),
            target: place.next()?.replace("\\040", " "),
            flags: list(place.next()?),
            file_system: kind.next()?.to_owned(),
            options: list(kind.nth(1)?),
        };
        mounts.retain(|other| other.target != mount.target);
        mounts.push(mount);
    }
    Some(mounts)
}

/// The value of the field `name` of `/proc/self/status`.
pub(super) fn status(name: &str) -> Result<String, String> {
    let text = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(|value| value.trim().to_owned()).ok_or_else(|| format!("/proc/self/status has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_mount_at_a_path_counts() {
        let text = "1 0 0:1 / / ro,relatime - overlay overlay rw\n\
            2 1 0:2 / /tmp rw,nosuid shared:1 - tmpfs tmpfs rw,size=64k\n\
            3 1 0:3 /a/b /tmp ro - ext4 /dev/vda rw\n";
        let mounts = parse(text).unwrap();
        assert_eq!(mounts.len(), 2);
        assert!(!mounts[0].is_writable() && !mounts[1].is_in_memory());
        assert_eq!((mounts[1].root.as_str(), mounts[1].target.as_str()), ("/a/b", "/tmp"));
        assert!(parse("1 0 0:1 / /\n").is_none());
    }

    #[test]
    fn status_of_this_process_is_read() {
        assert!(status("CapBnd").unwrap().len() == 16);
        assert!(status("NoSuchField").is_err());
    }
}
