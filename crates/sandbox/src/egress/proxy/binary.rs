//! The program that proxies run.

use std::path::Path;

use crate::egress::ProxyError;
use crate::program::StaticProgram;

const NAME: &str = "sandbox-proxy";

/// Finds it. Blocks.
pub(in crate::egress) fn find_binary(
    proxy_dir: Option<&Path>,
    state_dir: &Path,
) -> Result<StaticProgram, ProxyError> {
    StaticProgram::find(NAME, proxy_dir, state_dir).map_err(|problem| ProxyError::ProxyBinary { problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_told_with_the_mend() {
        let dir = tempfile::tempdir().unwrap();
        let error = find_binary(Some(dir.path()), dir.path())
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("sandbox-proxy`") && error.contains("cargo xtask proxy-image"),
            "{error}"
        );
    }
}
