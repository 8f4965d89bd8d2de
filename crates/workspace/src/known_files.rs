//! Files that host programs read implicitly when a user merely enters, opens, builds or commits in
//! a folder.
//!
//! One row per program. `Guarded`: existing files are mounted read-only, and new ones are moved
//! away. `Reported`: everyday work changes the file, so it remains in place and the result lists
//! it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

/// The treatment of a known file that a task wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    Guarded,
    Reported,
}

/// Files of a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownFile {
    pub(super) tool: &'static str,
    pub(super) treatment: Treatment,
    /// Names at any depth. `folder/name` requires that folder around it; `*` matches the rest, or
    /// the beginning, of a name.
    names: &'static [&'static str],
    /// Where the program's documentation states that it reads them.
    source: &'static str,
}

/// The row that matches `name` in `folder`. Guarded rows come first.
pub(super) fn known_file(folder: &Path, name: &OsStr) -> Option<&'static KnownFile> {
    let name = name.to_str()?;
    let exact = INDEX.exact.get(name).map(Vec::as_slice).unwrap_or_default();
    exact
        .iter()
        .chain(&INDEX.patterns)
        .filter(|(pattern, _)| pattern.matches(folder, name))
        .map(|(_, row)| *row)
        .min_by_key(|row| row.treatment == Treatment::Reported)
}

/// The rows by the last part of their names.
struct Index {
    exact: BTreeMap<&'static str, Vec<(Pattern, &'static KnownFile)>>,
    patterns: Vec<(Pattern, &'static KnownFile)>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index { exact: BTreeMap::new(), patterns: Vec::new() };
    for row in KNOWN {
        for pattern in row.names {
            let pattern = Pattern::of(pattern);
            if pattern.end.is_some() {
                index.patterns.push((pattern, row));
            } else {
                index.exact.entry(pattern.start).or_default().push((pattern, row));
            }
        }
    }
    index
});

/// A name, and the folders that must contain it. It is parsed once, since it is compared with every
/// name in a tree.
struct Pattern {
    /// The innermost first.
    folders: Vec<&'static str>,
    start: &'static str,
    /// The end of the name, after any text; `None` if `start` is the whole name.
    end: Option<&'static str>,
}

impl Pattern {
    fn of(text: &'static str) -> Self {
        let mut parts = text.rsplit('/');
        let name = parts.next().unwrap_or_default();
        let (start, end) = match name.split_once('*') {
            Some((start, end)) => (start, Some(end)),
            None => (name, None),
        };
        Self { folders: parts.collect(), start, end }
    }

    fn matches(&self, folder: &Path, name: &str) -> bool {
        let matches_name = match self.end {
            Some(end) => name.strip_prefix(self.start).is_some_and(|rest| rest.ends_with(end)),
            None => name == self.start,
        };
        let mut around = folder.components().rev();
        let mut is_in = |part: &str| around.next().is_some_and(|folder| folder.as_os_str() == part);
        matches_name && self.folders.iter().all(|part| is_in(part))
    }
}

const fn guarded(tool: &'static str, names: &'static [&'static str], source: &'static str) -> KnownFile {
    KnownFile { tool, treatment: Treatment::Guarded, names, source }
}

const fn reported(tool: &'static str, names: &'static [&'static str], source: &'static str) -> KnownFile {
    KnownFile { tool, treatment: Treatment::Reported, names, source }
}

const KNOWN: &[KnownFile] = &[
    guarded("sandbox", &[".sandbox", ".airut"], "README.md"),
    // Hooks of version control.
    guarded(
        "lefthook",
        &[
            "lefthook.yml",
            "lefthook.yaml",
            "lefthook.toml",
            "lefthook.json",
            "lefthook.jsonc",
            ".lefthook.yml",
            ".lefthook.yaml",
            ".lefthook.toml",
            ".lefthook.json",
            ".lefthook.jsonc",
            "lefthook-local.yml",
            "lefthook-local.yaml",
            "lefthook-local.toml",
            "lefthook-local.json",
            "lefthook-local.jsonc",
            ".lefthook-local.yml",
            ".lefthook-local.yaml",
            ".lefthook-local.toml",
            ".lefthook-local.json",
            ".lefthook-local.jsonc",
            ".config/lefthook.*",
            ".config/lefthook-local.*",
            ".lefthook",
            ".lefthook-local",
        ],
        "https://lefthook.dev/configuration/",
    ),
    guarded(
        "pre-commit",
        &[".pre-commit-config.yaml", ".pre-commit-config.yml"],
        "https://pre-commit.com/#adding-pre-commit-plugins-to-your-project",
    ),
    guarded("prek", &["prek.toml"], "https://prek.j178.dev/configuration/"),
    guarded(
        "husky",
        &[
            ".husky",
            ".huskyrc",
            ".huskyrc.json",
            ".huskyrc.js",
            ".huskyrc.cjs",
            ".huskyrc.yaml",
            ".huskyrc.yml",
        ],
        "https://typicode.github.io/husky/how-to.html",
    ),
    guarded("overcommit", &[".overcommit.yml"], "https://github.com/sds/overcommit#configuration"),
    guarded("captainhook", &["captainhook.json"], "https://docs.captainhook.info/configure.html"),
    guarded(
        "mercurial",
        &[".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath"],
        "https://www.mercurial-scm.org/doc/hgrc.5.html",
    ),
    guarded("sapling", &[".sl/config"], "https://sapling-scm.com/docs/introduction/"),
    guarded("jujutsu", &[".jj/repo/config.toml"], "https://docs.jj-vcs.dev/latest/config/"),
    // Files that shells run when a user enters a folder.
    guarded("direnv", &[".envrc"], "https://direnv.net/man/direnv.1.html"),
    guarded("autoenv", &[".autoenv", ".autoenv.zsh"], "https://github.com/hyperupcall/autoenv"),
    guarded(
        "mise",
        &[
            "mise.toml",
            "mise.local.toml",
            ".mise.toml",
            ".mise.local.toml",
            ".mise",
            "mise/config.toml",
            "mise/config.local.toml",
            ".config/mise.toml",
            ".config/mise",
        ],
        "https://mise.jdx.dev/configuration.html",
    ),
    // Editors.
    guarded("Visual Studio Code", &[".vscode"], "https://code.visualstudio.com/docs/editor/workspace-trust"),
    guarded(
        "development containers",
        &[".devcontainer", ".devcontainer.json"],
        "https://containers.dev/implementors/spec/",
    ),
    reported(
        "Visual Studio Code (workspaces)",
        &["*.code-workspace"],
        "https://code.visualstudio.com/docs/editing/workspaces/multi-root-workspaces",
    ),
    guarded("JetBrains", &[".idea", ".fleet"], "https://www.jetbrains.com/help/idea/project-security.html"),
    guarded("Zed", &[".zed"], "https://zed.dev/docs/configuring-zed#project-settings"),
    guarded("Helix", &[".helix"], "https://docs.helix-editor.com/configuration.html"),
    guarded(
        "Vim and Neovim",
        &[".exrc", ".nvimrc", ".nvim.lua", ".lvimrc"],
        "https://neovim.io/doc/user/options.html#'exrc'",
    ),
    reported("Vim", &[".vimrc", ".gvimrc"], "https://vimhelp.org/options.txt.html#%27exrc%27"),
    guarded(
        "Emacs",
        &[".dir-locals.el", ".dir-locals-2.el"],
        "https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html",
    ),
    // Agents.
    guarded("Claude Code", &[".claude", ".mcp.json"], "https://code.claude.com/docs/en/settings"),
    guarded("Codex", &[".codex", ".agents"], "https://developers.openai.com/codex/config-basic"),
    guarded("Cursor", &[".cursor"], "https://cursor.com/docs/context/rules"),
    guarded("Gemini CLI", &[".gemini"], "https://geminicli.com/docs/get-started/configuration/"),
    guarded(
        "OpenCode",
        &[".opencode", "opencode.json", "opencode.jsonc"],
        "https://opencode.ai/docs/config/",
    ),
    reported("Trae", &[".trae"], "https://docs.trae.ai/ide/rules"),
    guarded("Kiro", &[".kiro"], "https://kiro.dev/docs/hooks/"),
    guarded("Windsurf", &[".windsurf"], "https://docs.windsurf.com/windsurf/cascade/workflows"),
    guarded("Continue", &[".continue", ".continuerc.json"], "https://docs.continue.dev/reference"),
    guarded(
        "Aider",
        &[".aider.conf.yml", ".aider.model.settings.yml"],
        "https://aider.chat/docs/config/aider_conf.html",
    ),
    guarded("Roo Code", &[".roo", ".roomodes"], "https://docs.roocode.com/features/custom-modes"),
    guarded("Qwen Code", &[".qwen"], "https://qwenlm.github.io/qwen-code-docs/"),
    guarded("Crush", &["crush.json", ".crush.json"], "https://github.com/charmbracelet/crush"),
    guarded("Amazon Q", &[".amazonq"], "https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/"),
    reported(
        "agents (instructions)",
        &[
            "AGENTS.md",
            "AGENTS.override.md",
            "CLAUDE.md",
            "CLAUDE.local.md",
            "GEMINI.md",
            ".cursorrules",
            ".windsurfrules",
            ".clinerules",
            ".goosehints",
            ".github/copilot-instructions.md",
        ],
        "https://agents.md/",
    ),
    // Toolchains. An editor's language server starts both as soon as it opens the folder.
    guarded(
        "cargo",
        &[".cargo/config.toml", ".cargo/config"],
        "https://doc.rust-lang.org/cargo/reference/config.html",
    ),
    guarded(
        "rustup",
        &["rust-toolchain.toml", "rust-toolchain"],
        "https://rust-lang.github.io/rustup/overrides.html",
    ),
    reported(
        "npm",
        &[".npmrc"],
        "https://github.com/npm/cli/blob/latest/docs/lib/content/configuring-npm/npmrc.md",
    ),
    reported(
        "Yarn",
        &[".yarnrc.yml", ".yarnrc", ".yarn/releases", ".yarn/plugins"],
        "https://yarnpkg.com/configuration/yarnrc",
    ),
    reported("pnpm", &[".pnpmfile.cjs", ".pnpmfile.mjs"], "https://pnpm.io/pnpmfile"),
    reported("Bun", &["bunfig.toml"], "https://bun.com/docs/runtime/bunfig"),
    reported("asdf", &[".tool-versions"], "https://asdf-vm.com/manage/configuration.html"),
    reported("pyenv and uv", &[".python-version"], "https://docs.astral.sh/uv/concepts/python-versions/"),
    reported(
        "Python",
        &["pyvenv.cfg", "sitecustomize.py", "usercustomize.py", "site-packages/*.pth", "dist-packages/*.pth"],
        "https://docs.python.org/3/library/site.html",
    ),
    reported(
        "Gradle",
        &["gradle/wrapper", "gradle.properties"],
        "https://docs.gradle.org/current/userguide/gradle_wrapper.html",
    ),
    reported("Maven", &[".mvn"], "https://maven.apache.org/configure.html"),
    reported("Bazel", &[".bazelrc", ".bazeliskrc", "tools/bazel"], "https://bazel.build/run/bazelrc"),
    reported("Bundler", &[".bundle/config"], "https://bundler.io/man/bundle-config.1.html"),
    reported("Ruby", &[".irbrc", ".pryrc"], "https://docs.ruby-lang.org/en/master/IRB.html"),
    reported(
        "R",
        &[".Rprofile", ".Renviron"],
        "https://stat.ethz.ch/R-manual/R-devel/library/base/html/Startup.html",
    ),
    reported(
        "debuggers",
        &[".gdbinit", ".lldbinit"],
        "https://sourceware.org/gdb/current/onlinedocs/gdb.html/Init-File-in-the-Current-Directory.html",
    ),
    reported(
        "continuous integration",
        &[
            ".github/workflows",
            ".github/actions",
            ".gitea/workflows",
            ".forgejo/workflows",
            ".gitlab-ci.yml",
            ".circleci",
            ".buildkite",
            ".woodpecker",
            ".woodpecker.yml",
            ".woodpecker.yaml",
            ".drone.yml",
            ".travis.yml",
            "azure-pipelines.yml",
            "bitbucket-pipelines.yml",
            "appveyor.yml",
            "Jenkinsfile",
        ],
        "https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognised_by_name_and_parent_folder() {
        let treatment = |path: &str| {
            let path = Path::new(path);
            known_file(path.parent().unwrap(), path.file_name().unwrap()).map(|row| row.treatment)
        };
        for (path, expected) in [
            (".envrc", Some(Treatment::Guarded)),
            ("a/b/.envrc", Some(Treatment::Guarded)),
            ("a/lefthook-local.jsonc", Some(Treatment::Guarded)),
            (".config/lefthook.toml", Some(Treatment::Guarded)),
            ("lefthook.md", None),
            (".hg/hgrc", Some(Treatment::Guarded)),
            ("hgrc", None),
            ("x/.cargo/config.toml", Some(Treatment::Guarded)),
            ("rust-toolchain.toml", Some(Treatment::Guarded)),
            ("a/b.code-workspace", Some(Treatment::Reported)),
            (".trae", Some(Treatment::Reported)),
            ("config.toml", None),
            (".venv/lib/python3.12/site-packages/a.pth", Some(Treatment::Reported)),
            ("model.pth", None),
            ("b.gitlab-ci.yml", None),
            ("model/site-packages/x.py", None),
        ] {
            assert_eq!(treatment(path), expected, "{path}");
        }
    }

    #[test]
    fn every_row_has_a_source_and_every_name_is_unique() {
        let mut names = std::collections::BTreeSet::new();
        for row in KNOWN {
            assert!(row.source.starts_with("https://") || row.source == "README.md", "{}", row.tool);
            for name in row.names {
                assert!(names.insert(*name), "{name}");
                assert!(name.matches('*').count() <= 1 && !name.starts_with('/'), "{name}");
            }
        }
    }
}
