//! Mounts in the format of `/proc/PID/mountinfo`.

use std::collections::BTreeSet;

/// A mount of the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::container) struct KernelMount {
    /// The number of the file system's device: the same for all its mounts.
    pub(in crate::container) device: String,
    /// The mounted part of the file system: `/` is all of it.
    pub(in crate::container) root: String,
    /// The path in the container.
    pub(in crate::container) target: String,
    pub(in crate::container) file_system: String,
    /// The device, if the file system is on one.
    pub(in crate::container) source: String,
    /// The options of this mount: `ro`, `noexec` and so on.
    pub(in crate::container) flags: BTreeSet<String>,
    /// The options of the file system, such as `size=64k`.
    pub(in crate::container) options: BTreeSet<String>,
}

impl KernelMount {
    /// The value of the file system's option `name`.
    pub(in crate::container) fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// The size of an in-memory file system, in bytes. `None`: unbounded, or another file system.
    pub(in crate::container) fn size(&self) -> Option<u64> {
        let text = self.option("size")?;
        match text.strip_suffix('k') {
            Some(kibibytes) => kibibytes.parse::<u64>().ok()?.checked_mul(1024),
            None => text.parse().ok(),
        }
    }

    pub(in crate::container) fn is_read_only(&self) -> bool {
        self.flags.contains("ro")
    }
}

/// Each line: id, parent, device, root, target, flags, any number of fields, `-`, file system,
/// source, options.
pub(in crate::container) fn parse(text: &str) -> Option<Vec<KernelMount>> {
    text.lines().map(mount).collect()
}

fn mount(line: &str) -> Option<KernelMount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    let mut kind = kind.split(' ');
    let list = |text: &str| text.split(',').map(str::to_owned).collect();
    Some(KernelMount {
        device: place.next()?.to_owned(),
        root: unescaped(place.next()?),
        target: unescaped(place.next()?),
        flags: list(place.next()?),
        file_system: kind.next()?.to_owned(),
        source: unescaped(kind.next()?),
        options: list(&unescaped(kind.next()?)),
    })
}

/// Spaces and backslashes are escaped as octal numbers.
fn unescaped(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .into_iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_engines_are_parsed() {
        let text = "155 84 0:49 / / ro,relatime - overlay overlay rw,lowerdir=/a:/b\n\
            159 155 0:55 / /tmp rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,size=65536k\n\
            158 155 0:54 / /var/tmp rw,nosuid,nodev,relatime shared:7 master:1 - tmpfs tmpfs rw\n\
            164 155 254:0 /tmp/g\\040x/hosts /etc/hosts ro,relatime - ext4 /dev/vda rw,discard\n";
        let mounts = parse(text).unwrap();
        let [root, tmp, var_tmp, hosts] = mounts.as_slice() else {
            panic!("{mounts:?}");
        };
        assert!(root.is_read_only() && root.file_system == "overlay" && root.size().is_none());
        assert_eq!((tmp.size(), tmp.option("mode")), (Some(64 << 20), None));
        assert!(tmp.flags.contains("noexec") && !tmp.is_read_only());
        assert_eq!(var_tmp.size(), None);
        assert_eq!((hosts.root.as_str(), hosts.target.as_str()), ("/tmp/g x/hosts", "/etc/hosts"));
        assert_eq!((hosts.source.as_str(), hosts.option("discard")), ("/dev/vda", None));
        assert!(parse("155 84 0:49 / /\n").is_none());
    }
}
