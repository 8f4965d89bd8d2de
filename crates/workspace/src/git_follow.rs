//! Paths in a tree that the host's git follows because of its configuration, including the user's
//! own, and of the pointer files between repositories and their work trees.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use sandbox_files::tree::{Kind, Tree};

use super::git_config::{self, Setting};
use super::links::{follow, within};
use super::role::{LONGEST_TEXT, Role, text};

/// The maximum number of configurations read through includes.
const MOST_INCLUDES: usize = 64;
/// The maximum number of paths that configurations name in a tree.
const MOST_FOLLOWED: usize = 1000;
/// Settings whose files git reads as data, or not at all: everyday work changes them.
const DATA: [(&str, &str); 6] = [
    ("blame", "ignorerevsfile"),
    ("core", "excludesfile"),
    ("core", "worktree"),
    ("commit", "template"),
    ("mailmap", "file"),
    ("safe", "directory"),
];

/// The location of a configuration, in the order in which they are followed until a limit is
/// reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Repository(Pointer),
    /// The user's and the machine's, which apply in every work tree: a task may have created many.
    User,
}

/// A setting that makes git follow a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    role: Role,
    path: PathBuf,
    /// Whether it counts only if such a file exists: it may be the name of something else.
    if_file: bool,
}

/// The paths that configurations make git follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rules {
    of: BTreeMap<Source, Vec<Rule>>,
    /// Configurations in the tree that others include.
    included: BTreeSet<PathBuf>,
}

/// The repository that a work tree's `.git` names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pointer {
    /// A folder of the tree.
    Inside(PathBuf),
    /// A folder elsewhere, which need not exist.
    Outside(PathBuf),
}

/// Reads the path in `text`, from a file in `folder`. The text must begin with `prefix`.
pub(super) fn pointer(tree: &Tree, folder: &Path, text: &[u8], prefix: &[u8]) -> Option<Pointer> {
    let named = trimmed(text.strip_prefix(prefix)?);
    if named.is_empty() || named.contains(&0) {
        return None;
    }
    let named = Path::new(OsStr::from_bytes(named));
    Some(match within(tree.path(), folder, named) {
        Some(inside) => Pointer::Inside(inside),
        None => Pointer::Outside(tree.path().join(folder).join(named)),
    })
}

/// The text without line endings that git ignores in pointers.
pub(super) fn trimmed(text: &[u8]) -> &[u8] {
    let mut text = text;
    while let [rest @ .., b'\n' | b'\r'] = text {
        text = rest;
    }
    text
}

/// `path` without `.` and `..`; `None` if it is not absolute.
pub(super) fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain.is_absolute().then_some(plain)
}

/// The repository that the `.git` of the folder `work_tree` leads to.
pub(super) fn repository_of(tree: &Tree, work_tree: &Path) -> Option<Pointer> {
    let git = work_tree.join(".git");
    match tree.facts(&git).ok()??.kind {
        Kind::File => pointer(tree, work_tree, &text(tree, &git)?, b"gitdir: "),
        Kind::Folder => Some(Pointer::Inside(git)),
        Kind::Link => follow(tree, &git).end.map(Pointer::Inside),
        Kind::Special => None,
    }
}

/// Whether `core.worktree` of the repository `git_dir` names a folder of the tree that is one of
/// its work trees.
pub(super) fn is_work_tree(tree: &Tree, git_dir: &Path, named: &[u8]) -> bool {
    let named = Path::new(OsStr::from_bytes(named));
    within(tree.path(), git_dir, named)
        .is_some_and(|folder| repository_of(tree, &folder) == Some(Pointer::Inside(git_dir.to_owned())))
}

/// The rules and paths that git follows in `tree`, whose repositories are `repositories` and whose
/// other `.git` entries are `links`: by the `known` rules, else by those in the configurations.
pub(super) fn followed(
    tree: &Tree,
    repositories: &BTreeSet<PathBuf>,
    links: &[PathBuf],
    known: Option<&Rules>,
) -> (Rules, BTreeMap<PathBuf, Role>) {
    let bases = bases(tree, repositories, links);
    let rules = known.cloned().unwrap_or_else(|| {
        let mut rules = Rules::default();
        for source in bases.keys() {
            rules.read(tree, source);
        }
        rules
    });
    let included = rules.included.iter().map(|path| (path.clone(), Role::Configuration));
    let mut followed: BTreeMap<PathBuf, Role> = included.collect();
    let named = rules.of.iter().flat_map(|(source, rules)| {
        let bases = bases.get(source).into_iter().flatten();
        bases.flat_map(move |base| rules.iter().filter_map(move |rule| rule.in_tree(tree, base)))
    });
    for (path, role) in named {
        if followed.len() >= MOST_FOLLOWED {
            tracing::warn!(
                tree = %tree.path().display(),
                "git's configuration names more than {MOST_FOLLOWED} paths in the tree: the rest is not protected"
            );
            break;
        }
        followed.entry(path).or_insert(role);
    }
    (rules, followed)
}

/// The folders that paths in each configuration are relative to: the work trees of its repository,
/// and the repository itself.
fn bases(
    tree: &Tree,
    repositories: &BTreeSet<PathBuf>,
    links: &[PathBuf],
) -> BTreeMap<Source, BTreeSet<PathBuf>> {
    let root = tree.path();
    let mut bases: BTreeMap<Source, BTreeSet<PathBuf>> = BTreeMap::new();
    let mut add = |source: Source, base: PathBuf| {
        bases.entry(source).or_default().insert(base);
    };
    add(Source::User, root.to_owned());
    let folders = repositories.iter().filter(|path| path.file_name() == Some(OsStr::new(".git")));
    for git in folders.chain(links) {
        let work_tree = git.parent().unwrap_or(Path::new(""));
        let base = root.join(work_tree);
        add(Source::User, base.clone());
        for source in sources(tree, repository_of(tree, work_tree)) {
            add(source, base.clone());
        }
    }
    for repository in repositories {
        add(Source::Repository(Pointer::Inside(repository.clone())), root.join(repository));
    }
    // The repository that the tree belongs to.
    let above = root.ancestors().skip(1).find(|folder| folder.join(".git").symlink_metadata().is_ok());
    if let Some(above) = above {
        add(Source::User, above.to_owned());
        let git = above.join(".git");
        let repository = if git.is_dir() {
            Some(Pointer::Outside(git))
        } else {
            outside_text(&git).and_then(|text| outside_pointer(above, &text, b"gitdir: "))
        };
        for source in sources(tree, repository) {
            add(source, above.to_owned());
        }
    }
    bases
}

/// The configurations of a repository: its own, and that of the repository whose work tree it is.
fn sources(tree: &Tree, repository: Option<Pointer>) -> impl Iterator<Item = Source> {
    let common = repository.as_ref().and_then(|repository| match repository {
        Pointer::Inside(git_dir) => pointer(tree, git_dir, &text(tree, &git_dir.join("commondir"))?, b""),
        Pointer::Outside(git_dir) => {
            outside_pointer(git_dir, &outside_text(&git_dir.join("commondir"))?, b"")
        }
    });
    common.into_iter().chain(repository).map(Source::Repository)
}

/// A pointer in a file outside the tree.
fn outside_pointer(folder: &Path, text: &[u8], prefix: &[u8]) -> Option<Pointer> {
    let named = trimmed(text.strip_prefix(prefix)?);
    Some(Pointer::Outside(folder.join(Path::new(OsStr::from_bytes(named)))))
}

/// The text of a host file outside the tree.
pub(super) fn outside_text(path: &Path) -> Option<Vec<u8>> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    let file =
        fs::OpenOptions::new().read(true).custom_flags(i32::try_from(nonblocking).ok()?).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(LONGEST_TEXT).read_to_end(&mut text).ok()?;
    Some(text)
}

impl Rules {
    /// Reads the configurations of `source` and what they include.
    fn read(&mut self, tree: &Tree, source: &Source) {
        let home = home();
        let mut pending: Vec<PathBuf> = match source {
            Source::Repository(Pointer::Inside(folder)) => vec![tree.path().join(folder)],
            Source::Repository(Pointer::Outside(folder)) => vec![folder.clone()],
            Source::User => Vec::new(),
        }
        .into_iter()
        .flat_map(|folder| [folder.join("config"), folder.join("config.worktree")])
        .collect();
        if *source == Source::User {
            pending.push("/etc/gitconfig".into());
            pending.extend(
                home.iter().flat_map(|home| [home.join(".gitconfig"), home.join(".config/git/config")]),
            );
        }
        let mut seen = BTreeSet::new();
        let mut rules = Vec::new();
        while let Some(file) = pending.pop() {
            // Configurations may include each other, and a task's any number of others.
            if seen.len() >= MOST_INCLUDES || !seen.insert(file.clone()) {
                continue;
            }
            let text = match file.strip_prefix(tree.path()) {
                Ok(inner) => follow(tree, inner).end.and_then(|end| text(tree, &end)),
                Err(_) => outside_text(&file),
            };
            let settings = text.and_then(|text| git_config::settings_up_to_nul(&text)).unwrap_or_default();
            for setting in &settings {
                if let Some(included) = included(setting, &file, home.as_deref()) {
                    if let Some(inner) = in_tree(tree, &included) {
                        self.included.insert(inner);
                    }
                    pending.push(included);
                }
                rules.extend(rules_of(setting, home.as_deref()));
            }
        }
        if !rules.is_empty() {
            self.of.insert(source.clone(), rules);
        }
    }
}

impl Rule {
    fn in_tree(&self, tree: &Tree, base: &Path) -> Option<(PathBuf, Role)> {
        let path = in_tree(tree, &base.join(&self.path))?;
        let kind = tree.facts(&path).ok().flatten().map(|facts| facts.kind);
        let is_meant = match (self.role, kind) {
            (Role::Hooks, kind) => !matches!(kind, Some(Kind::File | Kind::Special)),
            (_, Some(Kind::Folder)) => false,
            (_, None) => !self.if_file,
            _ => true,
        };
        (is_meant && !path.as_os_str().is_empty()).then_some((path, self.role))
    }
}

/// `path` of the host, which need not exist, as a path in the tree.
fn in_tree(tree: &Tree, path: &Path) -> Option<PathBuf> {
    let plain = plain(path)?;
    let inner = plain.strip_prefix(tree.path()).map(Path::to_owned).ok();
    // The path may use another name of the tree, such as a link above it.
    inner.or_else(|| path.canonicalize().ok()?.strip_prefix(tree.path()).map(Path::to_owned).ok())
}

/// The configuration that `setting` of `file` includes. Conditions are ignored, since they may be
/// met at another time.
fn included(setting: &Setting, file: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let includes =
        setting.is("include", "path") || (&*setting.section == "includeif" && setting.key == "path");
    (includes && !setting.value.is_empty())
        .then(|| file.parent().unwrap_or(Path::new("/")).join(expanded(&setting.value, home)))
}

fn rules_of(setting: &Setting, home: Option<&Path>) -> Vec<Rule> {
    if setting.is("core", "hookspath") || setting.is("init", "templatedir") {
        return vec![Rule { role: Role::Hooks, path: expanded(&setting.value, home), if_file: false }];
    }
    let is_include = matches!(&*setting.section, "include" | "includeif");
    let is_data = DATA.iter().any(|(section, key)| &*setting.section == *section && setting.key == *key);
    if is_include || is_data || git_config::is_descriptive(setting, |_| true) {
        return Vec::new();
    }
    let is_command = &*setting.section != "alias" || setting.value.starts_with(b"!");
    words(&setting.value)
        .filter(|word| is_command || word.contains(&b'/'))
        .map(|word| Rule { role: Role::Program, path: expanded(word, home), if_file: !word.contains(&b'/') })
        .collect()
}

/// The words of a command line that may be paths.
fn words(command: &[u8]) -> impl Iterator<Item = &[u8]> {
    command
        .split(|byte| byte.is_ascii_whitespace() || b"\"'`;&|()<>{}=$!,".contains(byte))
        .filter(|word| !word.is_empty() && word.len() <= 1024 && !word.starts_with(b"-"))
        .filter(|word| !word.windows(3).any(|part| part == b"://"))
}

pub(super) fn expanded(path: &[u8], home: Option<&Path>) -> PathBuf {
    let text = Path::new(OsStr::from_bytes(path));
    match (text.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => text.to_owned(),
    }
}

/// The home folder in which git looks for the user's configuration.
fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn root(&self) -> PathBuf {
            self.0.path().canonicalize().unwrap().join("tree")
        }

        fn write(&self, path: &str, content: &str) {
            let path = self.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }

        fn followed(&self, repositories: &[&str], links: &[&str]) -> Vec<(String, Role)> {
            let tree = Tree::open(&self.root()).unwrap();
            let repositories = repositories.iter().map(PathBuf::from).collect();
            let links: Vec<PathBuf> = links.iter().map(PathBuf::from).collect();
            let (_, followed) = followed(&tree, &repositories, &links, None);
            followed.into_iter().map(|(path, role)| (path.display().to_string(), role)).collect()
        }
    }

    #[test]
    fn paths_named_by_configurations_in_the_tree_are_followed() {
        let fixture = Fixture::new();
        let root = fixture.root().display().to_string();
        fixture.write("tools/watch", "x");
        fixture.write("build.sh", "x");
        fixture.write("src/x", "x");
        fixture.write(".gitconfig", "[core]\n sshCommand = tools/ssh -v\n[blame]\n ignoreRevsFile = revs\n");
        fixture.write(
            ".git/config",
            &format!(
                "[core]\n hooksPath = .githooks\n fsmonitor = tools/watch\n editor = vi\n[include]\n path = ../.gitconfig\n path = local\n\
                 [alias]\n b = !sh build.sh && cd src\n l = log src/x\n[filter \"x\"]\n clean = {root}/tools/clean --a=b %f\n\
                 [remote \"origin\"]\n url = https://a.test/tools/watch\n[safe]\n directory = {root}\n"
            ),
        );
        let expected = [
            (".git/local", Role::Configuration),
            (".gitconfig", Role::Configuration),
            (".githooks", Role::Hooks),
            ("build.sh", Role::Program),
            ("src/x", Role::Program),
            ("tools/clean", Role::Program),
            ("tools/ssh", Role::Program),
            ("tools/watch", Role::Program),
        ];
        let found = fixture.followed(&[".git"], &[]);
        // Paths are also relative to the repository, for hooks of bare ones.
        let of_work_tree: Vec<(&str, Role)> = found
            .iter()
            .map(|(path, role)| (path.as_str(), *role))
            .filter(|(path, _)| !path.starts_with(".git/") || *path == ".git/local")
            .collect();
        assert_eq!(of_work_tree, expected);
    }

    #[test]
    fn odd_configuration_that_git_reads_is_followed() {
        for odd in ["# \0\n[core]\n hooksPath = h", "x = y\n[.z]\n[core]\n hooksPath = h\\"] {
            let fixture = Fixture::new();
            fixture.write(".git/config", odd);
            let found = fixture.followed(&[".git"], &[]);
            assert!(found.contains(&("h".to_owned(), Role::Hooks)), "{odd:?}: {found:?}");
        }
    }

    #[test]
    fn work_trees_of_a_repository_and_repositories_elsewhere_are_followed() {
        let fixture = Fixture::new();
        fixture.write(".git/config", "[core]\n hooksPath = h\n");
        fixture.write(".git/worktrees/w/commondir", "../..\n");
        fixture.write("w/.git", "gitdir: ../.git/worktrees/w\n");
        fixture.write("x/.git", "gitdir: ../.git\n");
        let other = fixture.0.path().canonicalize().unwrap().join("other");
        fs::create_dir_all(other.join("worktrees/o")).unwrap();
        fs::write(other.join("config"), "[core]\n hooksPath = hooks-of-other\n").unwrap();
        fs::write(other.join("worktrees/o/commondir"), "../..\n").unwrap();
        fixture.write("o/.git", &format!("gitdir: {}/worktrees/o\n", other.display()));
        let found = fixture.followed(&[".git", ".git/worktrees/w"], &["w/.git", "x/.git", "o/.git"]);
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, [".git/h", "h", "o/hooks-of-other", "w/h", "x/h"]);
    }

    #[test]
    fn pointers_are_read_as_git_reads_them() {
        let fixture = Fixture::new();
        fixture.write("sub/x", "");
        let tree = Tree::open(&fixture.root()).unwrap();
        let inside = |path: &str| Some(Pointer::Inside(path.into()));
        for (text, expected) in [
            ("gitdir: ../g\n", inside("g")),
            ("gitdir: ../g\r\n\n", inside("g")),
            ("gitdir:  ../g\n", inside("sub/ ../g")),
            ("gitdir: ../g \n", inside("g ")),
            ("gitdir:../g\n", None),
            (" gitdir: ../g\n", None),
            ("gitdir: \n", None),
            ("gitdir: ../g\0/../../x\n", None),
            ("gitdir: /no-such-folder/x\n", Some(Pointer::Outside("/no-such-folder/x".into()))),
            ("gitdir: /tmp/x\n", Some(Pointer::Outside("/tmp/x".into()))),
        ] {
            let found = pointer(&tree, Path::new("sub"), text.as_bytes(), b"gitdir: ");
            assert_eq!(found, expected, "{text:?}");
        }
        let climbing = pointer(&tree, Path::new("sub"), b"a/../../../x", b"");
        assert!(matches!(climbing, Some(Pointer::Outside(_))), "{climbing:?}");
    }
}
