//! Tests of bundles, with the host's git.
#![expect(clippy::disallowed_methods, reason = "no engine is involved")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

use clap::Parser as _;
use sandbox::host_path::Resolver;

use super::*;
use crate::args;
use crate::settings::Project;
use crate::trust::Trust;

const TOKEN: &str = "hunter2-hunter2-hunter2";
const CONFIG: &str = "image: localhost/x:1\nenv: {A: a, B: !env ELSEWHERE, D: d}\npass_env: [C, D]\n\
                      resource_limits: {timeout: 10m, cpus: 1.5}\nprotected_paths: [notes/]\n\
                      masked_secrets: {TOKEN: {value: !env PAT, scopes: [a.example], headers: [x]}}\n";

/// A project in a git repository with a new commit, beside the user's home folder.
pub(in crate::commands) struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    pub(in crate::commands) fn new() -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(fixture.home()).unwrap();
        fixture.write(".sandbox/network-allowlist.yaml", "domains: [a.example]\npresets: [anthropic]\n");
        fixture.write(".sandbox/sandbox.yaml", CONFIG);
        fixture.git(&["init", "-q", "-b", "main", "."]);
        fixture.write("src/main.c", "int main;");
        fixture.write(".gitignore", ".env\ntarget/\n");
        fixture.git(&["add", "."]);
        fixture.git(&["commit", "-qm", "1"]);
        fixture
    }

    pub(in crate::commands) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("app")
    }

    pub(in crate::commands) fn home(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("home")
    }

    pub(in crate::commands) fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Without the variables of whoever runs the tests: they could name another repository.
    fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        git.current_dir(self.root()).env("HOME", self.home()).env("GIT_CONFIG_NOSYSTEM", "1");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "protocol.file.allow=always"]);
        let done = git.args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    pub(in crate::commands) fn target(&self) -> PathBuf {
        self.folder.path().join("job.bundle")
    }

    pub(in crate::commands) fn environment(&self) -> Environment {
        let home = self.home().display().to_string();
        Environment::from([("HOME", home.as_str()), ("PAT", TOKEN), ("GIT_CONFIG_NOSYSTEM", "1")])
    }

    fn run(&self, arguments: &[&str]) -> Result<(), String> {
        let environment = self.environment();
        let printer = Printer::new(0, true);
        let cli = args::Cli::try_parse_from([&["sandbox", "bundle"], arguments].concat()).unwrap();
        let args::Command::Bundle(command) = cli.command else { panic!("no bundle") };
        let done = Project::load_at(&self.root(), None, &environment, printer).and_then(|project| {
            let trusted = |needs: Needs<'_>| project.trusted(Some(needs), &Trust::Now, printer);
            bundle(&command, trusted, &environment, printer)
        });
        done.map(drop).map_err(|failure| {
            let causes = [vec![failure.to_string()], failure.causes()].concat();
            format!("{}; hint: {}", causes.join(": "), failure.hint().unwrap_or_default())
        })
    }

    /// With more flags and the command.
    fn create(&self, more: &[&str]) -> Result<(), String> {
        let target = self.target().display().to_string();
        self.run(&[&["create", "-o", target.as_str()], more].concat())
    }

    /// The bytes of a new bundle, and what is in it.
    pub(in crate::commands) fn created(&self) -> (Vec<u8>, Bundle) {
        self.create(&["--", "make", "check"]).unwrap();
        let bundle = read(&Resolver::default().find(&self.target()).unwrap()).unwrap();
        (fs::read(self.target()).unwrap(), bundle)
    }

    fn names(&self) -> Vec<String> {
        names(&self.created().1.tree).collect()
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn same_project_in_another_folder_gives_the_same_bytes() {
    let fixtures = [Fixture::new(), Fixture::new()];
    fixtures[1].git(&["gc", "-q"]);
    let [first, second] = fixtures.each_ref().map(|fixture| fixture.created().0);
    assert!(first == second);
    fixtures[1].write("src/main.c", "int Main;");
    assert!(first != fixtures[1].created().0, "the control");
    let mode = fs::metadata(fixtures[0].target()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, MODE);
}

#[test]
fn bundle_shows_what_it_contains_and_needs() {
    let fixture = Fixture::new();
    let (_, bundle) = fixture.created();
    let lines = aligned(&described(&bundle));
    assert!(lines[0].starts_with("digest       ") && lines[0].len() == 13 + 64, "{lines:?}");
    assert_eq!(
        lines[1..],
        [
            "command      make check",
            "directory    /workspace",
            "image        `localhost/x:1`",
            "policy       6 rules, 0 denied",
            "hosts        a.example, api.anthropic.com",
            "secrets      TOKEN for a.example",
            "variables    A=a, D?=d",
            "must be set  ELSEWHERE, TOKEN",
            "may be set   C, D",
            "limits       10m, 1.5 processors",
            &format!("files        4 files, {} bytes", bundle.tree.sizes().sum::<u64>()),
        ]
    );
    let manifest = serde_json::to_string(&bundle).unwrap();
    for hidden in ["PAT", TOKEN, fixture.folder.path().to_str().unwrap()] {
        assert!(!manifest.contains(hidden), "{manifest}");
    }
    fixture.run(&["list"]).unwrap();
    let target = fixture.target().display().to_string();
    fixture.run(&["show", &target, "--output", "json"]).unwrap();
}

#[test]
fn agent_is_packed_with_its_policy_and_the_name_of_its_key() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.root().join(".sandbox/network-allowlist.yaml")).unwrap();
    let key = "masked_secrets: {ANTHROPIC_API_KEY: {preset: anthropic, value: !env PAT}}\n";
    fixture.write(".sandbox/sandbox.yaml", &format!("image: localhost/x:1\n{key}"));
    let target = fixture.target().display().to_string();
    let agent = |more: &[&str]| fixture.run(&[&["agent", "-o", target.as_str()], more].concat());
    let flags =
        ["--model", "opus", "--max-budget", "2.50", "--stall", "5m", "--stop-on-stall", "--no-briefing"];
    agent(&[&flags[..], &["fix it", "--", "--tools", "Read"]].concat()).unwrap();
    let bundle = read(&Resolver::default().find(&fixture.target()).unwrap()).unwrap();
    assert_eq!(
        aligned(&described(&bundle))[1..12],
        [
            "agent        claude",
            "prompt       `fix it`",
            "model        opus",
            "arguments    --tools Read",
            "at most      $2.50",
            "stall        it is stopped after 5m without a report",
            "briefing     none",
            "directory    /workspace",
            "image        `localhost/x:1`",
            "policy       5 rules, 0 denied",
            "hosts        api.anthropic.com",
        ]
    );
    let manifest = serde_json::to_string(&bundle.manifest).unwrap();
    assert!(!manifest.contains("PAT") && manifest.contains("ANTHROPIC_API_KEY"), "{manifest}");
    let error = agent(&[&format!("use {TOKEN}")]).unwrap_err();
    assert!(error.contains("the part `task` of the bundle would contain a secret"), "{error}");
    let amounts = [0, 1, 70_000, 120_500, u64::MAX].map(dollars);
    assert_eq!(amounts, ["$0.00", "$0.000001", "$0.07", "$0.1205", "$18446744073709.551615"]);
    for (flags, problem) in [
        (&["x", "--", "--resume", "y"][..], "arguments: `--resume` is set by the sandbox"),
        (&["--agent", "codex", "--max-turns", "2", "x"], "--max-turns and --max-budget are for Claude Code"),
        (&[" "][..], "the prompt is empty"),
        (&["--stall", "off", "--stop-on-stall", "x"], "--stop-on-stall needs a stall time"),
    ] {
        let error = agent(flags).unwrap_err();
        assert!(error.contains(problem), "{flags:?}: {error}");
    }
}

#[test]
fn json_hides_and_reorders_nothing() {
    let text = "a\u{7f}\u{9b}31m\u{202e}é\u{1f469}";
    let json = ascii(&serde_json::to_string(text).unwrap());
    assert_eq!(json, r#""a\u007f\u009b31m\u202e\u00e9\ud83d\udc69""#);
    assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text, "the same value");
}

#[test]
fn ignored_file_stays_and_tracked_one_travels() {
    let fixture = Fixture::new();
    fixture.write(".env", "SECRET=ignored-and-secret");
    fixture.write("new file", "new");
    fixture.write("mine", "the user ignores it everywhere");
    let ignore = fixture.home().join(".config/git");
    fs::create_dir_all(&ignore).unwrap();
    fs::write(ignore.join("ignore"), "mine\n").unwrap();
    let settings = [".gitignore", ".sandbox/", ".sandbox/network-allowlist.yaml", ".sandbox/sandbox.yaml"];
    assert_eq!(fixture.names(), [&settings[..], &["new file", "src/", "src/main.c"]].concat());
    assert!(!contains(&fixture.created().0, "ignored-and-secret"));
    fixture.git(&["add", "-f", ".env"]);
    fs::remove_file(ignore.join("ignore")).unwrap();
    assert!(contains(&fixture.created().0, "ignored-and-secret"), "the control");
    assert!(fixture.names().contains(&"mine".to_owned()), "the control");
}

#[test]
fn secret_is_refused_wherever_it_is() {
    let fixture = Fixture::new();
    let refused = |config: &str, more: &[&str], expected: &str| {
        fixture.write(".sandbox/sandbox.yaml", config);
        let error = fixture.create(more).unwrap_err();
        assert!(error.contains(expected) && !error.contains("hunter2"), "{more:?}: {error}");
        assert!(!fixture.target().exists());
    };
    let make = ["--", "make"];
    let literal = format!(
        "image: x\nmasked_secrets: {{TOKEN: {{value: {TOKEN}, scopes: [a.example], headers: [x]}}}}\n"
    );
    refused(&literal, &make, "sandbox.yaml:2:33: the value of this secret is in the file");
    let aws = "signing_credentials: {aws: {type: aws-sigv4, access_key_id: AKIAIOSFODNN7EXAMPLE, secret_access_key: !env KEY, scopes: [a.example]}}\n";
    refused(&format!("image: x\n{aws}"), &make, "the value of this secret is in the file");
    let token = |text: &str| text.replace("TOKEN", TOKEN);
    let part = |name: &str| format!("the part `{name}` of the bundle would contain a secret");
    refused(&CONFIG.replace("A: a", &token("A: 'x-TOKEN'")), &make, &part("variables"));
    refused(CONFIG, &["--", "make", &token("--token=TOKEN")], &part("task"));
    refused(CONFIG, &["-e", &token("X=TOKEN"), "--", "make"], &part("variables"));
    refused(CONFIG, &["-e", TOKEN, "--", "make"], &part("variables"));
    refused(CONFIG, &["-w", &token("/TOKEN"), "--", "make"], &part("working_dir"));
    refused(CONFIG, &["--image", TOKEN, "--", "make"], &part("image"));
    refused(CONFIG, &["--allow", &token("a.example/TOKEN"), "--", "make"], &part("policy"));
    for flag in ["TOKEN", "TOKEN=other"] {
        refused(CONFIG, &["-e", flag, "--", "make"], "`TOKEN`, named by --env, is masked");
    }
    fixture.write(TOKEN, "a file");
    refused(CONFIG, &make, &part("tree"));
    fs::remove_file(fixture.root().join(TOKEN)).unwrap();
    // The session token of the key is usually not set.
    for (is_set, unset) in [("access_key_id", "secret_access_key"), ("secret_access_key", "access_key_id")] {
        let config = format!(
            "image: x\nsigning_credentials: {{aws: {{type: aws-sigv4, {is_set}: !env PAT, {unset}: !env UNSET, session_token: !env ALSO, scopes: [a.example]}}}}\n"
        );
        refused(&config, &["--", "make", TOKEN], &part("task"));
        assert_eq!(fixture.create(&make), Ok(()), "the control");
        fs::remove_file(fixture.target()).unwrap();
    }
    fixture.write(".sandbox/sandbox.yaml", CONFIG);
    assert!(!contains(&fixture.created().0, TOKEN), "the control: named by `!env`");
}

#[test]
fn upstream_settings_stay_on_this_host() {
    let fixture = Fixture::new();
    fixture.write(".sandbox/sandbox.yaml", "image: x\n");
    let without = fixture.created().1.manifest.settings;
    fixture.write(
        ".sandbox/sandbox.yaml",
        "image: x\nupstream: {dns: 192.0.2.53, allow_addresses: [10.20.0.0/16]}\n",
    );
    assert_eq!(fixture.created().1.manifest.settings, without);
}

#[test]
fn setting_of_this_host_is_refused_by_name() {
    let fixture = Fixture::new();
    for (setting, name) in [
        ("mounts: ['../home:/data']", "sandbox.yaml:1:10: `mounts` has files"),
        ("services: {db: {tcp: '127.0.0.1:5432'}}", "`services` leads to"),
        ("gate: [app]", "sandbox.yaml:1:8: `gate` names"),
        ("ssh: {scope: app, unlock: keyring}", "`ssh` signs"),
        ("ask: !command [ask-me]", "`ask` runs"),
        ("logins: {claude: {}}", "`logins` is refreshed"),
        ("network_sandbox: false", "`network_sandbox: false` turns the policy off"),
        ("protect_workspace: false", "`protect_workspace: false` is for"),
    ] {
        fixture.write(".sandbox/sandbox.yaml", &format!("{setting}\nimage: x\n"));
        let error = fixture.create(&["--", "make"]).unwrap_err();
        assert!(error.contains(name) && error.contains("hint: remove it"), "{setting}: {error}");
    }
    fixture.write(".sandbox/sandbox.yaml", "image: x\nenv: {A: !env B}\npass_env: [A]\n");
    let error = fixture.create(&["--", "make"]).unwrap_err();
    assert!(error.contains("sandbox.yaml:3:12: this variable has two sources"), "{error}");
    fixture.write(".sandbox/sandbox.yaml", CONFIG);
    let error = fixture.create(&["--max-image-age", "1h", "--", "make"]).unwrap_err();
    assert!(error.contains("--max-image-age"), "{error}");
    assert_eq!(fixture.create(&["--", "make"]), Ok(()), "the control");
}

#[test]
fn bundle_replaces_a_file_outside_of_the_project_only() {
    let fixture = Fixture::new();
    fs::write(fixture.target(), "an earlier one").unwrap();
    fixture.created();
    symlink("app/src", fixture.folder.path().join("link")).unwrap();
    for inside in ["app/job.bundle", "app/src/job.bundle", "link/job.bundle"] {
        let inside = fixture.folder.path().join(inside).display().to_string();
        let error = fixture.run(&["create", "-o", &inside, "--", "make"]).unwrap_err();
        assert!(error.contains("is in the project") || error.contains("link"), "{inside}: {error}");
        assert!(!Path::new(&inside).exists());
    }
    let link = fixture.folder.path().join("device").display().to_string();
    symlink("/dev/null", &link).unwrap();
    let error = fixture.run(&["create", "-o", &link, "--", "make"]).unwrap_err();
    assert!(error.contains("is a link, a folder or a device"), "{error}");
    let left = fs::read_dir(fixture.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().starts_with('.')));
}

#[test]
fn repository_in_the_project_is_refused_by_name() {
    let fixture = Fixture::new();
    let other = Fixture::new();
    let url = other.root().display().to_string();
    fixture.git(&["submodule", "add", "-q", &url, "vendor/lib"]);
    fixture.git(&["clone", "-q", &url, "nested"]);
    fixture.git(&["clone", "-q", "--bare", &url, "bare.git"]);
    fixture.write("tracked/file", "1");
    fixture.git(&["add", "tracked"]);
    fixture.git(&["init", "-q", "tracked"]);
    let error = fixture.create(&["--", "make"]).unwrap_err();
    for path in ["./vendor/lib", "./nested", "./bare.git", "./tracked"] {
        assert!(error.contains(&format!("`{path}`")), "{path}: {error}");
    }
    fixture.git(&["submodule", "deinit", "-q", "-f", "vendor/lib"]);
    fixture.write(".git/info/exclude", "nested\nbare.git\n");
    fixture.git(&["rm", "-q", "-r", "-f", "tracked"]);
    fs::remove_dir_all(fixture.root().join("tracked")).unwrap();
    let names = fixture.names();
    assert!(!names.iter().any(|name| name.contains("vendor") || name.contains("nested")), "{names:?}");
}

#[test]
fn linked_work_tree_and_folder_of_a_repository_are_packed() {
    let fixture = Fixture::new();
    fixture.git(&["worktree", "add", "-q", "../tree"]);
    let linked = Fixture { folder: tempfile::tempdir().unwrap() };
    fs::create_dir(linked.home()).unwrap();
    fs::rename(fixture.root().with_file_name("tree"), linked.root()).unwrap();
    fixture.git(&["worktree", "repair", &linked.root().display().to_string()]);
    linked.write(".env", "ignored");
    assert_eq!(linked.names(), fixture.names());
    // The settings are in a folder of the repository.
    let inner = Fixture { folder: tempfile::tempdir().unwrap() };
    inner.write("main.c", "x");
    inner.write(".sandbox/sandbox.yaml", "image: x\n");
    let outer = inner.folder.path().canonicalize().unwrap();
    fs::create_dir(inner.home()).unwrap();
    fs::write(outer.join("beside"), "x").unwrap();
    fs::write(outer.join(".gitignore"), "*.log\n").unwrap();
    inner.write("x.log", "ignored");
    inner.git(&["init", "-q", ".."]);
    assert_eq!(inner.names(), [".sandbox/", ".sandbox/sandbox.yaml", "main.c"]);
}

#[test]
fn home_folder_is_refused() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["list"]), Ok(()), "the control");
    fs::remove_dir_all(fixture.home()).unwrap();
    symlink("app", fixture.home()).unwrap();
    let error = fixture.run(&["list"]).unwrap_err();
    assert!(error.contains("hint: start in the folder of the project itself"), "{error}");
}
