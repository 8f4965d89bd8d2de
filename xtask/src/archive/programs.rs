//! Replacements of the programs that users have: agents, and the build and test tools of a project.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result};

/// The programs by their paths in a folder on the user's `PATH`. Codex finds its helpers in its
/// package.
const PROGRAMS: [(&str, &str); 6] = [
    ("claude", include_str!("programs/claude")),
    ("codex/bin/codex", include_str!("programs/codex")),
    ("codex/codex-package.json", "{}\n"),
    ("make", "#!/bin/sh\necho \"$0 $*\"\n"),
    ("npm", "#!/bin/sh\necho \"$0 $*\"\n"),
    // A password manager.
    ("op", "#!/bin/sh\necho any\n"),
];

pub(super) fn write(folder: &Path) -> Result<()> {
    for (name, text) in PROGRAMS {
        let program = folder.join(name);
        fs::create_dir_all(program.parent().unwrap_or(folder))?;
        fs::write(&program, text).with_context(|| format!("failed to write {}", program.display()))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}
