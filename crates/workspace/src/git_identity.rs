//! The name and e-mail of commits from the user's own git configuration.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::git_config::{self, Setting};
use super::git_follow::{expanded, outside_text};

/// Far more than any user has.
const MOST_FILES: usize = 64;

/// The identity of the committer, as far as the user's configuration has one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitIdentity {
    /// `user.name`.
    pub name: Option<String>,
    /// `user.email`.
    pub email: Option<String>,
}

impl GitIdentity {
    /// Reads the configurations `files`, of which later ones override earlier ones, for the work
    /// tree `tree`. It follows includes; of the conditional ones, those for a folder
    /// (`gitdir:~/work/`). Git in the task reads the repository's own configuration itself.
    #[must_use]
    pub fn of(files: &[PathBuf], home: Option<&Path>, tree: &Path) -> Self {
        let mut reader = Reader {
            identity: Self::default(),
            home,
            git: tree.join(".git"),
            left: MOST_FILES,
            open: Vec::new(),
        };
        for file in files {
            reader.read(file);
        }
        reader.identity
    }

    /// Whether neither name nor e-mail is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.name.is_none() && self.email.is_none()
    }
}

struct Reader<'a> {
    identity: GitIdentity,
    home: Option<&'a Path>,
    git: PathBuf,
    /// The number of files that may still be read.
    left: usize,
    /// Files being read, which may include themselves.
    open: Vec<PathBuf>,
}

impl Reader<'_> {
    fn read(&mut self, file: &Path) {
        let Some(left) = self.left.checked_sub(1).filter(|_| !self.open.iter().any(|open| open == file))
        else {
            return;
        };
        self.left = left;
        self.open.push(file.to_owned());
        let settings = outside_text(file).and_then(|text| git_config::settings(&text)).unwrap_or_default();
        for setting in settings {
            let value = || {
                let value = String::from_utf8(setting.value.clone()).ok();
                value.filter(|value| !value.is_empty() && !value.contains(char::is_control))
            };
            if setting.is("user", "name") {
                self.identity.name = value();
            } else if setting.is("user", "email") {
                self.identity.email = value();
            } else if self.includes(&setting) {
                let path = expanded(&setting.value, self.home);
                self.read(&file.parent().unwrap_or(Path::new("/")).join(path));
            }
        }
        self.open.pop();
    }

    fn includes(&self, setting: &Setting) -> bool {
        if setting.is("include", "path") {
            return true;
        }
        let condition = setting.subsection.as_deref().and_then(|text| text.strip_prefix(b"gitdir:"));
        let folder = condition.and_then(|text| text.strip_suffix(b"/"));
        let is_meant = folder.is_some_and(|folder| {
            let folder = expanded(folder, self.home);
            let text = folder.as_os_str().as_bytes();
            folder.is_absolute()
                && !text.iter().any(|byte| b"*?[".contains(byte))
                && self.git.starts_with(&folder)
        });
        &*setting.section == "includeif" && setting.key == "path" && is_meant
    }
}

/// The user's and the machine's configuration files; later ones override earlier ones. `global`
/// replaces the user's.
#[must_use]
pub fn git_configurations(
    home: Option<&Path>,
    config_home: Option<&Path>,
    global: Option<&Path>,
) -> Vec<PathBuf> {
    let system = PathBuf::from("/etc/gitconfig");
    if let Some(global) = global {
        return vec![system, global.to_owned()];
    }
    let config = config_home.map(Path::to_owned).or_else(|| Some(home?.join(".config")));
    let user = config.map(|config| config.join(OsStr::new("git/config")));
    [system].into_iter().chain(user).chain(home.map(|home| home.join(".gitconfig"))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn last_value_wins_and_only_folder_conditions_are_evaluated() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(home.path().join(name), text).unwrap();
        write(
            ".gitconfig",
            "[user]\n name = Ann \"B\"\n email = a@home.test\n[include]\n path = more\n[includeIf \"gitdir:~/work/\"]\n path = ~/work.inc\n\
             [includeIf \"onbranch:x\"]\n path = other.inc\n[includeIf \"gitdir:~/w*/\"]\n path = other.inc\n",
        );
        write("more", "[user]\n email = more@home.test\n[include]\n path = more\n path = more\n");
        write("work.inc", "[user]\n email = a@work.test\n");
        write("other.inc", "[user]\n email = wrong\n");
        let of = |tree: &str| {
            let files = git_configurations(Some(home.path()), None, None);
            let identity = GitIdentity::of(&files, Some(home.path()), &home.path().join(tree));
            (identity.name.unwrap(), identity.email.unwrap())
        };
        assert_eq!(of("x"), ("Ann B".to_owned(), "more@home.test".to_owned()));
        assert_eq!(of("work/x").1, "a@work.test");
        let named = git_configurations(Some(home.path()), None, Some(Path::new("/g")));
        assert_eq!(named, [PathBuf::from("/etc/gitconfig"), PathBuf::from("/g")]);
        assert!(GitIdentity::of(&[home.path().join("none")], None, Path::new("/")).is_empty());
    }
}
