//! The settings of a bundle: everything that a run needs besides its files, image and secrets.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Component, Path};

use allowlist::{Allowlist, HostPattern};
use sandbox_agents::Agent;
use sandbox_credentials::Injection;
use serde::{Deserialize, Serialize};

/// Bytes of the name of a model.
const LONGEST_MODEL: usize = 1_000;

/// What is run, and its settings. They have neither the value of a secret nor the place where one is
/// kept. The default is not complete: its command is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What is run.
    pub task: Task,
    /// The working directory in the container.
    pub working_dir: String,
    /// The image's name, which an engine must know.
    pub image: String,
    /// The task's variables.
    pub variables: BTreeMap<VariableName, Variable>,
    /// The keys with which its requests are signed again, by an arbitrary name.
    pub signing: BTreeMap<String, SigningKey>,
    /// The limits of the task.
    pub limits: Limits,
    /// The network policy, with outer ones.
    pub policy: Allowlist,
}

/// What a bundle runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// A program and its arguments.
    Command(Vec<String>),
    /// An agent, in a new session.
    Agent(AgentTask),
}

/// An agent and its prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentTask {
    /// The agent.
    pub agent: Agent,
    /// The prompt, which is not blank.
    pub prompt: String,
    /// The agent's name of the model; `None` means its default.
    pub model: Option<String>,
    /// The maximum number of turns.
    pub max_turns: Option<NonZeroU32>,
    /// The maximum cost at list prices, in millionths of a US dollar.
    pub max_budget_microdollars: Option<NonZeroU64>,
    /// The time for which it may report nothing; `None` means any.
    pub stall: Option<Stall>,
    /// Whether it is told about the limits of the sandbox.
    pub briefing: bool,
    /// Further arguments.
    pub arguments: Vec<String>,
}

/// What happens when an agent reports nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Seconds without a report.
    pub after: NonZeroU64,
    /// Whether it is stopped then; otherwise there is a warning.
    pub stop: bool,
}

/// The name of a variable: not empty, without `=`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct VariableName(String);

/// A variable of a task. *Host* is where the bundle is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variable {
    /// It has this value.
    Value(String),
    /// It has the value of this variable of the host, which must be set.
    Required(VariableName),
    /// It has the value of the host's variable with its name; if that is not set, this one, if any.
    IfSet(Option<String>),
    /// It has a surrogate of a secret, which the host gives under its name.
    Masked(Injection),
}

/// A key for AWS; each part is named by the task's variable that has its surrogate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SigningKey {
    /// The variable of the key id.
    pub access_key_id: VariableName,
    /// The variable of the key itself.
    pub secret_access_key: VariableName,
    /// The third part of a temporary key.
    pub session_token: SessionToken,
    /// The hosts to which requests are signed.
    pub scopes: Vec<HostPattern>,
    /// Whether requests with another party's signature may be sent.
    pub allow_foreign_credentials: bool,
}

/// The third part of a temporary key for AWS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionToken {
    /// The key has none.
    None,
    /// The key is not usable without the one in this variable.
    Required(VariableName),
    /// The key has the one in this variable if it is set.
    IfSet(VariableName),
}

/// The limits of a task; `None` means no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Seconds until it is stopped.
    pub timeout: Option<u64>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Billionths of a processor.
    pub nano_cpus: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Bytes of its root file system.
    pub disk: Option<u64>,
}

impl Settings {
    /// The problem of settings that no run could have.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let Self { task, working_dir, image, variables, signing, limits, .. } = self;
        let values = variables.values().filter_map(|variable| match variable {
            Variable::Value(value) | Variable::IfSet(Some(value)) => Some(value),
            Variable::Required(_) | Variable::IfSet(None) | Variable::Masked(_) => None,
        });
        let mut texts = task.texts().chain([working_dir, image]).chain(values);
        let has_scope = |variable: &Variable| match variable {
            Variable::Masked(injection) => !injection.scopes.is_empty() && !injection.headers.is_empty(),
            Variable::Value(_) | Variable::Required(_) | Variable::IfSet(_) => true,
        };
        let pids = limits.pids.map(u64::from);
        let mut limits = [limits.timeout, limits.memory, limits.nano_cpus, pids, limits.disk].into_iter();
        let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if let Task::Command(command) = task
            && command.first().is_none_or(String::is_empty)
        {
            Some("has no command")
        } else if let Task::Agent(agent) = task
            && agent.prompt.trim().is_empty()
        {
            Some("has no prompt")
        } else if let Task::Agent(AgentTask { model: Some(model), .. }) = task
            && model.len() > LONGEST_MODEL
        {
            Some("has a model with too long a name")
        } else if image.is_empty() {
            Some("names no image")
        } else if !working_dir.starts_with('/') || !Path::new(working_dir).components().all(is_plain) {
            Some("has a working directory that is not an absolute path without `..`")
        } else if texts.any(|text| text.contains('\0')) {
            Some("has a text with a zero byte")
        } else if !variables.values().all(has_scope) || signing.values().any(|key| key.scopes.is_empty()) {
            Some("has a secret without hosts or headers")
        } else if limits.any(|limit| limit == Some(0)) {
            Some("has a limit of zero")
        } else {
            None
        }
    }
}

impl Task {
    /// Its texts, which have no zero byte.
    fn texts(&self) -> impl Iterator<Item = &String> {
        let (words, agent) = match self {
            Self::Command(command) => (command, None),
            Self::Agent(agent) => (&agent.arguments, Some(agent)),
        };
        let agent = agent.into_iter().flat_map(|agent| [Some(&agent.prompt), agent.model.as_ref()]);
        words.iter().chain(agent.flatten())
    }
}

impl Default for Task {
    fn default() -> Self {
        Self::Command(Vec::new())
    }
}

impl VariableName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for VariableName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err("the name of a variable must not be empty or contain `=`");
        }
        Ok(Self(name))
    }
}
