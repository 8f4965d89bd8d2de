//! The variables of a task.

use std::collections::BTreeMap;
use std::path::Path;

use sandbox::ContainerEnv;
use sandbox::credentials::PreparedSecrets;
use sandbox::workspace::{GitIdentity, git_configurations, git_credentials};

use super::Project;
use located_yaml::{InvalidFile, Location};

use crate::config::Environment;
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_line, sanitize_name};

/// Bytes of a git configuration that is searched for credentials.
const MOST_CONFIG: u64 = 1 << 20;
/// The characters of a warning's list of settings.
const MOST_SHOWN: usize = 400;

impl Project {
    /// The variables of `env` and `pass_env`.
    pub(super) fn env(&self, environment: &Environment, printer: Printer) -> Result<ContainerEnv, Failure> {
        let mut variables = BTreeMap::new();
        for (name, setting) in &self.file.env {
            variables.insert(name.clone(), setting.resolve(environment)?.expose().to_owned());
        }
        for (name, location) in &self.file.pass_env {
            match passed_value(environment, name, location)? {
                None => printer.note(format_args!("pass_env: `{name}` is not set")),
                Some(value) => drop(variables.insert(name.clone(), value.to_owned())),
            }
        }
        Ok(ContainerEnv::new(variables))
    }

    /// The identity for commits, from the user's own git configuration.
    pub(super) fn git_identity(&self, environment: &Environment) -> GitIdentity {
        let [home, config, global] =
            ["HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"].map(|name| environment.path(name));
        let files = git_configurations(home.as_deref(), config.as_deref(), global.as_deref());
        GitIdentity::of(&files, home.as_deref(), &self.root)
    }
}

impl Project {
    /// Warns of credentials in the configuration of the project's repository, which tasks can read.
    /// `linked` is its folder if its work tree is a linked one.
    pub(super) fn warn_of_git_credentials(&self, linked: Option<&Path>, printer: Printer) {
        let folder = linked.map_or_else(|| self.root.join(".git"), Path::to_owned);
        for file in ["config", "config.worktree"].map(|name| folder.join(name)) {
            let read = self.resolver.read(&file, MOST_CONFIG);
            let names = read.ok().flatten().map(|(_, text)| git_credentials(&text)).unwrap_or_default();
            if !names.is_empty() {
                let names = sanitize_line(&names.join(", "));
                printer.warning(format_args!(
                    "the task can read the credentials in {}: {}; move them to a credential helper",
                    sanitize_name(&self.shown(&file)),
                    names.chars().take(MOST_SHOWN).collect::<String>()
                ));
            }
        }
    }

    /// The variables of `--env`. None may reveal a value of which the task has a surrogate.
    pub(super) fn flag_variables(
        named: &[String],
        environment: &Environment,
        secrets: &PreparedSecrets,
    ) -> Result<ContainerEnv, Failure> {
        let variables = named_variables(named, environment)?;
        for (name, value) in variables.variables() {
            let refused = |why: &str| {
                let failure = Failure::usage(format!("`{}`, named by --env, {why}", name.escape_debug()));
                Err(failure.with_hint("leave it out"))
            };
            let surrogates = secrets.env_vars();
            if surrogates.contains_key(name) {
                return refused("is masked: the task gets a surrogate of it");
            }
            if let Some(surrogate) = secrets.replacements().surrogate_of(value) {
                let masked = surrogates.iter().find(|(_, held)| *held == surrogate);
                let masked = masked.map_or("another name", |(variable, _)| variable);
                return refused(&format!(
                    "contains a secret that the task has a surrogate of, as `{}`",
                    masked.escape_debug()
                ));
            }
        }
        Ok(variables)
    }

    /// The entries of `env` and `pass_env` that contain a real value of which the task has a
    /// surrogate. Missing variables are skipped.
    pub(super) fn given_away(
        &self,
        environment: &Environment,
        secrets: &PreparedSecrets,
    ) -> Vec<InvalidFile> {
        let surrogates = secrets.env_vars();
        let checked = |name: &str, value: &str, location: &Location| {
            let surrogate = secrets.replacements().surrogate_of(value)?;
            let masked = surrogates.iter().find(|(_, held)| *held == surrogate);
            let masked = masked.map_or("another name", |(variable, _)| variable);
            Some(InvalidFile::new(
                location,
                format!(
                    "`{}` contains a secret that the task has a surrogate of, as `{}`: remove it here",
                    name.escape_debug(),
                    masked.escape_debug()
                ),
            ))
        };
        let set = self.file.env.iter().filter_map(|(name, setting)| {
            let value = setting.resolve(environment).ok()?;
            checked(name, value.expose(), setting.location())
        });
        let passed = self.file.pass_env.iter().filter_map(|(name, location)| {
            let value = passed_value(environment, name, location).ok()??;
            checked(name, value, location)
        });
        set.chain(passed).collect()
    }
}

/// The value of a variable that is passed on unchanged; `None` if it is not set.
pub(super) fn passed_value<'a>(
    environment: &'a Environment,
    name: &str,
    location: &Location,
) -> Result<Option<&'a str>, InvalidFile> {
    let not_text = || InvalidFile::new(location, format!("the value of the variable `{name}` is not UTF-8"));
    let value = environment.exact(name);
    value.map(|value| value.to_str().ok_or_else(not_text)).transpose()
}

/// The variables of `--env`: with a value, or with that of our environment.
pub(super) fn named_variables(named: &[String], environment: &Environment) -> Result<ContainerEnv, Failure> {
    let one = |named: &String| match named.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match environment.text(named) {
            Some(value) => Ok((named.clone(), value.to_owned())),
            None => Err(Failure::new(format!("the variable `{named}`, named by --env, is not set"))),
        },
    };
    named.iter().map(one).collect::<Result<Vec<_>, _>>().map(ContainerEnv::from_iter)
}
