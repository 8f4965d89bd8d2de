//! Profiles, read from their files.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::rules::Rule;
use super::templates::Templates;

/// An agent that a task runs: Claude Code by default. It serializes as its name.
///
/// ```
/// use sandbox_agents::Agent;
///
/// let agent: Agent = "codex".parse()?;
/// assert_eq!(agent.title(), "Codex");
/// assert!("vim".parse::<Agent>().is_err());
/// # Ok::<(), sandbox_agents::UnknownAgent>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Agent(Arc<Profile>);

/// There is no agent with this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent `{name}`; expected one of {}", Agent::NAMES.join(", "))]
pub struct UnknownAgent {
    name: String,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Profile {
    pub(super) name: String,
    title: String,
    /// Its name on the image's `PATH`.
    program: String,
    /// The package whose files the program needs, if it is in one.
    package: Option<Package>,
    /// The interpreter of the program, which the image must have.
    needs: Option<String>,
    /// Which program of the host a user has to pass.
    native: String,
    /// The npm package that installs the program in an image.
    npm: String,
    /// Where its state is in the container.
    state: String,
    /// Variables, unless the caller sets them.
    variables: BTreeMap<String, String>,
    /// Variables of credentials, each with its preset.
    credentials: BTreeMap<String, String>,
    hosts: Vec<String>,
    /// `None` for Claude Code.
    pub(super) command: Option<Templates>,
    /// The same for prompts typed on a terminal.
    pub(super) interactive: Option<Templates>,
    /// Files of its state that answer its initial questions on a terminal.
    interactive_files: BTreeMap<String, String>,
    pub(super) events: Vec<Rule>,
}

/// A folder that is mounted with the program in it.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Package {
    /// Where the program is in it.
    program: String,
    /// A file in it, so that no other folder is mistaken for a package.
    file: String,
}

/// How a program of the host is mounted.
#[derive(Debug, PartialEq, Eq)]
pub struct MountedProgram {
    /// The path on the host that is mounted: the program, or its package.
    pub source: PathBuf,
    /// Where it is mounted in the container.
    pub target: String,
    /// The program, in the container.
    pub program: String,
}

impl Agent {
    /// The names of all agents, Claude Code's first.
    pub const NAMES: &[&str] = &["claude", "codex", "gemini", "opencode"];

    /// Where a program of the host is mounted.
    const PROGRAM_DIR: &str = "/opt/agent";
    /// The same for Claude Code, where other programs look for it.
    const CLAUDE_DIR: &str = "/opt/claude";

    /// The name, such as `codex`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The name for people, such as `Gemini CLI`.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.0.title
    }

    /// The variables that it reads its key from, each with the name of the preset that masks it.
    pub fn credentials(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.credentials.iter().map(|(variable, preset)| (variable.as_str(), preset.as_str()))
    }

    /// The hosts of its API, which the policy must allow: with the keys of several vendors, those
    /// of the vendor in use.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.0.hosts.iter().map(String::as_str)
    }

    /// The npm package with its program, such as `@openai/codex`.
    #[must_use]
    pub fn npm_package(&self) -> &str {
        &self.0.npm
    }

    /// Whether it is Claude Code.
    #[must_use]
    pub fn is_claude(&self) -> bool {
        self.0.command.is_none()
    }

    pub(super) fn profile(&self) -> &Profile {
        &self.0
    }

    /// The name of its program on the image's `PATH`.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.0.program
    }

    /// Where its state is in the container.
    #[must_use]
    pub fn state(&self) -> &str {
        &self.0.state
    }

    /// The variables of its environment, unless the caller sets them.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Files of its state that answer its initial questions on a terminal, each with its content.
    pub fn interactive_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.interactive_files.iter().map(|(name, content)| (name.as_str(), content.as_str()))
    }

    /// Which program of the host a user has to pass, for messages.
    #[must_use]
    pub fn native(&self) -> &str {
        &self.0.native
    }

    /// Whether its program is a script for node.
    #[must_use]
    pub fn is_node_script(&self) -> bool {
        self.0.needs.as_deref() == Some("node")
    }

    /// Where a program of the host is mounted; mounts of the caller must not be there.
    #[must_use]
    pub fn program_dir(&self) -> &'static str {
        if self.is_claude() { Self::CLAUDE_DIR } else { Self::PROGRAM_DIR }
    }

    /// How the program `path` of the host is mounted; `has` tests whether a file exists.
    pub fn mounted(&self, path: &Path, has: impl Fn(&Path) -> bool) -> MountedProgram {
        let dir = self.program_dir();
        if let Some((folder, package)) = self.package(path, has) {
            let program = format!("{dir}/{}", package.program);
            return MountedProgram { source: folder.to_owned(), target: dir.to_owned(), program };
        }
        let program = format!("{dir}/{}", self.0.program);
        MountedProgram { source: path.to_owned(), target: program.clone(), program }
    }

    /// Whether the program `path` of the host lacks the package that it needs.
    pub fn lacks_package(&self, path: &Path, has: impl Fn(&Path) -> bool) -> bool {
        self.is_node_script() && self.package(path, has).is_none()
    }

    /// The package that contains the program `path`, and its folder.
    fn package<'a>(&self, path: &'a Path, has: impl Fn(&Path) -> bool) -> Option<(&'a Path, &Package)> {
        let package = self.0.package.as_ref()?;
        let depth = Path::new(&package.program).components().count();
        let folder = path.ancestors().nth(depth).filter(|_| path.ends_with(&package.program))?;
        has(&folder.join(&package.file)).then_some((folder, package))
    }
}

impl Default for Agent {
    /// Claude Code.
    fn default() -> Self {
        // A test ensures that every profile can be read.
        "claude".parse().unwrap_or_else(|_| Self(Arc::default()))
    }
}

impl FromStr for Agent {
    type Err = UnknownAgent;

    fn from_str(name: &str) -> Result<Self, UnknownAgent> {
        let profile = file(name).and_then(|file| located_yaml::read(name, file).ok());
        profile.map(|profile| Self(Arc::new(profile))).ok_or_else(|| UnknownAgent { name: name.to_owned() })
    }
}

impl TryFrom<String> for Agent {
    type Error = UnknownAgent;

    fn try_from(name: String) -> Result<Self, UnknownAgent> {
        name.parse()
    }
}

impl From<Agent> for String {
    /// Its [name](Agent::name).
    fn from(agent: Agent) -> Self {
        agent.name().to_owned()
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Agent").field(&self.0.name).finish()
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.title)
    }
}

/// The profile of each of [`Agent::NAMES`].
fn file(name: &str) -> Option<&'static str> {
    Some(match name {
        "claude" => include_str!("profiles/claude.yaml"),
        "codex" => include_str!("profiles/codex.yaml"),
        "gemini" => include_str!("profiles/gemini.yaml"),
        "opencode" => include_str!("profiles/opencode.yaml"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use sandbox_credentials::Preset;

    use super::*;

    #[test]
    fn every_profile_is_complete() {
        for name in Agent::NAMES {
            let profile: Profile =
                located_yaml::read(name, file(name).unwrap()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((profile.name.as_str(), profile.command.is_none()), (*name, *name == "claude"));
            assert_eq!(profile.events.is_empty(), *name == "claude");
            assert_eq!(profile.interactive.is_none(), *name == "claude");
            let agent: Agent = name.parse().unwrap();
            assert!(agent.hosts().next().is_some() && agent.variables().next().is_some(), "{name}");
            assert!(!agent.npm_package().is_empty(), "{name}");
            for (variable, preset) in agent.credentials() {
                let preset: Preset = preset.parse().unwrap();
                let scopes = preset.injection().scopes;
                let is_scope = |host: &str| scopes.iter().any(|scope| scope.as_str() == host);
                assert!(agent.hosts().any(is_scope), "{name}: {variable}");
            }
        }
        assert_eq!(Agent::default().name(), "claude");
    }

    #[test]
    fn program_is_mounted_with_its_package() {
        let mounted = |agent: &str, path: &str, there: &str| {
            let agent: Agent = agent.parse().unwrap();
            let mounted = agent.mounted(Path::new(path), |file| file == Path::new(there));
            (mounted.source.display().to_string(), mounted.target, mounted.program)
        };
        let texts = |source: &str, target: &str, program: &str| {
            (source.to_owned(), target.to_owned(), program.to_owned())
        };
        assert_eq!(
            mounted("codex", "/v/x/bin/codex", "/v/x/codex-package.json"),
            texts("/v/x", "/opt/agent", "/opt/agent/bin/codex")
        );
        assert_eq!(
            mounted("codex", "/home/me/codex", "/none"),
            texts("/home/me/codex", "/opt/agent/codex", "/opt/agent/codex")
        );
        assert_eq!(
            mounted("gemini", "/n/gemini-cli/bundle/gemini.js", "/n/gemini-cli/package.json"),
            texts("/n/gemini-cli", "/opt/agent", "/opt/agent/bundle/gemini.js")
        );
        assert_eq!(
            mounted("gemini", "/home/me/bin/gemini.js", "/home/me/package.json").0,
            "/home/me/bin/gemini.js",
            "no other folder is mounted"
        );
        assert_eq!(
            mounted("opencode", "/n/bin/opencode", "/n/package.json"),
            texts("/n/bin/opencode", "/opt/agent/opencode", "/opt/agent/opencode")
        );
        assert_eq!(
            mounted("claude", "/usr/bin/claude", "/none"),
            texts("/usr/bin/claude", "/opt/claude/claude", "/opt/claude/claude")
        );
    }
}
