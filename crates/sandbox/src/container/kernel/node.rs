//! Identifies device nodes, regardless of their names.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use sandbox_files::host_path::Resolver;

/// The device of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::container) struct Node {
    is_block: bool,
    number: (u32, u32),
}

const NULL: (u32, u32) = (1, 3);
/// The major number of pseudo-terminals.
const TERMINALS: u32 = 136;
/// The devices of every container.
const USUAL: [(&str, (u32, u32)); 6] = [
    ("/dev/null", NULL),
    ("/dev/zero", (1, 5)),
    ("/dev/full", (1, 7)),
    ("/dev/random", (1, 8)),
    ("/dev/urandom", (1, 9)),
    ("/dev/tty", (5, 0)),
];

impl Node {
    /// The device of an open file in any mode. `None`: it is not a device.
    pub(super) fn of(open: impl AsFd) -> io::Result<Option<Self>> {
        let found = statx(open, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
        let kind = FileType::from_raw_mode(u32::from(found.stx_mode));
        let is_device = matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
        Ok(is_device.then_some(Self {
            is_block: kind == FileType::BlockDevice,
            number: (found.stx_rdev_major, found.stx_rdev_minor),
        }))
    }

    /// The device at `path` of the host. `None`: there is none.
    pub(in crate::container) fn at(path: &Path) -> Option<Self> {
        Self::of(Resolver::default().find(path).ok()?).ok()?
    }

    /// Whether it is the usual device at `target`, or one that masks a file there.
    pub(in crate::container) fn is_usual_at(self, target: &str) -> bool {
        !self.is_block && (self.number == NULL || USUAL.contains(&(target, self.number)))
    }

    /// Whether it is the pseudo-terminal with this number in some `devpts`.
    pub(in crate::container) fn is_terminal(self, number: u32) -> bool {
        !self.is_block && self.number == (TERMINALS, number)
    }

    /// The character device with these numbers.
    #[cfg(test)]
    pub(in crate::container) fn character(number: (u32, u32)) -> Self {
        Self { is_block: false, number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_not_a_device_has_no_numbers() {
        let null = Node::at(Path::new("/dev/null")).unwrap();
        assert_eq!(null, Node::character((1, 3)));
        let (zero, kvm) = (Node::character((1, 5)), Node::character((10, 232)));
        assert!(null.is_usual_at("/dev/null") && null.is_usual_at("/run/.containerenv"));
        assert!(zero.is_usual_at("/dev/zero") && !zero.is_usual_at("/dev/other"));
        assert!(!kvm.is_usual_at("/dev/kvm") && !kvm.is_usual_at("/dev/null"));
        let block = Node { is_block: true, ..null };
        assert!(!block.is_usual_at("/dev/null"));
        for path in ["/dev", "/proc/self/status", "/no/such/device"] {
            assert_eq!(Node::at(Path::new(path)), None, "{path}");
        }
    }
}
