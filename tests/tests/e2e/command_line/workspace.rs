//! The work tree of `run`: protected in place, or as a copy for `diff`, `apply` and `discard`.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use super::project::Project;

fn copied(project: &Project, script: &str) -> super::project::Ended {
    project.output(&["run", "--workspace", "copy", "--", "bash", "-c", script])
}

#[tokio::test(flavor = "multi_thread")]
async fn work_tree_is_protected_unless_disabled() {
    let project = Project::new();
    project.write(".claude/settings.json", "{}");
    let script = "echo evil > .claude/settings.json; echo evil > .envrc; echo evil > .sandbox/sandbox.yaml; echo fine > fine";
    let ended = project.run(script);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stderr.matches("Read-only file system").count(), 2, "{ended:?}");
    assert!(
        ended.stderr.contains("warning: the task wrote `.envrc`")
            && ended.stderr.contains("hint: inspect it"),
        "{ended:?}"
    );
    assert!(!project.path().join(".envrc").exists() && project.path().join("fine").exists());

    let ended = project.output(&["run", "--unprotected", "--", "bash", "-c", script]);
    assert_eq!(
        ended.stderr.matches("Read-only file system").count(),
        1,
        "the settings are always read-only: {ended:?}"
    );
    assert!(project.path().join(".envrc").exists());

    fs::remove_file(project.path().join(".envrc")).expect("a file");
    project.append(".sandbox/sandbox.yaml", "protect_workspace: false\nprotected_paths: [fine]\n");
    let ended = project.run(script);
    assert_eq!(ended.stderr.matches("Read-only file system").count(), 2, "{ended:?}");
    assert!(project.path().join(".envrc").exists());
}

/// The id of the project's newest run.
fn newest(project: &Project) -> String {
    let here = project.path().canonicalize().expect("the project").display().to_string();
    let list = project.output(&["ps", "--all", "--output", "json"]).json();
    let text = |run: &serde_json::Value, key: &str| run.get(key)?.as_str().map(str::to_owned);
    let runs = list.get("runs").and_then(serde_json::Value::as_array).expect("a list");
    let run = runs.iter().rev().find(|run| text(run, "project").as_ref() == Some(&here));
    text(run.expect("a run"), "id").expect("an id")
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_is_shown_applied_and_discarded() {
    let project = Project::new();
    project.write("a", "one\n");
    project.write("gone", "x\n");
    let ended = copied(&project, "echo two >> a; rm gone; echo new > b; echo evil > .envrc");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stderr, "4 paths differ in the copy: sandbox diff, sandbox apply, sandbox discard\n");
    assert!(!project.path().join("b").exists());

    assert_eq!(project.output(&["diff"]).stdout, "A  .envrc (withheld: protected)\nM  a\nA  b\nD  gone\n");
    let patch = project.output(&["diff", "--patch"]).stdout;
    assert!(patch.contains("--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n one\n+two\n"), "{patch}");
    assert!(patch.contains("--- /dev/null\n+++ b/b\n"), "{patch}");
    assert!(patch.starts_with("A  .envrc (withheld: protected)\n   hint: host tools execute"), "{patch}");
    assert!(patch.contains("--- /dev/null\n+++ b/.envrc\n@@ -0,0 +1 @@\n+evil\n"), "{patch}");
    let report = |arguments: &[&str]| {
        let written = project.output(&[&["report"], arguments].concat());
        fs::read_to_string(written.stdout.trim_end()).expect("a page")
    };
    let (page, id) = (report(&[]), newest(&project));
    assert!(page.contains("A  .envrc (withheld: protected)") && page.contains("+two"), "{page}");
    let json = project.output(&["diff", "--output", "json"]).json();
    assert_eq!((&json["version"], &json["changes"][1]["change"]), (&2.into(), &"modified".into()), "{json}");

    project.write("a", "by the host\n");
    let refused = project.output(&["apply"]);
    assert_eq!(refused.code, Some(125));
    assert!(
        refused.stderr.contains("so nothing was applied: `a`") && refused.stderr.contains("hint: "),
        "{refused:?}"
    );
    assert!(!project.path().join("b").exists() && project.path().join("gone").exists());
    assert!(project.output(&["diff"]).stdout.contains("M! a"));

    let applied = project.output(&["apply", "--force"]);
    assert_eq!((applied.code, applied.stdout.as_str()), (Some(0), "M! a\nA  b\nD  gone\n"), "{applied:?}");
    assert!(applied.stderr.contains("warning: 1 change is withheld:"), "{applied:?}");
    assert_eq!(fs::read_to_string(project.path().join("a")).expect("a file"), "one\ntwo\n");
    assert!(!project.path().join("gone").exists() && !project.path().join(".envrc").exists());

    let ended = copied(&project, "cat .envrc; echo three >> a");
    assert!(
        ended.stdout == "evil\n" && ended.stderr.contains("continues with the copy of the last one"),
        "{ended:?}"
    );
    let page = report(&[&id]);
    assert!(page.contains("worked on the same copy") && !page.contains("withheld:"), "{page}");
    assert!(report(&[]).contains("(withheld: protected)"), "the control: it is shown for the later run");
    assert_eq!(project.output(&["discard"]).code, Some(0));
    assert_eq!(fs::read_to_string(project.path().join("a")).expect("a file"), "one\ntwo\n");
    let none = project.output(&["diff"]);
    assert!(none.code == Some(0) && none.stderr.starts_with("no copy of this work tree"), "{none:?}");
    let none = project.output(&["apply"]);
    assert!(none.code == Some(0) && none.stderr.starts_with("no copy of this work tree"), "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_file_name_in_a_warning_is_escaped() {
    let project = Project::new();
    let ended =
        project.run("d=$'x\\e[2J\\nwarning: forged\\xe2\\x80\\xae'; mkdir \"$d\"; echo evil > \"$d/.envrc\"");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("hint: inspect it"), "{ended:?}");
    assert!(
        lines[0].starts_with(r"warning: the task wrote `x\u{1b}[2J\nwarning: forged\u{202e}/.envrc`")
            && lines[0].ends_with("/0-x__2J_warning__forged__.envrc`"),
        "{ended:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_file_name_in_an_error_is_escaped() {
    let project = Project::new();
    let name = "x\u{1b}[2J\nerror: forged";
    assert_eq!(copied(&project, "echo two > $'x\\e[2J\\nerror: forged'").code, Some(0));
    project.write(name, "by the host\n");
    let refused = project.output(&["apply"]);
    assert_eq!(refused.code, Some(125));
    let first = refused.stderr.lines().next().unwrap_or_default();
    assert!(first.ends_with(r"so nothing was applied: `x\u{1b}[2J\nerror: forged`"), "{refused:?}");
}

/// The stage of an apply in the tree.
fn stage(project: &Project) -> Option<PathBuf> {
    let entries =
        fs::read_dir(project.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let is_stage = |path: &PathBuf| path.to_string_lossy().contains("/.sandbox-apply-");
    entries.into_iter().find(is_stage)
}

/// Kills an apply once it has put a file in its place, before it has put the last one; returns `false`
/// if it was faster.
fn kill_apply(project: &Project) -> bool {
    assert_eq!(
        copied(project, "for i in {1..5000}; do echo $i > many/$i; done; echo reviewed > z/.envrc").code,
        Some(0)
    );
    let mut apply = project.sandbox(&["apply", "--include-protected"]);
    let mut apply = apply.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the sandbox command");
    let has_begun = || (1..=5000).any(|number| project.path().join(format!("many/{number}")).exists());
    while apply.try_wait().expect("our own child").is_none() && !has_begun() {}
    apply.kill().expect("our own child");
    apply.wait().expect("our own child");
    stage(project).is_some() && !project.path().join("z/.envrc").exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_apply_is_finished_before_a_task_could_change_what_it_staged() {
    let project = Project::new();
    project.write("z/file", "");
    project.write("many/file", "");
    while !kill_apply(&project) {
        for folder in ["z", "many"] {
            fs::remove_dir_all(project.path().join(folder)).expect("a folder");
            project.write(&format!("{folder}/file"), "");
        }
    }
    assert!(stage(&project).is_some(), "the control: it is in the tree");
    let ended = project.run("for file in .sandbox-apply-*/new-*; do echo evil > $file; done; ls -A");
    let applied = project.output(&["apply", "--include-protected"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let envrc = fs::read_to_string(project.path().join("z/.envrc")).expect("a file");
    assert_eq!(envrc, "reviewed\n");
    assert!(stage(&project).is_none() && !ended.stdout.contains("sandbox-apply"), "{ended:?}");
}
