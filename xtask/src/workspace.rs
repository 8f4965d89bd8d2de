//! Where things lie: the checkout, and what the tasks keep in it.
//!
//! State is kept under the checkout's own `target/` even when `CARGO_TARGET_DIR` points elsewhere,
//! so that engines and images are found again whoever asks.

use std::path::{Path, PathBuf};

/// The checkout's root.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// The checkout's build output.
pub(crate) fn target() -> PathBuf {
    root().join("target")
}

/// What the tasks keep between runs: engines, images, downloaded programs.
pub(crate) fn state() -> PathBuf {
    target().join("xtask")
}

/// Six hexadecimal digits that distinguish this checkout's namespaces and sockets from another's.
pub(crate) fn tag() -> String {
    let hash = fingerprint(root().as_os_str().as_encoded_bytes());
    format!("{:06x}", hash & 0x00ff_ffff)
}

/// FNV-1a: names cache entries; nothing relies on it against an adversary.
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
    fn root_is_the_workspace() {
        assert!(root().join("Cargo.toml").is_file());
        assert_eq!(tag().len(), 6);
    }
}
