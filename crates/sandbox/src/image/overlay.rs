//! The upper layer: the lower one, with the entry point.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::build_context;
use super::entrypoint;
use crate::error::ImageBuildError;

/// Replaced by the lower layer's id.
const LOWER: &str = "@LOWER@";
/// With a shell, and without one: then the engine starts the command itself, and the variable comes
/// from the image. Both forms reset the lower layer's entry point.
pub(super) const FORMS: [&str; 2] = [
    "FROM @LOWER@\nCOPY sandbox-entrypoint /usr/local/bin/sandbox-entrypoint\nENTRYPOINT [\"/usr/local/bin/sandbox-entrypoint\"]\n",
    "FROM @LOWER@\nENV IS_SANDBOX=1\nENTRYPOINT []\n",
];

/// The archive that builds an overlay on the image with the id `lower`.
pub(super) fn context(lower: &str, has_shell: bool) -> Result<Bytes, ImageBuildError> {
    let [with_shell, without_shell] = FORMS;
    let dockerfile = if has_shell { with_shell } else { without_shell }.replace(LOWER, bare(lower));
    let script = ("sandbox-entrypoint".to_owned(), entrypoint::SCRIPT.as_bytes().to_vec());
    build_context::archive(dockerfile.as_bytes(), &BTreeMap::from([script]))
}

/// Every version of the engine accepts the hex digits as a local image's id.
fn bare(id: &str) -> &str {
    id.strip_prefix("sha256:").unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlay_is_built_on_the_lower_id_with_the_entry_point_at_its_path() {
        let text =
            |has_shell| String::from_utf8_lossy(&context("sha256:abc", has_shell).unwrap()).into_owned();
        let with_shell = text(true);
        assert!(with_shell.contains("FROM abc\n"));
        let copied =
            with_shell.lines().find_map(|line| line.strip_prefix("COPY sandbox-entrypoint ")).unwrap();
        assert!(with_shell.contains(&format!("ENTRYPOINT [\"{copied}\"]\n")));
        assert!(with_shell.contains(entrypoint::SCRIPT));
        assert!(text(false).contains("FROM abc\nENV IS_SANDBOX=1\nENTRYPOINT []\n"));
    }
}
