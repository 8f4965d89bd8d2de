//! The policies of the machine and of the user, which those of projects can only narrow.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use allowlist::{Allowlist, OuterPolicy};
use sandbox::host_path::Resolver;

use super::user::{user_folder, written_by_others};
use super::{Environment, read_text};
use crate::failure::Failure;

/// The machine's policy, which only root can change.
const OF_MACHINE: &str = "/etc/sandbox/policy.yaml";

/// The files of these policies, which need not exist.
#[derive(Debug, Default)]
pub(crate) struct OuterFiles {
    /// The user's, and its name without the user's.
    of_user: Option<(PathBuf, String)>,
}

impl OuterFiles {
    pub(crate) fn find(environment: &Environment) -> Self {
        let named =
            |(folder, shown): (PathBuf, &str)| (folder.join("policy.yaml"), format!("{shown}/policy.yaml"));
        Self { of_user: user_folder(environment).map(named) }
    }

    /// The policies of the machine and of the user, in this order, as far as they exist.
    ///
    /// # Errors
    ///
    /// If one is not valid, or another user or a task could have written it.
    pub(crate) fn read(&self, resolver: &Resolver) -> Result<Vec<OuterPolicy>, Failure> {
        let root = read(resolver, Path::new(OF_MACHINE), OF_MACHINE, (0, 0))?;
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let user = self.of_user.as_ref().map(|(path, document)| read(resolver, path, document, own));
        Ok(root.into_iter().chain(user.transpose()?.flatten()).collect())
    }
}

/// The policy at `path`, which only root and the user with the ids `own` may be able to write.
fn read(
    resolver: &Resolver,
    path: &Path,
    document: &str,
    own: (u32, u32),
) -> Result<Option<OuterPolicy>, Failure> {
    let label = path.display().to_string();
    let Some((found, text)) = read_text(resolver, path, &label)? else {
        // A link that leads nowhere is no reason to go without limits.
        let leads_nowhere = |part: &&Path| part.is_symlink() && !part.exists();
        return match path.ancestors().find(leads_nowhere) {
            None => Ok(None),
            Some(part) => Err(Failure::new(format!(
                "`{label}` may limit all projects, but `{}` is a link that leads nowhere",
                part.display()
            ))),
        };
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
        .with_hint("to allow every host by its name, write `domains: [\"*\"]`; or remove the file"));
    }
    Ok(Some(OuterPolicy::new(document, policy)))
}

/// The refusal of a setting that no policy limits, if an outer one exists.
pub(crate) fn check_without_policy(outer: &[OuterPolicy], setting: &str) -> Result<(), Failure> {
    match outer.first() {
        None => Ok(()),
        Some(OuterPolicy { document, .. }) => Err(Failure::new(format!(
            "`{setting}` gives access without a policy, which {document} does not permit"
        ))
        .with_hint("remove this setting, and allow hosts in an allowlist of the project")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn outer_policy_is_read_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        let ids = fs::metadata(folder.path()).unwrap();
        let own = (ids.uid(), ids.gid());
        let read_as = |resolver: &Resolver, own| read(resolver, &path, "~/p.yaml", own);
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
        let (target, moved) = (folder.path().join("target.yaml"), folder.path().join("moved.yaml"));
        fs::rename(&path, &target).unwrap();
        symlink(&target, &path).unwrap();
        assert!(read(own).unwrap().is_some());
        fs::rename(&target, &moved).unwrap();
        assert!(read(own).unwrap_err().contains("is a link that leads nowhere"));
        fs::remove_file(&path).unwrap();
        symlink(&target, folder.path().join("folder")).unwrap();
        let below = folder.path().join("folder/policy.yaml");
        let refusal = super::read(&Resolver::default(), &below, "p", own).unwrap_err().to_string();
        assert!(refusal.contains("is a link that leads nowhere"), "{refusal}");
        fs::rename(&moved, &path).unwrap();
        let untrusted = Resolver::new([folder.path()]);
        let refusal = read_as(&untrusted, own).unwrap_err().to_string();
        assert!(refusal.contains("a task could have written it"), "{refusal}");
        if own.0 != 0 {
            assert!(read((0, 0)).unwrap_err().contains("another user"));
        }
    }
}
