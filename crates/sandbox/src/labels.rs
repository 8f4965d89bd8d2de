//! The labels that identify the owner of an object.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::IntoDeserializer as _;
use serde::de::value::Error;
use serde::{Deserialize, Serialize};

use crate::instance::{InstanceLock, LockLocation};

const OWNER: &str = "sandbox.owner";
const INSTANCE: &str = "sandbox.instance";
const CONTEXT: &str = "sandbox.context";
const ROLE: &str = "sandbox.role";
const LOCK: &str = "sandbox.lock";
const VIEW: &str = "sandbox.view";

/// The purpose of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The container of a task or command.
    Task,
    /// The container of an egress proxy.
    Proxy,
    /// The network of one task.
    Network,
    /// The network through which proxies reach the internet; shared by all instances of a prefix.
    Egress,
    /// A container that is created to inspect an image and never started.
    Probe,
    /// The container of a run, which outlives its instance once it was started.
    Run,
    /// The container whose network and processes the steps of an image build share.
    Build,
}

impl Role {
    /// The engine's states of a container whose process was never started.
    const NEVER_STARTED: [&str; 3] = ["created", "configured", "initialized"];

    /// The value of its label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Proxy => "proxy",
            Self::Network => "network",
            Self::Egress => "egress",
            Self::Probe => "probe",
            Self::Run => "run",
            Self::Build => "build",
        }
    }

    /// Whether a container of this role in the state `state` is kept when its instance ends.
    pub(crate) fn outlives(self, state: &str) -> bool {
        self == Self::Run && !Self::NEVER_STARTED.contains(&state)
    }

    /// Whether an object of this role goes when its instance ends, although its run stays.
    pub(crate) fn leaves_run(self) -> bool {
        self == Self::Proxy
    }

    /// Whether the limits of its container are defaults of the sandbox.
    pub(crate) fn has_default_limits(self) -> bool {
        matches!(self, Self::Proxy | Self::Build)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The owner and purpose of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labels {
    owner: String,
    instance: String,
    context: String,
    role: Role,
    lock: LockLocation,
}

impl Labels {
    /// Labels of an object of `instance` with `prefix`, for the execution context `context` (empty:
    /// shared by all), with the role of a task.
    pub(crate) fn new(prefix: &str, instance: &InstanceLock, context: &str) -> Self {
        Self {
            owner: prefix.to_owned(),
            instance: instance.id().to_owned(),
            context: context.to_owned(),
            role: Role::Task,
            lock: instance.location().clone(),
        }
    }

    /// The labels of the same owner for another role.
    #[must_use]
    pub(crate) fn with_role(&self, role: Role) -> Self {
        Self { role, ..self.clone() }
    }

    /// The prefix of the names of the owner's objects.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    /// The id of the instance.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// The execution context; empty for shared objects.
    pub(crate) fn context(&self) -> &str {
        &self.context
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// The file that the instance holds a lock on.
    pub(crate) fn lock(&self) -> &LockLocation {
        &self.lock
    }

    /// The labels as the engine stores them.
    pub(crate) fn to_map(&self) -> BTreeMap<String, String> {
        [
            (OWNER, self.owner.clone()),
            (INSTANCE, self.instance.clone()),
            (CONTEXT, self.context.clone()),
            (ROLE, self.role.as_str().to_owned()),
            (LOCK, self.lock.path.to_string_lossy().into_owned()),
            (VIEW, self.lock.view.clone()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Parses labels. `None` when one is missing or invalid: such an object is never touched.
    pub(crate) fn from_map(map: &BTreeMap<String, String>) -> Option<Self> {
        let role: Result<Role, Error> = Role::deserialize(map.get(ROLE)?.as_str().into_deserializer());
        let instance = map.get(INSTANCE)?;
        let path = PathBuf::from(map.get(LOCK)?);
        if !path.is_absolute() || path.file_name()?.to_str()? != InstanceLock::file_name(instance) {
            return None;
        }
        Some(Self {
            owner: map.get(OWNER)?.clone(),
            instance: instance.clone(),
            context: map.get(CONTEXT)?.clone(),
            role: role.ok()?,
            lock: LockLocation { path, view: map.get(VIEW)?.clone() },
        })
    }

    /// The labels that an object of every instance of the owner has.
    pub(crate) fn to_shared_map(&self) -> BTreeMap<String, String> {
        let mut map = self.to_map();
        map.retain(|name, _| [OWNER, ROLE].contains(&name.as_str()));
        map
    }

    /// The filter that finds all objects of `prefix`.
    pub(crate) fn owned_by(prefix: &str) -> String {
        format!("{OWNER}={prefix}")
    }

    /// The additional filter that finds the objects of the instance `id`.
    pub(crate) fn made_by(id: &str) -> String {
        format!("{INSTANCE}={id}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        Labels {
            owner: "sandbox".to_owned(),
            instance: "0f".to_owned(),
            context: "conversation 42, \"quoted\"=x".to_owned(),
            role: Role::Proxy,
            lock: LockLocation {
                path: PathBuf::from("/state/instances/0f.lock"),
                view: "0f.4026531840".to_owned(),
            },
        }
    }

    #[test]
    fn labels_survive_a_round_trip() {
        for role in
            [Role::Task, Role::Proxy, Role::Network, Role::Egress, Role::Probe, Role::Run, Role::Build]
        {
            let labels = labels().with_role(role);
            assert_eq!(Labels::from_map(&labels.to_map()), Some(labels));
        }
    }

    #[test]
    fn incomplete_or_invalid_labels_are_ignored() {
        for name in [OWNER, INSTANCE, CONTEXT, ROLE, LOCK, VIEW] {
            let mut map = labels().to_map();
            map.remove(name);
            assert_eq!(Labels::from_map(&map), None, "without {name}");
        }
        for (name, value) in [
            (ROLE, "root"),
            (LOCK, "instances/0f.lock"),
            (LOCK, "/etc/passwd"),
            (LOCK, "/state/instances/0e.lock"),
            (INSTANCE, "../0f"),
        ] {
            let mut map = labels().to_map();
            map.insert(name.to_owned(), value.to_owned());
            assert_eq!(Labels::from_map(&map), None, "{name}={value}");
        }
    }

    #[test]
    fn filters_match_labels_of_objects() {
        let labels = labels();
        for filter in [Labels::owned_by(labels.owner()), Labels::made_by(labels.instance())] {
            let (name, value) = filter.split_once('=').unwrap();
            assert_eq!(labels.to_map().get(name).map(String::as_str), Some(value));
        }
    }
}
