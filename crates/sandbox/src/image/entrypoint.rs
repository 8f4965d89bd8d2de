//! The program that every task container starts with.

/// The script. It needs only a POSIX shell, and execs the command, so that signals reach the
/// command.
pub(super) const SCRIPT: &str = r#"#!/bin/sh
# Claude Code runs as root only where this says that root is confined.
export IS_SANDBOX=1
exec "$@"
"#;
