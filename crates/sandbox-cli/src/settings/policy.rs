//! The network policy of a run.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use allowlist::{Allowlist, Match, OuterPolicy, PolicyText, Preset, Rule, RuleChange, RuleKind};
use located_yaml::InvalidFile;
use sandbox::credentials::SecretReplacements;
use sandbox::gate::{self, Repository};
use sandbox::host_path::Found;
use sandbox::{Network, NetworkSandboxConfig};

use super::Project;
use crate::args::{GlobalArgs, PolicyArgs, TaskArgs};
use crate::config::{Environment, PolicySource, check_without_policy, read_text};
use crate::credentials;
use crate::failure::Failure;
use crate::printer::{Printer, Style, sanitize_name};
use crate::trust::{Input, Rights, Role, build_policy_rights, policy_rights};

/// The file of a policy, as it was read.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    path: PathBuf,
    label: String,
    /// `None` if it does not exist.
    found: Option<Found>,
    text: PolicyText,
    is_trusted: bool,
    /// The first line of a new file.
    first_line: Option<String>,
}

/// Remarks about a policy file that was written.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Remarks {
    is_new: Option<String>,
    untrusted: Option<String>,
}

impl Remarks {
    pub(crate) fn print(self, printer: Printer) {
        if let Some(is_new) = self.is_new {
            printer.message(is_new);
        }
        if let Some(untrusted) = self.untrusted {
            printer.warning(untrusted);
            printer.hint("read it, then run `sandbox trust`");
        }
    }

    /// The same as texts, if nothing can be printed.
    pub(crate) fn texts(self) -> impl Iterator<Item = String> {
        [self.is_new, self.untrusted].into_iter().flatten()
    }
}

impl PolicyFile {
    /// Its path, relative to the project if it is inside.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Whether it does not exist yet, and will begin with the presets of the agent.
    pub(crate) fn is_new(&self) -> bool {
        self.first_line.is_some()
    }

    pub(crate) fn text(&self) -> &PolicyText {
        &self.text
    }

    pub(crate) fn policy(&self) -> &Allowlist {
        self.text.policy()
    }
}

/// A change of a policy's file.
#[derive(Debug)]
#[must_use]
pub(crate) struct ChangedPolicy {
    pub(crate) label: String,
    /// The rules that were removed and added, each with its list; none if the rule in
    /// [`Self::known`] has the same effect.
    removed: Vec<(RuleKind, Rule)>,
    added: Vec<(RuleKind, Rule)>,
    known: Option<Match>,
    /// Rules of `deny` that still forbid a part of what was allowed, or all, and the documents of
    /// outer policies that do not allow all of it.
    pub(crate) left: Vec<String>,
    remarks: Remarks,
}

impl ChangedPolicy {
    /// The change, one line for each rule.
    pub(crate) fn lines(&self, printer: Printer) -> Vec<String> {
        let removed = self.removed.iter().map(|changed| ('-', Style::Bad, changed));
        let added = self.added.iter().map(|changed| ('+', Style::Good, changed));
        let line = |(sign, style, (kind, rule)): (char, Style, &(RuleKind, Rule))| {
            let shown = printer.styled(style, format_args!("{sign} {}", rule.to_yaml()));
            format!("{shown}  in `{}` of {}", kind.list(), self.label)
        };
        let mut lines: Vec<String> = removed.chain(added).map(line).collect();
        match (&self.known, self.is_changed()) {
            (Some(known), false) if known.kind == RuleKind::Deny => {
                lines.push(format!("already denied by {known}"));
            }
            (Some(known), false) => lines.push(format!("already allowed by {known}")),
            (Some(_), true) | (None, _) => {}
        }
        let left = self.left.iter().map(|place| format!("still denied, in whole or in part, by {place}"));
        lines.extend(left);
        lines
    }

    /// Whether anything was changed.
    pub(crate) fn is_changed(&self) -> bool {
        !self.removed.is_empty() || !self.added.is_empty()
    }

    pub(crate) fn remarks(&mut self) -> Remarks {
        std::mem::take(&mut self.remarks)
    }
}

impl Project {
    /// The policy: the file named by a flag, otherwise the project's, otherwise an empty one;
    /// extended by other flags.
    pub(crate) fn allowlist(&self, args: &PolicyArgs, printer: Printer) -> Result<Allowlist, Failure> {
        let policy = self.allowlist_if_any(args, printer)?;
        if policy.is_none() && !args.allow_something() {
            printer.warning(self.no_allowlist(&self.allowlist_path()));
        }
        self.within_outer(with_flags(policy, args))
    }

    /// The policies of the machine and of the user.
    pub(crate) fn outer(&self) -> Result<Vec<OuterPolicy>, Failure> {
        self.outer.read(&self.resolver)
    }

    /// The same policy within those of the machine and of the user.
    pub(crate) fn within_outer(&self, policy: Allowlist) -> Result<Allowlist, Failure> {
        Ok(policy.within_all(self.outer()?))
    }

    /// The policy of the file, otherwise the default of an agent; `None` if there is neither.
    fn allowlist_if_any(&self, args: &PolicyArgs, printer: Printer) -> Result<Option<Allowlist>, Failure> {
        let path = args.allowlist.clone().unwrap_or_else(|| self.allowlist_path());
        let policy = self.read_allowlist(&path)?;
        match policy {
            Some(_) => printer.note(format_args!("allowlist from {}", path.display())),
            None if args.allowlist.is_some() => return Err(self.missing_allowlist(&path)),
            None => return Ok(self.defaults.policy.clone()),
        }
        Ok(policy)
    }

    /// The error if the path named by a flag does not exist.
    pub(crate) fn missing_allowlist(&self, path: &Path) -> Failure {
        let usual = self.shown(&self.allowlist_path());
        Failure::new(format!("the allowlist `{}` does not exist", path.display()))
            .with_hint(format!("omit --allowlist to use {usual}"))
    }

    /// The warning that the project has no policy.
    pub(crate) fn no_allowlist(&self, path: &Path) -> String {
        format!(
            "{} does not exist, so no host can be reached; write `domains: [api.example.com]` there to allow a host",
            self.shown(path)
        )
    }

    /// The path of the project's policy, which need not exist.
    pub(crate) fn allowlist_path(&self) -> PathBuf {
        self.folder.allowlist()
    }

    /// The policy at `path` alone; `None` if it does not exist.
    pub(crate) fn read_allowlist(&self, path: &Path) -> Result<Option<Allowlist>, Failure> {
        let Some((input, policy)) = self.policy(path)? else {
            return Ok(None);
        };
        self.obey(input.as_ref(), policy_rights(&policy).need_trust())?;
        Ok(Some(policy))
    }

    /// The file of a policy, to change it: the one named by a flag, otherwise the project's. It
    /// need not exist.
    pub(crate) fn policy_file(&self, flag: Option<&Path>) -> Result<PolicyFile, Failure> {
        let path = flag.map_or_else(|| self.allowlist_path(), Path::to_owned);
        let label = self.shown(&path);
        let read = read_text(&self.resolver, &path, &label)?;
        let text = PolicyText::read(read.as_ref().map_or("", |(_, text)| text.as_str()), &label)?;
        // An empty policy contains nothing that another party wrote.
        let is_ours = *text.policy() == Allowlist::default();
        let input =
            read.as_ref().and_then(|(found, text)| Self::input(found, Role::Allowlist, text.as_bytes()));
        let is_recorded = |input: Input| {
            let rights = self.rights_of(&input.path, text.policy());
            self.trust_store().record().trusts(&input, &rights)
        };
        let is_trusted = is_ours || input.is_none_or(is_recorded);
        let found = read.map(|(found, _)| found);
        Ok(PolicyFile { path, label, found, text, is_trusted, first_line: None })
    }

    /// The same, to add to it: a new file begins with the APIs that the project's agent reaches
    /// without one.
    pub(crate) fn extended_policy_file(
        &self,
        flag: Option<&Path>,
        environment: &Environment,
    ) -> Result<PolicyFile, Failure> {
        let file = self.policy_file(flag)?;
        let presets = self.first_presets(environment);
        if flag.is_some() || file.found.is_some() || presets.is_empty() {
            return Ok(file);
        }
        let names: Vec<&str> = presets.into_iter().map(Preset::name).collect();
        let first_line = format!("presets: [{}]", names.join(", "));
        let text = PolicyText::read(&format!("{first_line}\n"), &file.label)?;
        Ok(PolicyFile { text, first_line: Some(first_line), ..file })
    }

    /// Changes a rule of the file, as it is now, that the policy of a run in `root` comes from.
    pub(crate) fn change_rule_of_run(
        source: &PolicySource,
        root: &Path,
        environment: &Environment,
        change: &RuleChange,
        printer: Printer,
    ) -> Result<ChangedPolicy, Failure> {
        let project = Self::load_at(root, source.config.clone(), environment, printer)?;
        let flag = source.is_flag.then_some(source.file.as_path());
        // A task may have replaced the folder of --config by a file.
        if flag.is_none() && project.allowlist_path() != source.file {
            let shown = sanitize_name(&source.file.display().to_string());
            return Err(Failure::new(format!("`{shown}` is not the settings' allowlist any more")));
        }
        project.change_rule(flag, environment, change)
    }

    /// The file of the policy of a command with these flags.
    pub(super) fn policy_source(
        &self,
        global: &GlobalArgs,
        flag: Option<&Path>,
    ) -> Result<PolicySource, Failure> {
        let config = global.config.as_deref().map(std::path::absolute).transpose()?;
        let file = flag.map_or_else(|| Ok(self.allowlist_path()), std::path::absolute)?;
        Ok(PolicySource { config, file, is_flag: flag.is_some() })
    }

    /// Changes a rule of the policy in the file named by a flag, otherwise in the project's.
    pub(crate) fn change_rule(
        &self,
        flag: Option<&Path>,
        environment: &Environment,
        change: &RuleChange,
    ) -> Result<ChangedPolicy, Failure> {
        let file = self.extended_policy_file(flag, environment)?;
        let changed = file.text().with_change(change).map_err(|error| Failure::new(error.to_string()))?;
        let (before, after) = (file.policy(), changed.policy());
        // A new file's first rules are not in force yet.
        let is_needless = !file.is_new() || matches!(change, RuleChange::Restore(_));
        let remarks = if after == before && is_needless {
            Remarks::default()
        } else {
            self.replace_policy(&file, &changed)?
        };
        let covers = |(place, known): (Match, &Rule)| known.covers(change.rule()).then_some(place);
        let meets = |(place, denied): (Match, &Rule)| change.rule().may_be_denied_by(denied).then_some(place);
        let (known, left) = match change {
            RuleChange::Allow(_) | RuleChange::Restore(_) => {
                let denied = after.denied_places().filter_map(meets).map(|place| place.to_string());
                let outer = self.outer()?.into_iter().filter(|outer| {
                    let (rules, denied) = (outer.policy.rules(), outer.policy.denied());
                    !rules.iter().any(|known| known.covers(change.rule()))
                        || denied.iter().any(|denied| change.rule().may_be_denied_by(denied))
                });
                let outer = outer.map(|outer| outer.document);
                (after.places().find_map(covers), denied.chain(outer).collect())
            }
            RuleChange::Deny(_) => (after.denied_places().find_map(covers), Vec::new()),
        };
        Ok(ChangedPolicy {
            removed: rules_beyond(before, after),
            added: rules_beyond(after, before),
            known,
            left,
            remarks,
            label: file.label,
        })
    }

    /// Replaces `file` by `text`. Its trust is unchanged, because the rest of its content is.
    pub(crate) fn replace_policy(&self, file: &PolicyFile, text: &PolicyText) -> Result<Remarks, Failure> {
        let path = file.found.as_ref().map_or(file.path.as_path(), Found::path);
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Failure::new(format!("`{}` is not a valid file name", path.display())));
        };
        let folder = self.resolver.make_folder(folder)?;
        let mut new = OsString::from(".");
        new.push(name);
        new.push(".new");
        folder.remove(&new)?;
        let mut written = folder.create_new(&new, 0o644)?;
        let writing = || format!("write `{}`", path.display());
        written.write_all(text.as_str().as_bytes()).map_err(Failure::doing(writing()))?;
        if let Some(found) = &file.found {
            let mode = found.file()?.metadata().map_err(Failure::doing(writing()))?.permissions();
            written.set_permissions(mode).map_err(Failure::doing(writing()))?;
        }
        folder.rename(&new, name)?;
        let agent = self.agent();
        let is_new = file
            .first_line
            .as_ref()
            .map(|first_line| format!("{} is new: `{first_line}` is for {agent}", file.label));
        let found = self.resolver.find(path)?;
        let untrusted = match Self::input(&found, Role::Allowlist, text.as_str().as_bytes()) {
            Some(input) if file.is_trusted => {
                let rights = self.rights_of(&input.path, text.policy());
                let recorded = self.trust_store().trust([(&input, &rights)], &[]);
                recorded.map_err(Failure::doing("record the trust"))?;
                None
            }
            Some(_) => {
                Some(format!("{} was not trusted before this change and is still not trusted", file.label))
            }
            None => None,
        };
        Ok(Remarks { is_new, untrusted })
    }

    /// The rights that the policy at `path` gives to tasks, to image builds, or to both.
    fn rights_of(&self, path: &Path, policy: &Allowlist) -> Rights {
        let is_at = |named: &Path| self.resolver.find(named).is_ok_and(|found| found.path() == path);
        let mut rights = Rights::default();
        let builds = self.build_allowlist_path().is_some_and(|builds| is_at(&builds));
        if builds {
            rights
                .extend(build_policy_rights(&Network::Sandboxed(NetworkSandboxConfig::new(policy.clone()))));
        }
        if !builds || is_at(&self.allowlist_path()) {
            rights.extend(policy_rights(policy));
        }
        rights
    }

    /// The policy at `path`, with the input of the trust review; `None` if it does not exist.
    pub(super) fn policy(&self, path: &Path) -> Result<Option<(Option<Input>, Allowlist)>, Failure> {
        let label = self.shown(path);
        let Some((found, text)) = read_text(&self.resolver, path, &label)? else {
            return Ok(None);
        };
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let read =
            if is_json { Allowlist::from_json(&text, &label) } else { Allowlist::from_yaml(&text, &label) };
        let input = Self::input(&found, Role::Allowlist, text.as_bytes());
        Ok(Some((input, read?)))
    }

    /// The repositories that tasks reach.
    pub(super) fn repositories(&self) -> Result<Vec<Repository>, InvalidFile> {
        let gate = gate::open(&self.places.state);
        let found = self.file.gate.iter().map(|name| {
            gate.repository(name).map_err(|error| InvalidFile::new(name.location(), error.to_string()))
        });
        found.collect()
    }

    /// The network of `run` and `agent`.
    pub(super) fn network(
        &self,
        args: &TaskArgs,
        replacements: SecretReplacements,
        environment: &Environment,
        printer: Printer,
    ) -> Result<Network, Failure> {
        let credentials = &self.file.credentials;
        if !self.is_sandboxed() {
            if args.audit {
                return Err(Failure::usage(
                    "--audit needs the network sandbox, which `network_sandbox: false` turns off",
                ));
            }
            if args.ask {
                return Err(Failure::usage(
                    "--ask needs the network sandbox, which `network_sandbox: false` turns off",
                ));
            }
            check_without_policy(&self.outer()?, "network_sandbox: false")?;
            printer.warning(
                "`network_sandbox: false`: the task has the host's network access, and nothing is logged",
            );
            if let Some(consequence) = credentials::without_proxy(credentials) {
                printer.warning(consequence);
            }
            return Ok(Network::Unrestricted);
        }
        let policy = if args.audit {
            let policy = with_flags(self.allowlist_if_any(&args.policy, printer)?, &args.policy);
            let policy = self.within_outer(policy)?;
            let outer = policy.outer().iter().map(|outer| format!(" within {}", outer.document));
            let outer = outer.collect::<Vec<_>>().join(" and");
            printer.warning(format_args!(
                "--audit: the task reaches any public host{outer}; `sandbox logs` shows its requests"
            ));
            policy
        } else {
            self.allowlist(&args.policy, printer)?
        };
        credentials::report(credentials, environment, &policy, printer);
        let services = self.file.host_services.iter().cloned();
        let network = NetworkSandboxConfig::new(policy).replacements(replacements).services(services)?;
        let network = network.gate(self.repositories()?);
        Ok(Network::Sandboxed(if args.audit { network.audited() } else { network }))
    }
}

/// The rules of `policy` that `other` lacks, with their lists.
fn rules_beyond(policy: &Allowlist, other: &Allowlist) -> Vec<(RuleKind, Rule)> {
    let denied = policy.denied().iter().filter(|rule| !other.denied().contains(rule));
    let own = policy.own_rules().iter().filter(|rule| !other.own_rules().contains(rule));
    let denied = denied.map(|rule| (RuleKind::Deny, rule.clone()));
    denied.chain(own.map(|rule| (rule.kind(), rule.clone()))).collect()
}

pub(super) fn with_flags(policy: Option<Allowlist>, args: &PolicyArgs) -> Allowlist {
    let policy = policy.unwrap_or_default().with_rules(args.allow.iter().cloned());
    policy.with_presets(args.presets.iter().copied())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn new_allowlist_keeps_the_default_policy_of_the_agent() {
        let key = Environment::from([("ANTHROPIC_API_KEY", "sk-ant-api03-0123456789")]);
        let begin = |environment: &Environment| {
            let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let root = root.path().canonicalize().unwrap();
            let project = super::super::fixtures::project(&root, state.path());
            let file = project.extended_policy_file(None, environment).unwrap();
            let changed = file.text().with(&[], &["a.example".parse().unwrap()]).unwrap();
            project.replace_policy(&file, &changed).unwrap().print(Printer::new(0, true));
            let path = project.allowlist_path();
            let found = project.resolver.find(&path).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            let input = Project::input(&found, Role::Allowlist, text.as_bytes()).unwrap();
            assert!(project.trust_store().record().trusts(&input, &policy_rights(file.policy())));
            // An existing file gets no first line.
            let again = project.extended_policy_file(None, environment).unwrap();
            assert_eq!((again.text().as_str(), again.first_line.as_ref()), (text.as_str(), None));
            text
        };
        assert_eq!(begin(&key), "presets: [anthropic]\ndomains:\n  - a.example\n");
        assert_eq!(begin(&Environment::default()), "domains:\n  - a.example\n");
    }

    #[test]
    fn changed_policy_keeps_its_trust_and_gains_none() {
        let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = root.path().canonicalize().unwrap();
        let project = super::super::fixtures::project(&root, state.path());
        let printer = Printer::new(0, true);
        let path = root.join(".sandbox/network-allowlist.yaml");
        let add = |rule: &str| {
            let file = project.policy_file(None).unwrap();
            let changed = file.text().with(&[], &[rule.parse().unwrap()]).unwrap();
            project.replace_policy(&file, &changed).unwrap().print(printer);
            let found = project.resolver.find(&path).unwrap();
            let input = Project::input(&found, Role::Allowlist, &fs::read(&path).unwrap()).unwrap();
            project.trust_store().record().trusts(&input, &policy_rights(changed.policy()))
        };
        assert!(add("a.example"), "nothing was there before");
        assert!(add("b.example/x"), "it was trusted before");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "domains:\n  - a.example\nurl_prefixes:\n  - {host: b.example, path: /x}\n");
        for planted in
            [text + "vendor_tools: {web_search: any}\n", "vendor_tools: {web_search: any}\n".to_owned()]
        {
            fs::write(&path, planted).unwrap();
            assert!(!add("c.example"), "another party wrote it");
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
