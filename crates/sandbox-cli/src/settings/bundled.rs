//! The settings of a bundle, and the files that it packs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use located_yaml::InvalidFile;
use sandbox::image::ImageTags;
use sandbox::workspace::tree_files;
use sandbox::{ByteSize, ImageSource, Mount};
use sandbox_bundle::{Entry, Limits, Listing, Settings, Task, Variable, VariableName};
use sandbox_files::create_folder;
use sandbox_files::tree::Tree;
use serde_json::Value;

use super::task::limits;
use super::{TrustedProject, WORKSPACE};
use crate::args::PackArgs;
use crate::config::{Environment, UpstreamFile};
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};

/// Repositories that an error names.
const NAMED: usize = 10;

impl TrustedProject {
    /// The settings of a bundle that runs `task`.
    ///
    /// # Errors
    ///
    /// If a setting cannot travel.
    pub(crate) fn bundled(
        &self,
        args: &PackArgs,
        task: Task,
        environment: &Environment,
        printer: Printer,
    ) -> Result<Settings, Failure> {
        self.refuse_what_stays(args)?;
        let image = match self.image(&args.image)? {
            ImageSource::Existing(name) => name,
            built @ ImageSource::Build { .. } => ImageTags::of_build(&self.prefix(), &built)
                .and_then(|tags| tags.repo)
                .ok_or_else(|| Failure::new("the image has no name"))?,
        };
        if matches!(task, Task::Agent(_)) && self.uses_default_image(&args.image) {
            printer.message("the default image has no agent: run the bundle with --agent-bin");
        }
        let limits = limits(&args.once, self.file.resource_limits);
        if self.file.upstream != UpstreamFile::default() {
            printer.warning("`upstream` is not packed: the host that runs the bundle has its own settings");
        }
        let signing = self.file.credentials.signing.iter();
        let signing = signing.map(|entry| Ok((entry.name.clone(), entry.bundled()?)));
        Ok(Settings {
            task,
            working_dir: self.working_dir(args.once.workdir.as_deref())?,
            image,
            variables: self.bundled_variables(args, environment)?,
            signing: signing.collect::<Result<_, &str>>().map_err(Failure::new)?,
            limits: Limits {
                timeout: limits.timeout.map(|timeout| timeout.as_secs()),
                memory: limits.memory.map(ByteSize::bytes),
                nano_cpus: limits.cpus.map(|cpus| cpus.nano().unsigned_abs()),
                pids: limits.pids,
                disk: limits.disk.map(ByteSize::bytes),
            },
            policy: self.allowlist(&args.policy, printer)?,
        })
    }

    /// Refuses what cannot be in a bundle.
    fn refuse_what_stays(&self, args: &PackArgs) -> Result<(), Failure> {
        if args.image.max_image_age.is_some() {
            return Err(Failure::usage("--max-image-age builds an image, and a bundle only names one"));
        }
        if let Some(location) = self.file.credentials.literal() {
            let problem = "the value of this secret is in the file, and a bundle has no secret";
            return Err(Failure::from(InvalidFile::new(location, problem)).with_hint(
                "write `!env NAME`, `!command`, `!file` or `!keyring` in its place: the value is then given where the bundle runs",
            ));
        }
        self.refuse_bound_to_host("a bundle")
    }

    /// Refuses settings that mean something only on this host, as not for `place`.
    pub(crate) fn refuse_bound_to_host(&self, place: &str) -> Result<(), Failure> {
        let Some((key, why, location)) = self.file.bound_to_host() else { return Ok(()) };
        let problem = format!("`{key}` {why}, so it cannot be in {place}");
        let failure = match location {
            Some(location) => InvalidFile::new(location, problem).into(),
            None => Failure::new(problem),
        };
        Err(failure.with_hint("remove it, or name a configuration without it with --config"))
    }

    fn bundled_variables(
        &self,
        args: &PackArgs,
        environment: &Environment,
    ) -> Result<BTreeMap<VariableName, Variable>, Failure> {
        let credentials = &self.file.credentials;
        let named = |name: &str| VariableName::try_from(name.to_owned()).map_err(Failure::usage);
        let mut variables = BTreeMap::new();
        for (name, setting) in &self.file.env {
            let variable = match setting.variable_name() {
                Some(from) => Variable::Required(named(from)?),
                None => Variable::Value(setting.resolve(environment)?.expose().to_owned()),
            };
            variables.insert(named(name)?, variable);
        }
        for (name, location) in &self.file.pass_env {
            let name = named(name)?;
            let variable = match variables.remove(&name) {
                None => Variable::IfSet(None),
                Some(Variable::Value(otherwise)) => Variable::IfSet(Some(otherwise)),
                Some(Variable::Required(from)) if from == name => Variable::Required(from),
                Some(_) => {
                    let problem = "this variable has two sources, in `env` and here: remove one for a bundle";
                    return Err(InvalidFile::new(location, problem).into());
                }
            };
            variables.insert(name, variable);
        }
        for flag in &args.once.variables {
            let (name, variable) = match flag.split_once('=') {
                Some((name, value)) => (named(name)?, Variable::Value(value.to_owned())),
                None => (named(flag)?, Variable::Required(named(flag)?)),
            };
            if credentials.variables().any(|(masked, _)| masked == name.as_str()) {
                let name = name.as_str().escape_debug();
                let problem = format!("`{name}`, named by --env, is masked: the task gets a surrogate of it");
                return Err(Failure::usage(problem).with_hint("leave it out"));
            }
            variables.insert(name, variable);
        }
        variables.retain(|name, _| credentials.variables().all(|(masked, _)| masked != name.as_str()));
        for entry in &credentials.masked {
            variables.insert(named(&entry.variable)?, Variable::Masked(entry.injection.clone()));
        }
        Ok(variables)
    }

    /// Refuses a bundle that would reveal a secret whose value is in the environment: only the
    /// content of files is not searched.
    pub(crate) fn refuse_secrets(
        &self,
        settings: &Settings,
        tree: &Listing,
        environment: &Environment,
    ) -> Result<(), Failure> {
        let secrets = self.file.credentials.prepare_set(environment).map_err(|problems| {
            let first = problems.into_iter().next().map(Failure::from);
            first.unwrap_or_else(|| Failure::new("failed to read the credentials"))
        })?;
        let is_secret = |text: &str| secrets.replacements().surrogate_of(text).is_some();
        let settings = serde_json::to_value(settings)?;
        let parts = settings.as_object().into_iter().flatten();
        let mut part = parts.filter(|(_, value)| any_text(value, &is_secret)).map(|(name, _)| name.as_str());
        let in_tree = || {
            let reveals = |path: &Path| path.to_str().is_some_and(is_secret);
            tree.entries().any(|(path, entry)| {
                reveals(path.as_path()) || matches!(entry, Entry::Link(target) if reveals(target.as_path()))
            })
        };
        let Some(part) = part.next().or_else(|| in_tree().then_some("tree")) else { return Ok(()) };
        let problem = format!(
            "the part `{part}` of the bundle would contain a secret that the task has a surrogate of"
        );
        Err(Failure::new(problem).with_hint("name the variable of the secret in its place"))
    }

    /// The paths of the project that are packed.
    ///
    /// # Errors
    ///
    /// If the folder is a system folder or a home folder or contains the sandbox's state, if it
    /// contains another repository, or its files cannot be listed.
    pub(crate) fn bundled_paths(
        &self,
        tree: &Tree,
        environment: &Environment,
    ) -> Result<Vec<PathBuf>, Failure> {
        // It must not be in the project, which cannot be known of a missing one.
        create_folder(&self.places.state, 0o700).map_err(Failure::doing("create the state folder"))?;
        let whole = [Mount::read_only_at(&self.root, WORKSPACE)];
        self.check_mounts(&whole, None, false)
            .map_err(|failure| failure.with_hint("start in the folder of the project itself"))?;
        let found = tree_files(tree, &environment.of_git(), &self.resolver)?;
        if found.repositories.is_empty() {
            return Ok(found.files);
        }
        let shown =
            |path: &PathBuf| format!("`{}`", sanitize_name(&Path::new(".").join(path).display().to_string()));
        let named: Vec<_> = found.repositories.iter().take(NAMED).map(shown).collect();
        let more = match found.repositories.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = named.join(", ");
        Err(Failure::new(format!("the files of other git repositories cannot be in a bundle: {named}{more}")).with_hint(
            "make a bundle in that repository itself; `git submodule deinit` or a line in .gitignore leaves one out",
        ))
    }
}

/// Whether a text in `value`, or a key, fulfils `is`.
fn any_text(value: &Value, is: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, is)),
        Value::Object(fields) => fields.iter().any(|(key, item)| is(key) || any_text(item, is)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
