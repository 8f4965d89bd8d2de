//! Arbitrary git files, for the fuzzers: see `fuzzing`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use sandbox_files::tree::Tree;

use super::git_config;
use super::inventory::Inventory;
use super::judge;
use super::protection::Protection;
use super::role::Role;
use crate::fuzzing::{Fixture, Script};

/// A setting that runs a program, in its simplest form: it must be found after any text. The last
/// line before it may continue in the next one.
const PLANTED: &str = "\n\n[core]\n\thooksPath = planted-hooks\n";
/// The same in an included file.
const INCLUDED: &str = "\n\n[include]\n\tpath = planted-include\n";
/// The maximum number of paths followed.
const MOST_FOLLOWED: usize = 1000;
/// Separates the configuration from the files.
const SEPARATOR: u8 = 0x1e;

/// `data` is the configuration of a repository; the files of the tree follow after a separator.
///
/// # Panics
///
/// If something outside the tree is touched, if a setting or an include in its simplest form is
/// missed or reported as harmless, or if a second look at the same files finds others.
pub fn git_files(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == SEPARATOR);
    let (configuration, files) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    check_text(configuration);
    let fixture = Fixture::new().unwrap_or_else(|error| panic!("{error}"));
    let script = Script::new(files);
    fixture.make(&fixture.tree(), script.entries(true));
    fixture.make(&fixture.tree(), script.entries(false));
    let text = [configuration, INCLUDED.as_bytes()].concat();
    let is_ours = repository(&fixture.tree(), &text).is_ok();
    let tree = Tree::open(&fixture.tree()).unwrap_or_else(|error| panic!("{error}"));
    let before = Inventory::take(&tree, &Protection::default());
    let again = Inventory::take(&tree, &Protection::default());
    assert!(before == again, "the same files are seen in two ways");
    let now = before.take_again(&tree, &Protection::default(), &[]);
    for (path, leaf) in &now.leaves {
        let is_harmless = judge::is_harmless(&tree, &Inventory::default(), &now, path, leaf);
        assert!(
            !(is_ours && is_harmless && path == Path::new(".git/config")),
            "a configuration that includes another is called harmless"
        );
    }
    let is_read = git_config::settings(&text).is_some();
    if is_ours && is_read && before.followed.len() < MOST_FOLLOWED {
        let role = before.followed.get(Path::new("planted-hooks"));
        assert!(
            role.is_some() || fixture.tree().join("planted-hooks").is_file(),
            "a path of hooks that is written plainly is not found: {:?}",
            before.followed
        );
        let role = before.followed.get(Path::new(".git/planted-include"));
        assert!(
            role == Some(&Role::Configuration),
            "a file that is included is not found: {:?}",
            before.followed
        );
    }
    fixture.check_outside();
}

/// A repository with this configuration; an error if the files of the tree prevent that.
fn repository(tree: &Path, configuration: &[u8]) -> io::Result<()> {
    fs::create_dir(tree.join(".git"))?;
    for folder in ["objects", "refs"] {
        fs::create_dir(tree.join(".git").join(folder))?;
    }
    let files: [(&str, &[u8]); 3] = [
        ("HEAD", b"ref: refs/heads/main\n"),
        ("config", configuration),
        ("planted-include", PLANTED.as_bytes()),
    ];
    for (name, content) in files {
        let path = tree.join(".git").join(name);
        OpenOptions::new().create_new(true).write(true).open(path)?.write_all(content)?;
    }
    Ok(())
}

/// Checks the functions that read only the text.
fn check_text(text: &[u8]) {
    let all = |text: &[u8]| git_config::settings(text);
    let planted = [text, PLANTED.as_bytes()].concat();
    let is_planted =
        |setting: &git_config::Setting| setting.is("core", "hookspath") && setting.value == b"planted-hooks";
    if let Some(before) = all(text) {
        let after = all(&planted).unwrap_or_default();
        assert_eq!(after.len(), before.len() + 1, "a setting is lost");
        assert!(after.last().is_some_and(is_planted), "a setting is not found");
    }
    for planted in [planted, [text, INCLUDED.as_bytes()].concat()] {
        assert!(
            !git_config::is_harmless(&planted, |_| true),
            "a setting that runs programs is reported as harmless"
        );
        assert!(
            !git_config::are_plain_modules(&planted),
            "a setting that runs programs is reported as a list of submodules"
        );
    }
}
