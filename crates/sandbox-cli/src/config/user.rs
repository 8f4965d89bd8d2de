//! The user's own file, the fallback of every project's.

use std::path::{Path, PathBuf};

use sandbox::host_path::{Found, Resolver};

use super::Environment;
use super::file::ConfigFile;
use crate::failure::Failure;
use crate::printer::sanitize_name;

/// `$XDG_CONFIG_HOME/sandbox/sandbox.yaml`, otherwise `~/.config/sandbox/sandbox.yaml`; `None` if
/// the environment names no folder.
pub(crate) fn user_file(environment: &Environment) -> Option<PathBuf> {
    user_folder(environment).map(|(folder, _)| folder.join("sandbox.yaml"))
}

/// The folder of the user's own files, and its name without the user's.
pub(super) fn user_folder(environment: &Environment) -> Option<(PathBuf, &'static str)> {
    let absolute = |path: &PathBuf| path.is_absolute();
    if let Some(base) = environment.path("XDG_CONFIG_HOME").filter(absolute) {
        return Some((base.join("sandbox"), "$XDG_CONFIG_HOME/sandbox"));
    }
    let home = environment.path("HOME").filter(absolute)?;
    Some((home.join(".config/sandbox"), "~/.config/sandbox"))
}

impl ConfigFile {
    /// Reads the user's own file; `None` if there is none. A file that another user can write to is
    /// refused.
    pub(crate) fn read_user(
        resolver: &Resolver,
        path: &Path,
    ) -> Result<Option<(Self, Found, String)>, Failure> {
        let label = path.display().to_string();
        let Some((file, found, text)) = Self::read(resolver, path, &label)? else {
            return Ok(None);
        };
        if is_written_by_others(&found)? {
            return Err(refusal(&label, rustix::process::geteuid().as_raw()));
        }
        if let Some(key) = file.project_key() {
            return Err(Failure::new(format!("`{label}` has `{key}`, which only a project's file can set"))
                .with_hint("move it to the project's .sandbox/sandbox.yaml"));
        }
        Ok(Some((file, found, text)))
    }
}

/// The refusal of a file with this owner, group and mode if users other than root and the one with
/// the ids `own` can write to it.
pub(super) fn written_by_others(label: &str, facts: (u32, u32, u32), own: (u32, u32)) -> Option<Failure> {
    others_write(facts, own).then(|| refusal(label, own.0))
}

fn refusal(label: &str, owner: u32) -> Failure {
    Failure::new(format!("`{label}` may have been written by another user"))
        .with_hint(format!("if it was not: `chown {owner} {label}; chmod go-w {label}`"))
}

/// Fails if a task, or a user other than root and this one, can write to the file or folder.
pub(crate) fn demand_ours(found: &Found) -> Result<(), Failure> {
    if found.is_untrusted() || is_written_by_others(found)? {
        let shown = sanitize_name(&found.path().display().to_string());
        return Err(Failure::new(format!("a task or another user could have written `{shown}`"))
            .with_hint("only you may be able to write to it and its folder: move it, or use `chmod go-w`"));
    }
    Ok(())
}

/// Whether users other than root and this one can write to the file or folder.
pub(crate) fn is_written_by_others(found: &Found) -> Result<bool, Failure> {
    let facts = rustix::fs::fstat(found);
    let facts = facts.map_err(Failure::doing(format!("read `{}`", found.path().display())))?;
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Ok(others_write((facts.st_uid, facts.st_gid, facts.st_mode), own))
}

/// Whether users other than root and the one with the ids `own` can write to a file with this
/// owner, group and mode.
fn others_write((owner, group, mode): (u32, u32, u32), own: (u32, u32)) -> bool {
    let by_group = mode & 0o020 != 0 && ![own.1, 0].contains(&group);
    ![own.0, 0].contains(&owner) || by_group || mode & 0o002 != 0
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn read(yaml: &str, folder: &str) -> ConfigFile {
        ConfigFile::parse(yaml, "x", Path::new(folder)).unwrap()
    }

    #[test]
    fn project_overrides_user_and_maps_are_merged_by_name() {
        let project = "agent: codex\nenv: {A: p}\nresource_limits: {memory: 1g}\nprotected_paths: [ci]\nmasked_secrets: {T: {scopes: [p.example], headers: [x]}}";
        let user = "agent: gemini\nengine: unix:///u.sock\nenv: {A: u, B: u}\npass_env: [C]\nresource_limits: {memory: 2g, pids_limit: 9}\nprotected_paths: [x]\nupstream: {extra_roots: r.pem}\nmasked_secrets: {T: {scopes: [u.example], headers: [x]}, U: {scopes: [u.example], headers: [x]}}";
        let merged = read(project, "/p").over(read(user, "/u")).unwrap();
        assert_eq!(merged.agent.unwrap().name(), "codex");
        assert!(merged.engine.is_some());
        assert_eq!(merged.env["A"], read(project, "/p").env["A"]);
        assert!(merged.env.contains_key("B") && merged.pass_env.contains_key("C"));
        assert_eq!(
            (merged.resource_limits.memory.unwrap().bytes(), merged.resource_limits.pids),
            (1 << 30, Some(9))
        );
        let protected: Vec<&str> = merged.protected_paths.iter().map(|path| path.0.as_str()).collect();
        assert_eq!(protected, ["ci", "x"]);
        assert_eq!(merged.upstream.extra_roots.unwrap().as_path(), Path::new("/u/r.pem"));
        let scopes: Vec<_> =
            merged.credentials.scopes().map(|(name, _, scopes)| (name, scopes[0].as_str())).collect();
        assert_eq!(scopes, [("T", "p.example"), ("U", "u.example")]);
        // A project cannot pass on a variable that the user masks.
        assert!(read("pass_env: [U]", "/p").over(read(user, "/u")).is_err());
    }

    #[test]
    fn file_of_others_and_project_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sandbox.yaml");
        let write = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            ConfigFile::read_user(&Resolver::default(), &path).map(|read| read.is_some())
        };
        assert!(write("agent: codex", 0o600).unwrap());
        assert!(write("agent: codex", 0o666).unwrap_err().to_string().contains("another user"));
        assert!(write("agent: codex", 0o660).unwrap(), "the user's own group");
        for key in ["image: x", "network_sandbox: false", "mounts: ['/x:/x']", "protect_workspace: false"] {
            let error = write(key, 0o600).unwrap_err().to_string();
            assert!(error.contains("only a project's file can set"), "{key}: {error}");
        }
        let none = ConfigFile::read_user(&Resolver::default(), &folder.path().join("none/none.yaml"));
        assert!(none.unwrap().is_none());
    }

    #[test]
    fn file_writable_by_others_is_refused() {
        for (facts, is_others) in [
            ((1000, 100, 0o664), false),
            ((0, 0, 0o664), false),
            ((1000, 7, 0o644), false),
            ((1000, 7, 0o664), true),
            ((0, 7, 0o664), true),
            ((1001, 100, 0o600), true),
            ((1000, 100, 0o602), true),
        ] {
            assert_eq!(others_write(facts, (1000, 100)), is_others, "{facts:?}");
        }
    }

    #[test]
    fn user_file_follows_the_environment() {
        let file = |environment| user_file(&environment).map(|path| path.display().to_string());
        let both = Environment::from([("XDG_CONFIG_HOME", "/c"), ("HOME", "/h")]);
        assert_eq!(file(both).as_deref(), Some("/c/sandbox/sandbox.yaml"));
        assert_eq!(
            file(Environment::from([("HOME", "/h")])).as_deref(),
            Some("/h/.config/sandbox/sandbox.yaml")
        );
        assert_eq!(file(Environment::default()), None);
    }
}
