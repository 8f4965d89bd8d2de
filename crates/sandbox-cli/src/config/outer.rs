//! The policies of the machine and of the user, which those of projects can only narrow.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use allowlist::{Allowlist, OuterPolicy};
use sandbox::host_path::Resolver;

use super::user::{user_folder, written_by_others};
use super::{BuildFile, BuildNetwork, ConfigFile, Environment, read_text};
use crate::failure::Failure;

/// The machine's policy, which only root can change.
const OF_MACHINE: &str = "/etc/sandbox/policy.yaml";

/// The policies of the machine and of the user, in this order, as far as they exist.
///
/// # Errors
///
/// If one is not valid, or another user or a task could have written it.
pub(crate) fn outer_policies(
    resolver: &Resolver,
    environment: &Environment,
) -> Result<Vec<OuterPolicy>, Failure> {
    let root = read(resolver, Path::new(OF_MACHINE), OF_MACHINE.to_owned(), (0, 0))?;
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let user = user_folder(environment).map(|(folder, shown)| {
        read(resolver, &folder.join("policy.yaml"), format!("{shown}/policy.yaml"), own)
    });
    Ok(root.into_iter().chain(user.transpose()?.flatten()).collect())
}

/// The policy at `path`, which only root and the user with the ids `own` may be able to write.
fn read(
    resolver: &Resolver,
    path: &Path,
    document: String,
    own: (u32, u32),
) -> Result<Option<OuterPolicy>, Failure> {
    let label = path.display().to_string();
    let Some((found, text)) = read_text(resolver, path, &label)? else {
        return Ok(None);
    };
    let facts = found.file()?.metadata().map_err(Failure::doing(format!("read `{label}`")))?;
    if let Some(refusal) = written_by_others(&label, (facts.uid(), facts.gid(), facts.mode()), own) {
        return Err(refusal);
    }
    if found.is_untrusted() {
        return Err(Failure::new(format!("`{label}` limits all projects, but a task could have written it"))
            .with_hint("move it out of the folders that tasks write to"));
    }
    let policy = Allowlist::from_yaml(&text, &label)?;
    if policy.is_empty() {
        return Err(Failure::new(format!(
            "`{label}` limits all projects, but has no rule that allows a request"
        ))
        .with_hint("write `domains: [\"*\"]` to limit only what `deny` names, or remove the file"));
    }
    Ok(Some(OuterPolicy::new(document, policy)))
}

impl ConfigFile {
    /// Refuses settings that no policy limits, if an outer one exists.
    pub(crate) fn check_within(&self, outer: &[OuterPolicy]) -> Result<(), Failure> {
        let setting = match self {
            Self { network_sandbox: Some(false), .. } => "network_sandbox: false",
            Self { build: Some(BuildFile::Network(BuildNetwork::Host)), .. } => "build: {network: host}",
            _ => return Ok(()),
        };
        match outer.first() {
            None => Ok(()),
            Some(OuterPolicy { document, .. }) => Err(Failure::new(format!(
                "`{setting}` gives access without a policy, which {document} does not permit"
            ))
            .with_hint("remove this setting, and allow hosts in the project's allowlist")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn outer_policy_is_read_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        let ids = fs::metadata(folder.path()).unwrap();
        let own = (ids.uid(), ids.gid());
        let read_as = |resolver: &Resolver, own| read(resolver, &path, "~/p.yaml".to_owned(), own);
        let read = |own| read_as(&Resolver::default(), own).map_err(|failure| failure.to_string());
        assert_eq!(read(own), Ok(None));
        for (text, mode, own, expected) in [
            ("domains: [a.example]", 0o644, own, Ok(())),
            ("domains: [a.example]", 0o646, own, Err("another user")),
            ("domains: [a.example", 0o644, own, Err("policy.yaml:")),
            ("", 0o644, own, Err("no rule")),
            ("domains: []", 0o644, own, Err("no rule")),
            ("deny: [a.example]", 0o644, own, Err("no rule")),
            ("domains: ['*']\ndeny: [a.example]", 0o644, own, Ok(())),
        ] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            match (read(own), expected) {
                (Ok(Some(outer)), Ok(())) => assert_eq!(outer.document, "~/p.yaml"),
                (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
                (read, _) => panic!("{text:?}: {read:?}"),
            }
        }
        let untrusted = Resolver::new([folder.path()]);
        let refusal = read_as(&untrusted, own).unwrap_err().to_string();
        assert!(refusal.contains("a task could have written it"), "{refusal}");
        if own.0 != 0 {
            assert!(read((0, 0)).unwrap_err().contains("another user"));
        }
    }

    #[test]
    fn settings_without_a_policy_are_refused_within_an_outer_one() {
        let outer = [OuterPolicy::new("/etc/p.yaml", Allowlist::default())];
        for (yaml, refused) in [
            ("network_sandbox: false", true),
            ("build: {network: host}", true),
            ("network_sandbox: true", false),
            ("build: {allowlist: a.yaml}", false),
        ] {
            let file = ConfigFile::parse(yaml, "sandbox.yaml", Path::new("/p/.sandbox")).unwrap();
            assert_eq!(file.check_within(&outer).is_err(), refused, "{yaml}");
            assert!(file.check_within(&[]).is_ok());
        }
    }
}
