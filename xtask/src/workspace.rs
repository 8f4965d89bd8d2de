//! The paths of the checkout, and of the state that the tasks keep in it.
//!
//! State is in the checkout's own `target/` even if `CARGO_TARGET_DIR` is another folder, so that
//! every caller finds engines and images again.

use std::path::{Path, PathBuf};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// The build output of the checkout.
pub(crate) fn target() -> PathBuf {
    root().join("target")
}

/// The state that the tasks keep between runs: engines, images, downloaded programs.
pub(crate) fn state() -> PathBuf {
    target().join("xtask")
}

/// Six hexadecimal digits that distinguish the namespaces and sockets of this checkout from those
/// of others.
pub(crate) fn tag() -> String {
    let hash = fingerprint(root().as_os_str().as_encoded_bytes());
    format!("{:06x}", hash & 0x00ff_ffff)
}

/// FNV-1a, for the names of cache entries; not safe against adversaries.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_matches_the_published_vectors() {
        for (input, expected) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(fingerprint(input.as_bytes()), expected, "{input}");
        }
    }

    #[test]
    fn root_is_the_workspace_root() {
        assert!(root().join("Cargo.toml").is_file());
        assert_eq!(tag().len(), 6);
    }
}
