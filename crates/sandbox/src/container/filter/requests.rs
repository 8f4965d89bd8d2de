//! The `ioctl` requests that a container may make: all except those that could escape the quota of
//! its root file system.
//!
//! On btrfs every user may create a subvolume, which no quota of the container counts; on XFS every
//! user may assign an own file to another project, or a folder's new files to none. A request has a
//! kind in its second byte and a number in its first; the kernel reads 32 bits, so the rules read
//! no more.

use serde_json::{Value, json};

/// Refused requests: those whose lowest 16 bits start with this many bits of this number.
const REFUSED: [(u32, u16); 3] = [
    // btrfs: subvolumes, snapshots, quota groups.
    (8, 0x9400),
    // XFS and generic: a file's project, the state of a whole file system.
    (8, 0x5800),
    // File attributes as set by chattr(1): whether new files inherit the project.
    (16, 0x6602),
];

/// Sharing of blocks between files, whose kind is otherwise btrfs's: `FICLONE`, `FICLONERANGE`,
/// `FIDEDUPERANGE`.
const PERMITTED: [u64; 3] = [0x4004_9409, 0x4020_940d, 0xc018_9436];

const BITS: u32 = 16;

/// Conditions on the arguments of `ioctl`, one of which must hold. A filter cannot express that a
/// request must *not* have a value, so they cover all remaining ranges of numbers.
pub(super) fn permitted() -> Vec<Value> {
    let mut pieces = Vec::new();
    cover(0, 0, &mut pieces);
    let piece =
        |(mask, value)| json!({"index": 1, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"});
    let exactly = |value| json!({"index": 1, "value": value, "op": "SCMP_CMP_EQ"});
    pieces.into_iter().map(piece).chain(PERMITTED.map(exactly)).collect()
}

/// Adds the mask and the value of each largest range without a refused number, among those whose
/// first `bits` bits are those of `begin`.
fn cover(begin: u16, bits: u32, pieces: &mut Vec<(u64, u64)>) {
    let mask = |bits: u32| u16::MAX.checked_shl(BITS - bits).unwrap_or(0);
    if REFUSED.iter().any(|(length, number)| *length <= bits && begin & mask(*length) == *number) {
        return;
    }
    let holds_refused = REFUSED.iter().any(|(_, number)| number & mask(bits) == begin);
    if holds_refused {
        cover(begin, bits + 1, pieces);
        cover(begin | 1 << (BITS - bits - 1), bits + 1, pieces);
    } else {
        pieces.push((mask(bits).into(), begin.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_permitted(request: u64) -> bool {
        permitted().iter().any(|condition| {
            let number = |name| condition[name].as_u64().unwrap();
            match condition["op"].as_str().unwrap() {
                "SCMP_CMP_EQ" => request == number("value"),
                _ => request & number("value") == number("valueTwo"),
            }
        })
    }

    #[test]
    fn request_that_escapes_a_quota_is_refused_with_any_ignored_bits() {
        for (name, request) in [
            ("BTRFS_IOC_SNAP_CREATE", 0x5000_9401),
            ("BTRFS_IOC_SUBVOL_CREATE", 0x5000_940e),
            ("BTRFS_IOC_SNAP_CREATE_V2", 0x5000_9417),
            ("BTRFS_IOC_SUBVOL_CREATE_V2", 0x5000_9418),
            ("BTRFS_IOC_QGROUP_LIMIT", 0x8030_942b),
            ("FS_IOC_FSSETXATTR", 0x401c_5820),
            ("FS_IOC_SETFLAGS", 0x4008_6602),
            ("FS_IOC32_SETFLAGS", 0x4004_6602),
        ] {
            for above in [0, 1 << 32, u64::MAX << 32] {
                assert!(!is_permitted(request | above), "{name} {above:x}");
            }
        }
    }

    #[test]
    fn other_requests_are_permitted() {
        for (name, request) in [
            ("TCGETS", 0x5401),
            ("FIONREAD", 0x541b),
            ("SIOCGIFCONF", 0x8912),
            ("FS_IOC_GETFLAGS", 0x8008_6601),
            ("FICLONE", 0x4004_9409),
            ("FICLONERANGE", 0x4020_940d),
            ("FIDEDUPERANGE", 0xc018_9436),
            ("TUNSETIFF", 0x4004_54ca),
            ("DRM_IOCTL_VERSION", 0xc040_6400),
        ] {
            assert!(is_permitted(request), "{name}");
        }
        let refused = (0..=0xffff).filter(|request| !is_permitted(*request)).count();
        assert_eq!(refused, 256 + 256 + 1);
        assert!(permitted().len() < 40, "{}", permitted().len());
    }
}
