//! The files that `init` writes.

use std::path::PathBuf;

use allowlist::Preset;
use sandbox::Agent;

use super::Project;
use super::defaults::{dockerfile, presets, presets_of};
use crate::config::{CredentialsFile, Environment};
use crate::trust::{Input, Role};

/// The files of a project that has none.
#[derive(Debug)]
pub(crate) struct NewFiles {
    pub(crate) all: [NewFile; 4],
}

/// One of them.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) path: PathBuf,
    pub(crate) content: String,
    role: Role,
}

impl NewFile {
    /// The input to trust, from the content that was written and not from the file's current
    /// content; `None` if it requests nothing. An image is that of the Dockerfile alone: with any
    /// other file next to it, it is a different one.
    pub(crate) fn input(&self) -> Option<Input> {
        (self.role != Role::Configuration).then(|| Input::new(self.role, &self.path, self.content.as_bytes()))
    }
}

impl NewFiles {
    /// For `agent`, with these Debian packages in the image. The allowlist has the APIs for which
    /// the environment has keys, otherwise the agent's first one: at any other API, the task could
    /// use another party's key.
    pub(crate) fn new(
        project: &Project,
        agent: &Agent,
        packages: &[&str],
        environment: &Environment,
    ) -> Self {
        let folder = &project.folder;
        let with_key = presets(agent, &CredentialsFile::of_environment(agent, environment));
        let usual = || presets_of(&agent.hosts().collect::<Vec<_>>()).into_iter().take(1).collect();
        let presets = if with_key.is_empty() { usual() } else { with_key };
        let presets: Vec<&str> = presets.into_iter().map(Preset::name).collect();
        let new = |role, path, content| NewFile { path, content, role };
        Self {
            all: [
                new(Role::Configuration, folder.config(), configuration(agent)),
                new(Role::Allowlist, folder.allowlist(), policy(&presets)),
                new(Role::Allowlist, folder.build_allowlist(), BUILD_POLICY.to_owned()),
                new(Role::Image, folder.dockerfile(), dockerfile(Some(agent), packages)),
            ],
        }
    }
}

const BUILD_POLICY: &str = "\
# The hosts that the steps of container/Dockerfile may reach: any public one. Name hosts to allow fewer.
domains: [\"*\"]
";

fn configuration(agent: &Agent) -> String {
    let keys =
        agent.credentials().map(|(variable, preset)| format!("#   {variable}: {{preset: {preset}}}\n"));
    format!(
        "\
# Settings of `sandbox` for this project. `sandbox config check` checks them, `sandbox config schema` prints every key.
agent: {}
# The agent's key is masked without an entry here. More secrets of which tasks get surrogates:
# masked_secrets:
{}#   GH_TOKEN: {{preset: github}}
# resource_limits: {{memory: 4g, cpus: 2, timeout: 1h}}
",
        agent.name(),
        keys.collect::<String>()
    )
}

fn policy(presets: &[&str]) -> String {
    format!(
        "\
# The hosts that tasks may reach; other requests are refused. `sandbox logs --blocked` shows them, `sandbox allowlist presets` lists the presets.
presets: [{}]
# domains: [packages.example]
# url_prefixes:
#   - {{host: api.example, path: \"/v1/*\", methods: [GET]}}
",
        presets.join(", ")
    )
}
