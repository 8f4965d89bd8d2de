//! The program that every task container starts with.

/// The program. A POSIX shell is all it needs; it gives way to the command, which so becomes the
/// process that signals reach.
pub(super) const SCRIPT: &str = r#"#!/bin/sh
# Claude Code runs as root only where this says that root is confined.
export IS_SANDBOX=1
exec "$@"
"#;
