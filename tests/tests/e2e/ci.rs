//! The action for GitHub and the component for GitLab, in programs that run jobs of theirs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e_tests::setting::Setting;
use serde_json::json;
use tempfile::TempDir;

use crate::command_line::project::{Ended, Project};

const ACTION: &str = include_str!("../../../action.yml");
const COMPONENT: &str = include_str!("../../../templates/sandbox.yml");
/// Prints the status of a host that the base's settings allow, and of one that only the change's do.
const BOTH: &str = "for host in open.test any.wide.test; do curl -s -o /dev/null -w '%{http_code} ' https://$host/; done; cat changed";
/// Files and objects with which a change would replace those of the base.
const HOSTILE: &str = "echo '*.yaml text working-tree-encoding=UTF-16' > .gitattributes\ngit replace";
/// The allowlist of the change.
const MORE: &str = "domains: [open.test, any.wide.test, api.anthropic.com]\n";

/// A repository with a base, and a change that allows more, also in its settings.
struct Repository {
    project: Project,
    base: String,
    change: String,
}

impl Repository {
    fn new() -> Self {
        let project = Project::new();
        git(project.path(), &["init", "--quiet", "--initial-branch=main"]);
        let base = commit(&project);
        project.write(".sandbox/network-allowlist.yaml", MORE);
        project.write("changed", "of the change\n");
        git(project.path(), &["checkout", "--quiet", "-b", "change"]);
        let change = commit(&project);
        Self { project, base, change }
    }
}

/// Commits all files; returns the commit.
fn commit(project: &Project) -> String {
    git(project.path(), &["add", "--all"]);
    let author = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
    git(project.path(), &[&author[..], &["commit", "--quiet", "--message=x"]].concat());
    git(project.path(), &["rev-parse", "HEAD"])
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let ended: Ended = Command::new("git")
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("git")
        .into();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout.trim_end().to_owned()
}

/// The variables of a job, in which the command is in `PATH`.
fn job(command: &mut Command, home: &Path) {
    let setting = Setting::of_this_run();
    let own = setting.sandbox_bin.parent().expect("a folder").display();
    command
        .env_clear()
        .env("PATH", format!("{own}:/usr/local/bin:/usr/bin:/bin"))
        .env("HOME", home)
        .env("SANDBOX_PROXY_DIR", &setting.proxy_dir)
        .stdin(Stdio::null());
}

/// The files that a job uploaded, which say that it used the settings of the base.
fn assert_uploaded(folder: &Path) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("an uploaded file");
    assert!(read("network.log").contains("any.wide.test"));
    assert!(read("network.log.jsonl").contains("any.wide.test"));
    assert!(read("report.html").contains("any.wide.test"));
}

/// A job of GitHub with the action.
struct GitHub {
    repository: Repository,
    folder: TempDir,
}

impl GitHub {
    fn new() -> Self {
        let github = Self { repository: Repository::new(), folder: tempfile::tempdir().expect("a folder") };
        fs::create_dir(github.path("action")).expect("a folder");
        fs::write(github.path("action/action.yml"), ACTION).expect("the action");
        // The action of GitHub needs its server.
        let upload = format!(
            "name: upload\ndescription: x\ninputs: {{name: {{description: x}}, path: {{description: x}}}}\n\
             runs:\n  using: composite\n  steps:\n    - {{shell: bash, run: 'cp -r \"${{{{ inputs.path }}}}\" {}/${{{{ inputs.name }}}}'}}\n",
            github.folder.path().display()
        );
        fs::create_dir(github.path("upload")).expect("a folder");
        fs::write(github.path("upload/action.yml"), upload).expect("a file");
        let event = json!({"pull_request": {"base": {"sha": github.repository.base}}});
        fs::write(github.path("event.json"), event.to_string()).expect("a file");
        github
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The job's log, with the action's inputs, after a checkout of the change and the script `before`.
    fn runs(&self, inputs: &serde_json::Value, before: &str) -> Ended {
        let Repository { project, change, .. } = &self.repository;
        let checkout = format!(
            "git clone --quiet {} . && git checkout --quiet --detach {change}\n{before}",
            project.path().display()
        );
        let steps = json!([{"run": checkout}, {"uses": "of/sandbox@v1", "with": inputs}]);
        let workflow = json!({"on": "pull_request", "jobs": {"job": {"runs-on": "host", "steps": steps}}});
        fs::write(self.path("workflow.yml"), workflow.to_string()).expect("a file");
        let upload = ACTION.split_once("uses: ").expect("a use").1.split(' ').next().expect("a name");
        let local = |name: &str, folder| format!("{name}={}", self.path(folder).display());
        let mut act = Command::new(&Setting::of_this_run().act);
        job(&mut act, self.folder.path());
        act.current_dir(self.folder.path())
            .args([
                "pull_request",
                "--bind",
                "--platform",
                "host=-self-hosted",
                "--workflows",
                "workflow.yml",
            ])
            .args(["--eventpath", "event.json", "--env"])
            .arg(format!("SANDBOX_PROXY_DIR={}", Setting::of_this_run().proxy_dir.display()))
            .args(["--local-repository", &local("of/sandbox@v1", "action")])
            .args(["--local-repository", &local(upload, "upload")]);
        act.output().expect("act").into()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn action_obeys_the_settings_of_the_base_and_uploads_the_log_and_the_report() {
    let github = GitHub::new();
    let Repository { base, change, .. } = &github.repository;
    let ended = github.runs(&json!({"command": BOTH}), &format!("{HOSTILE} {base} {change}"));
    assert!(ended.code == Some(0) && ended.stdout.contains("| 200 403 of the change"), "{ended:?}");
    assert_uploaded(&github.path("sandbox"));
    // The control: the settings of the change.
    let ended = github.runs(&json!({"command": BOTH, "settings": change, "artifact": ""}), "");
    assert!(ended.code == Some(0) && ended.stdout.contains("| 200 200 of the change"), "{ended:?}");
    // What fails is uploaded too, and is no command to the runner.
    let command = "echo ::error::of the task; exit 3";
    let ended = github.runs(&json!({"command": command, "options": "-q", "artifact": "failed"}), "");
    assert!(ended.code == Some(1) && ended.stdout.contains("⚙  ::error::of the task"), "{ended:?}");
    assert!(github.path("failed/report.html").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn action_refuses_a_checkout_with_a_token_or_without_the_base() {
    let github = GitHub::new();
    for (before, refused) in [
        (
            "git config http.https://github.com/.extraheader 'AUTHORIZATION: basic eDp5'",
            "set persist-credentials: false",
        ),
        ("git remote set-url origin https://x:y@github.com/of/app", "set persist-credentials: false"),
        ("git init -q tools && git -C tools config http.extraheader x", "./tools/.git/config has a token"),
        ("rm -rf .git && git init -q && touch new", "set fetch-depth: 0"),
    ] {
        let ended = github.runs(&json!({"command": "echo ran the task"}), before);
        assert!(ended.code == Some(1) && ended.stdout.contains(refused), "{ended:?}");
        assert!(!ended.stdout.contains("| ran the task"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn action_passes_a_prompt_and_options_as_they_are() {
    let github = GitHub::new();
    let claude = Setting::of_this_run().claude.display();
    let prompt = "--help 'me'\nand $HOME";
    let options =
        format!("-q --claude-bin {claude} -e K=* --timeout 5m -e ANTHROPIC_API_KEY=sk-ant-api03-e2e");
    let ended = github.runs(&json!({"prompt": prompt, "options": options}), "");
    let has_both = ended.stdout.contains("--help 'me'") && ended.stdout.contains("| and $HOME");
    assert!(ended.code == Some(0) && has_both, "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn component_obeys_the_settings_of_the_target_branch_and_keeps_the_log_and_the_report() {
    let Repository { project, change, .. } = Repository::new();
    let folder = tempfile::tempdir().expect("a folder");
    let checkout = folder.path().join("checkout");
    let origin = project.path().display();
    git(folder.path(), &["clone", "--quiet", &origin.to_string(), "checkout"]);
    git(&checkout, &["checkout", "--quiet", "--detach", &change]);
    fs::write(checkout.join("sandbox.yml"), COMPONENT).expect("the component");
    // Only files that git knows are included.
    git(&checkout, &["add", "sandbox.yml"]);
    let pipeline = json!({
        "include": [{"local": "sandbox.yml", "inputs": {"image": "none"}}],
        "job": {
            "extends": ".sandbox",
            "variables": {"SANDBOX_COMMAND": {"value": BOTH, "expand": false}, "SANDBOX_OPTIONS": "--timeout 5m"},
        },
    });
    fs::write(checkout.join(".gitlab-ci.yml"), pipeline.to_string()).expect("a file");
    let runs = |variables: &[&str]| -> Ended {
        git(&checkout, &["remote", "set-url", "origin", &origin.to_string()]);
        let setting = Setting::of_this_run();
        let mut runner = Command::new(&setting.node);
        job(&mut runner, folder.path());
        runner.current_dir(&checkout).arg(&setting.gitlab_ci_local).args(["--force-shell-executor", "job"]);
        runner.args(variables.iter().flat_map(|variable| ["--variable", variable]));
        runner.output().expect("gitlab-ci-local").into()
    };
    // A task can make a link there.
    symlink(folder.path(), checkout.join("sandbox-files")).expect("a link");
    let target = ["CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main", "CI_MERGE_REQUEST_PROJECT_ID=1"];
    let refused = runs(&[&target[..], &["CI_PROJECT_ID=1"]].concat());
    assert!(
        refused.code == Some(1) && refused.stdout.contains("the target branch is not protected"),
        "{refused:?}"
    );
    let target = [&target[..], &["CI_MERGE_REQUEST_TARGET_BRANCH_PROTECTED=true"]].concat();
    let refused = runs(&[&target[..], &["CI_PROJECT_ID=2"]].concat());
    assert!(refused.code == Some(1) && refused.stdout.contains("runs in a fork"), "{refused:?}");
    let ended = runs(&[&target[..], &["CI_PROJECT_ID=1"]].concat());
    assert!(ended.code == Some(0) && ended.stdout.contains("200 403 of the change"), "{ended:?}");
    assert_uploaded(&checkout.join("sandbox-files"));
    assert!(!folder.path().join("report.html").exists());
    let refused = runs(&[]);
    assert!(refused.code == Some(1) && refused.stdout.contains("the branch is not protected"), "{refused:?}");
    // The control: a protected branch has its own settings.
    let ended = runs(&["CI_COMMIT_REF_PROTECTED=true"]);
    assert!(ended.code == Some(0) && ended.stdout.contains("200 200 of the change"), "{ended:?}");
    // A submodule's token.
    fs::create_dir_all(checkout.join(".git/modules/m")).expect("a folder");
    fs::write(checkout.join(".git/modules/m/config"), "url = https://gitlab-ci-token:x@gitlab.test/m\n")
        .expect("a file");
    let ended = runs(&["CI_COMMIT_REF_PROTECTED=true"]);
    assert!(ended.code == Some(1) && ended.stdout.contains("has a token"), "{ended:?}");
}
