//! The files of a work tree, as the user's git lists them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::git::{Git, Input};
use crate::repository::HostRepository;
use crate::{Error, Limits};

/// The mode of a submodule in an index.
const SUBMODULE: &[u8] = b"160000";
/// Git opens each `.gitignore`: a pipe in its place would block it for ever.
const TIME: Duration = Duration::from_mins(1);
/// A cache in the index could hide files; git in a submodule would obey other settings.
const SETTINGS: [&str; 4] = ["-c", "core.untrackedCache=false", "-c", "submodule.recurse=false"];

/// The files of a work tree that `git add --all` would leave in its index, relative to a folder of
/// it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkTreeFiles {
    /// Files and links. Tracked ones are also listed if they do not exist, or a folder has their
    /// place. A file with conflicts is listed several times.
    pub files: Vec<PathBuf>,
    /// Submodules, whether they have files or not, and other repositories in it. An empty path is the
    /// folder itself.
    pub repositories: Vec<PathBuf>,
}

impl HostRepository {
    /// Lists the files below `folder` of its work tree at `work_tree`: tracked ones, and others that
    /// are not ignored. `folder` is relative; an empty path is the whole work tree. `user` are the
    /// variables by which git finds the configurations of the user and of the machine, such as `HOME`.
    ///
    /// Git reads them and the repository's, because they decide what is ignored, but runs no program
    /// that they name, and writes nothing.
    ///
    /// # Errors
    ///
    /// If git fails, warns, as for a folder that it cannot read, or takes longer than a minute; if the
    /// index names a file in a `.git`; and if a path is not UTF-8.
    pub fn files(
        &self,
        work_tree: &Path,
        folder: &Path,
        user: &[(OsString, OsString)],
    ) -> Result<WorkTreeFiles, Error> {
        let limits = Limits { time: TIME, ..Limits::default() };
        self.list(work_tree, folder, user, &limits).map_err(|error| self.named(error))
    }

    /// Which of `paths` below `folder` the user's git ignores: files, and folders with their contents.
    /// The others are as for [`files`](Self::files).
    ///
    /// # Errors
    ///
    /// If git fails, as for a path beyond a link, warns, or takes longer than a minute; and if a path is
    /// not UTF-8.
    pub fn ignored(
        &self,
        work_tree: &Path,
        folder: &Path,
        paths: &[(PathBuf, bool)],
        user: &[(OsString, OsString)],
    ) -> Result<Vec<PathBuf>, Error> {
        let limits = Limits { time: TIME, ..Limits::default() };
        let top = work_tree.to_str().ok_or_else(|| self.unsupported("is in a folder that is not UTF-8"))?;
        // Otherwise a path could begin with the magic of a pathspec.
        let folder = Path::new(".").join(folder);
        let mut input = Vec::new();
        for (path, is_folder) in paths {
            input.extend(folder.join(path).as_os_str().as_bytes());
            input.extend(if *is_folder { &b"/\0"[..] } else { b"\0" });
        }
        let git = self.git(&limits).of_user(self.path(), work_tree, user);
        let arguments = [&SETTINGS[..], &["-C", top, "check-ignore", "-z", "--stdin"]].concat();
        let run = git.run("find ignored files", &arguments, Input::Bytes(&input), None);
        let run = run.map_err(|error| self.named(error))?;
        // It also fails without a message if there is none.
        if !run.is_silent() {
            return Err(self.named(run.error()));
        }
        let found = run.output.split(|byte| *byte == 0).map(|path| Path::new(OsStr::from_bytes(path)));
        Ok(found
            .filter_map(|path| path.strip_prefix(&folder).ok())
            .map(|path| path.components().collect())
            .collect())
    }

    fn list(
        &self,
        work_tree: &Path,
        folder: &Path,
        user: &[(OsString, OsString)],
        limits: &Limits,
    ) -> Result<WorkTreeFiles, Error> {
        let (Some(top), Some(below)) = (work_tree.to_str(), folder.to_str()) else {
            return Err(self.unsupported("is in a folder that is not UTF-8"));
        };
        let git = self.git(limits).of_user(self.path(), work_tree, user);
        let mut found = WorkTreeFiles::default();
        for entry in listed(&git, "list tracked files", top, &["--stage"], below)?.split(|byte| *byte == 0) {
            let Some(at) = entry.iter().position(|byte| *byte == b'\t') else { continue };
            let (head, path) = (entry.get(..at).unwrap_or_default(), entry.get(at + 1..).unwrap_or_default());
            self.add(path, head.starts_with(SUBMODULE), folder, &mut found)?;
        }
        let others = listed(&git, "list files", top, &["--others", "--exclude-standard"], below)?;
        for path in others.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            match path.strip_suffix(b"/") {
                Some(repository) => self.add(repository, true, folder, &mut found)?,
                None => self.add(path, false, folder, &mut found)?,
            }
        }
        Ok(found)
    }

    /// Adds a path that git printed. An index can name anything: a file of a repository would take
    /// along what its configuration has, such as passwords in URLs.
    fn add(
        &self,
        path: &[u8],
        is_repository: bool,
        folder: &Path,
        found: &mut WorkTreeFiles,
    ) -> Result<(), Error> {
        if path.split(|byte| *byte == b'/').any(|name| name.eq_ignore_ascii_case(b".git")) {
            return Err(self.unsupported("has an index that names a file in a `.git`"));
        }
        let path = Path::new(OsStr::from_bytes(path));
        let Ok(path) = path.strip_prefix(folder) else { return Ok(()) };
        if is_repository { &mut found.repositories } else { &mut found.files }.push(path.to_owned());
        Ok(())
    }

    fn unsupported(&self, problem: &'static str) -> Error {
        Error::Unsupported { path: self.path().to_owned(), problem }
    }
}

/// What `git ls-files` prints of the files below `folder` of the work tree `top`.
fn listed(
    git: &Git<'_>,
    operation: &'static str,
    top: &str,
    which: &[&str],
    folder: &str,
) -> Result<Vec<u8>, Error> {
    // Relative paths of settings begin at the top.
    let before = ["-C", top, "--literal-pathspecs", "ls-files", "-z"];
    let below = if folder.is_empty() { &[][..] } else { &["--", folder][..] };
    let run = git.run(operation, &[&SETTINGS, &before[..], which, below].concat(), Input::Nothing, None)?;
    if run.is_success && run.is_silent() { Ok(run.output) } else { Err(run.error()) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::tests::fixture::{git, script};

    fn repository(commands: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("app");
        fs::create_dir_all(path.join("sub")).unwrap();
        fs::create_dir(path.with_file_name("home")).unwrap();
        script(&path, &format!("git init -q -b main .\n{commands}"));
        (folder, path)
    }

    fn listed(path: &Path, folder: &str) -> Result<[Vec<String>; 2], Error> {
        let host = HostRepository::open(&path.join(".git")).unwrap();
        let home = path.with_file_name("home").into();
        let user = [("HOME".into(), home), ("GIT_CONFIG_NOSYSTEM".into(), "1".into())];
        let found = host.files(path, Path::new(folder), &user)?;
        Ok([found.files, found.repositories].map(|paths| {
            let mut paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            paths.sort();
            paths.dedup();
            paths
        }))
    }

    #[test]
    fn tracked_and_new_files_are_listed_and_ignored_ones_are_not() {
        let (_folder, path) = repository(
            "echo 1 > sub/kept.log\necho 1 > gone\ngit add -f .\ngit commit -qm 1\nrm gone\n\
             echo '*.log' > .gitignore\ntouch sub/new sub/x.log 'a\tb'",
        );
        let [files, repositories] = listed(&path, "").unwrap();
        assert_eq!(files, [".gitignore", "a\tb", "gone", "sub/kept.log", "sub/new"]);
        assert!(repositories.is_empty());
        assert_eq!(listed(&path, "sub").unwrap()[0], ["kept.log", "new"]);
        git(&path, "update-index --split-index");
        assert_eq!(listed(&path, "").unwrap()[0], files, "a split index");
    }

    #[test]
    fn ignored_paths_are_found_whether_they_exist_or_not() {
        let (_folder, path) = repository(
            "echo 1 > sub/kept.log\ngit add -f .\ngit commit -qm 1\nprintf 'out/\\n*.log\\n' > .gitignore\ntouch x.log",
        );
        let host = HostRepository::open(&path.join(".git")).unwrap();
        let user = [("GIT_CONFIG_NOSYSTEM".into(), "1".into())];
        let ignored = |folder: &str, paths: &[(&str, bool)]| {
            let paths: Vec<_> = paths.iter().map(|(path, is_folder)| (path.into(), *is_folder)).collect();
            let found =
                host.ignored(&path, Path::new(folder), &paths, &user).map_err(|error| error.to_string())?;
            Ok::<_, String>(found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>())
        };
        let paths = [
            ("out", true),
            ("out/a", false),
            ("x.log", false),
            (":(top)y.log", false),
            ("sub/kept.log", false),
            ("new", false),
        ];
        assert_eq!(ignored("", &paths).unwrap(), ["out", "out/a", "x.log", ":(top)y.log"]);
        assert_eq!(
            ignored("sub", &[("out", true), ("kept.log", false), ("y.log", false)]).unwrap(),
            ["out", "y.log"]
        );
        assert!(ignored("", &[("new", false)]).unwrap().is_empty());
        symlink("/", path.join("link")).unwrap();
        assert!(ignored("", &[("link/x.log", false)]).unwrap_err().contains("beyond a symbolic link"));
    }

    #[test]
    fn file_that_the_users_git_ignores_is_not_listed() {
        let has_secret =
            |path: &Path| listed(path, "").map(|[files, _]| files.contains(&"secret".to_owned()));
        for (ignoring, setting) in [
            ("echo secret > .git/info/exclude", "in the repository"),
            ("printf '\\357\\273\\277secret\\n' > .git/info/exclude", "after a byte order mark"),
            (
                "rm -r .git/info; mkdir ../info; echo secret > ../info/exclude; ln -s ../../info .git/info",
                "by a link",
            ),
            ("echo SECRET > .git/info/exclude; git config core.ignoreCase true", "in another case"),
            ("git config core.excludesFile PATTERNS", "by a setting"),
            ("echo secret > sub/x; git config core.excludesFile sub/x", "by a relative path"),
            (
                "git config include.path ../more; git config -f more core.excludesFile PATTERNS",
                "by an include",
            ),
            (
                "git config extensions.worktreeConfig true; git config --worktree core.excludesFile PATTERNS",
                "by a setting of the work tree",
            ),
            ("mkdir -p ../home/.config/git; echo secret > ../home/.config/git/ignore", "by the user"),
            ("git config -f ../home/.gitconfig core.excludesFile PATTERNS", "by the user's setting"),
            (
                "git config -f ../home/.gitconfig includeIf.gitdir:**/.path more; git config -f ../home/more core.excludesFile PATTERNS",
                "by the user's conditional include",
            ),
        ] {
            let (_folder, path) = repository("touch secret");
            fs::write(path.with_file_name("patterns"), "secret\n").unwrap();
            assert!(has_secret(&path).unwrap(), "the control, {setting}");
            let patterns = path.with_file_name("patterns").display().to_string();
            script(&path, &ignoring.replace("PATTERNS", &patterns));
            assert!(!has_secret(&path).unwrap(), "{setting}");
        }
        let (_folder, path) = repository("touch secret patterns\necho secret > patterns");
        let host = HostRepository::open(&path.join(".git")).unwrap();
        let by_environment = |count: &str| {
            let variables = [("COUNT", count), ("KEY_0", "core.excludesFile"), ("VALUE_0", "patterns")];
            let user = variables.map(|(name, value)| (format!("GIT_CONFIG_{name}").into(), value.into()));
            host.files(&path, Path::new(""), &user).unwrap().files
        };
        assert_eq!(by_environment("1"), ["patterns"].map(PathBuf::from));
        assert_eq!(by_environment("0"), ["patterns", "secret"].map(PathBuf::from), "the control");
        fs::write(path.with_file_name("home").join(".gitconfig"), "[core\n").unwrap();
        let error = has_secret(&path).unwrap_err().to_string();
        assert!(error.contains("bad config"), "{error}");
    }

    #[test]
    fn repositories_in_the_work_tree_are_named_and_not_listed() {
        let (_folder, path) = repository("git init -q sub/other\ntouch sub/other/file sub/mine");
        script(
            &path.join("sub/other"),
            "git add .\ngit commit -qm 1\ngit clone -q . ../../module 2> /dev/null",
        );
        script(&path, "-git add module 2> /dev/null\ngit config submodule.recurse true");
        let [files, repositories] = listed(&path, "").unwrap();
        assert_eq!(
            (files, repositories),
            (vec!["sub/mine".to_owned()], ["module", "sub/other"].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn no_program_of_a_configuration_runs() {
        let (folder, path) = repository("echo 1 > file\ngit add .\ngit commit -qm 1");
        let ran = folder.path().canonicalize().unwrap().join("ran");
        let touch = |name: &str| format!("mkdir -p {0}; touch {0}/{name}", ran.display());
        fs::create_dir_all(path.join(".git/hooks")).unwrap();
        let hook = path.join(".git/hooks/post-index-change");
        fs::write(&hook, format!("#!/bin/sh\n{}\n", touch("hook"))).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(path.join(".gitattributes"), "* filter=x\n").unwrap();
        fs::write(path.join(".git/more"), format!("[core]\n\tfsmonitor = \"{}; false\"\n", touch("monitor")))
            .unwrap();
        script(
            &path,
            &format!(
                "git config filter.x.clean '{}; cat'\ngit config include.path more\n-git update-index --fsmonitor\necho 2 > file",
                touch("filter")
            ),
        );
        let _ = fs::remove_dir_all(&ran);
        assert_eq!(listed(&path, "").unwrap()[0], [".gitattributes", "file"]);
        let monitor = touch("monitor");
        let user = [("COUNT", "1"), ("KEY_0", "core.fsmonitor"), ("VALUE_0", &monitor)];
        let user = user.map(|(name, value)| (format!("GIT_CONFIG_{name}").into(), value.into()));
        HostRepository::open(&path.join(".git")).unwrap().files(&path, Path::new(""), &user).unwrap();
        assert!(!ran.exists(), "a program ran");
        git(&path, "add file");
        for name in ["monitor", "filter", "hook"] {
            assert!(ran.join(name).exists(), "the control: git itself runs the {name}");
        }
    }

    #[test]
    fn index_that_names_a_file_in_git_is_refused() {
        let (_folder, path) = repository("mkdir -p xgit\necho 1 > xgit/config\ngit add .");
        let index = fs::read(path.join(".git/index")).unwrap();
        let at = index.windows(11).position(|bytes| bytes == b"xgit/config").unwrap();
        let mut other = index.clone();
        other[at] = b'.';
        let end = other.len() - 20;
        let sum = <sha1::Sha1 as sha1::Digest>::digest(&other[..end]);
        other[end..].copy_from_slice(&sum);
        fs::write(path.join(".git/index"), other).unwrap();
        let error = listed(&path, "").unwrap_err().to_string();
        assert!(error.ends_with("has an index that names a file in a `.git`"), "{error}");
        fs::write(path.join(".git/index"), index).unwrap();
        assert_eq!(listed(&path, "").unwrap()[0], ["xgit/config"], "the control");
    }

    #[test]
    fn pipe_in_the_place_of_patterns_does_not_block() {
        let (_folder, path) = repository("mkfifo .gitignore");
        let host = HostRepository::open(&path.join(".git")).unwrap();
        let limits = Limits { time: Duration::from_millis(500), ..Limits::default() };
        let list = || host.list(&path, Path::new(""), &[], &limits);
        assert!(matches!(list(), Err(Error::TooLong { .. })), "{:?}", list());
        fs::remove_file(path.join(".gitignore")).unwrap();
        assert!(list().is_ok(), "the control");
    }

    #[test]
    fn warning_of_git_is_an_error() {
        let (_folder, path) = repository("touch secret\necho secret > elsewhere");
        symlink("elsewhere", path.join(".gitignore")).unwrap();
        let warned = listed(&path, "");
        assert!(matches!(warned, Err(Error::Git { .. })), "{warned:?}");
        fs::remove_file(path.join(".gitignore")).unwrap();
        assert!(listed(&path, "").is_ok(), "the control");
    }
}
