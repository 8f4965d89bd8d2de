//! Tests of results, in the project of their bundle.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use clap::Parser as _;
use sandbox_bundle::{Content, Digest, Measured, Outcome, Snapshot, TreePath};

use super::*;
use crate::args::{self, ApplyArgs};
use crate::commands::apply;
use crate::commands::bundle::tests::Fixture;
use crate::settings::Project;
use crate::trust::Trust;

/// Files of a result, and removed paths.
type Written<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

/// Writes a result of the fixture's bundle.
fn write(fixture: &Fixture, (files, removed): Written<'_>) -> PathBuf {
    let digest = bundle::read(&sandbox::host_path::Resolver::default().find(&fixture.target()).unwrap())
        .unwrap()
        .digest;
    let task = tempfile::tempdir().unwrap();
    for (path, content) in files {
        fs::create_dir_all(task.path().join(path).parent().unwrap()).unwrap();
        fs::write(task.path().join(path), content).unwrap();
    }
    let tree = Tree::open(task.path()).unwrap();
    let removed = removed.iter().map(|path| TreePath::try_from((*path).to_owned()).unwrap()).collect();
    let mut changes = Vec::new();
    let paths = files.iter().map(|(path, _)| PathBuf::from(path));
    Snapshot::read(&tree, paths).unwrap().write_changes(&mut changes, removed).unwrap();
    let content = |bytes: &[u8]| Content { sha256: Digest::of(bytes), size: bytes.len() as u64 };
    let outcome = Outcome {
        bundle: digest,
        ended: Ended::Exited,
        exit_code: 0,
        agent: None,
        changes: content(&changes),
        omitted: Vec::new(),
        omitted_more: 0,
        stdout: content(b""),
        stderr: content(b""),
        cut: 0,
    };
    let [image, program] = ["x", "0.1.0"].map(str::to_owned);
    let measured = Measured { network: content(b""), duration_ms: 1, oom_killed: false, image, program };
    let result = fixture.home().join("result");
    if result.exists() {
        fs::remove_dir_all(&result).unwrap();
    }
    fs::create_dir(&result).unwrap();
    fs::write(result.join(RECORD), RunResult::new(outcome, measured).unwrap().to_bytes().unwrap()).unwrap();
    fs::write(result.join(CHANGES), changes).unwrap();
    for name in ["stdout", "stderr", "network.jsonl"] {
        fs::write(result.join(name), "").unwrap();
    }
    result
}

/// Applies the result.
async fn apply(fixture: &Fixture, result: &Path, more: &[&str]) -> Result<(), String> {
    let result = result.display().to_string();
    apply_to(fixture, &[&["sandbox", "apply", "--result", &result][..], more].concat()).await
}

async fn apply_to(fixture: &Fixture, command: &[&str]) -> Result<(), String> {
    let cli = args::Cli::try_parse_from(command).unwrap();
    let args::Command::Apply(args) = cli.command else { panic!("not apply") };
    let (environment, printer) = (fixture.environment(), Printer::new(0, true));
    let project = Project::load_at(&fixture.root(), None, &environment, printer)
        .and_then(|project| project.trusted(None, &Trust::Now, printer))
        .unwrap();
    let no_engine = || Err(Failure::new("no engine is needed"));
    let args: &ApplyArgs = &args;
    let done = apply::apply(args, &project, no_engine, &environment, printer).await;
    done.map(drop).map_err(|failure| {
        let causes = [vec![failure.to_string()], failure.causes()].concat();
        format!("{}; hint: {}", causes.join(": "), failure.hint().unwrap_or_default())
    })
}

fn text(fixture: &Fixture, path: &str) -> Option<String> {
    fs::read_to_string(fixture.root().join(path)).ok()
}

const CHANGED: Written<'_> = (
    &[("src/main.c", "int Main;"), ("src/new.c", "new"), (".envrc", "x"), ("target/x", "x")],
    &["src/old.c"],
);

#[tokio::test]
async fn result_is_applied_like_a_copy_and_stays() {
    let fixture = Fixture::new();
    fixture.write("src/old.c", "old");
    fixture.created();
    let result = write(&fixture, CHANGED);
    // The command began without this one.
    fixture.write("target/x", "of the host");
    apply(&fixture, &result, &[]).await.unwrap();
    assert_eq!(text(&fixture, "src/main.c").unwrap(), "int Main;");
    assert_eq!(text(&fixture, "src/new.c").unwrap(), "new");
    assert_eq!(text(&fixture, "src/old.c"), None);
    assert_eq!(text(&fixture, "target/x").unwrap(), "of the host");
    assert_eq!(text(&fixture, ".envrc"), None, "withheld");
    // As after a run, the rest waits in the copy, and further results wait for it.
    let error = apply(&fixture, &result, &[]).await.unwrap_err();
    assert!(error.contains("has changes that wait: 1 changed path, 1 withheld"), "{error}");
    apply_to(&fixture, &["sandbox", "apply", "--include-protected"]).await.unwrap();
    assert_eq!(text(&fixture, ".envrc").unwrap(), "x");
    assert_eq!(apply(&fixture, &result, &[]).await, Ok(()), "nothing is left to do");
}

#[tokio::test]
async fn file_that_the_host_changed_is_a_conflict_and_nothing_is_applied() {
    let fixture = Fixture::new();
    fixture.write("src/old.c", "old");
    fixture.created();
    let result = write(&fixture, CHANGED);
    fixture.write("src/main.c", "by the user");
    let error = apply(&fixture, &result, &[]).await.unwrap_err();
    assert!(error.contains("src/main.c") && error.contains("--force takes the task's version"), "{error}");
    assert_eq!(text(&fixture, "src/new.c"), None);
    assert_eq!(text(&fixture, "src/main.c").unwrap(), "by the user");
    apply(&fixture, &result, &["--force"]).await.unwrap();
    assert_eq!(text(&fixture, "src/main.c").unwrap(), "int Main;");
}

#[tokio::test]
async fn changed_byte_of_a_result_is_refused() {
    let fixture = Fixture::new();
    fixture.created();
    let result = write(&fixture, (&[("src/main.c", "int Main;")], &[]));
    for name in [RECORD, CHANGES, "stdout", "stderr", "network.jsonl"] {
        let path = result.join(name);
        let before = fs::read(&path).unwrap();
        // Every part of a file; all bytes of one are the same to a digest.
        for at in (0..=before.len()).step_by(if name == RECORD { 1 } else { 512 }) {
            let mut after = before.clone();
            match after.get_mut(at) {
                Some(byte) => *byte ^= 1,
                None => after.push(0),
            }
            fs::write(&path, &after).unwrap();
            let applied = apply(&fixture, &result, &[]).await;
            // A changed time or version of the program is another, valid record.
            assert!(
                applied.is_err() || name == RECORD && RunResult::read(&after).is_ok(),
                "{name}, byte {at}"
            );
        }
        fs::write(&path, before).unwrap();
    }
    assert_eq!(apply(&fixture, &result, &[]).await, Ok(()), "the control");
}

#[tokio::test]
async fn bundle_of_a_result_is_the_one_that_was_written_here_or_is_named() {
    let fixture = Fixture::new();
    fixture.created();
    let result = write(&fixture, (&[("src/main.c", "int Main;")], &[]));
    let elsewhere = fixture.home().join("moved.bundle");
    fs::rename(fixture.target(), &elsewhere).unwrap();
    let error = apply(&fixture, &result, &[]).await.unwrap_err();
    assert!(error.contains("hint: pass --bundle"), "{error}");
    let elsewhere = elsewhere.display().to_string();
    // The record of another project.
    let records = fixture.home().join(".local/state/sandbox/bundles");
    let record = fs::read_dir(&records).unwrap().next().unwrap().unwrap().path();
    fs::write(&record, format!("{elsewhere}\0/elsewhere")).unwrap();
    let error = apply(&fixture, &result, &[]).await.unwrap_err();
    assert!(error.contains("was not written in this project"), "{error}");
    fixture.write("other", "a file");
    fixture.created();
    let other = fixture.target().display().to_string();
    let error = apply(&fixture, &result, &["--bundle", &other]).await.unwrap_err();
    assert!(error.contains("is another bundle"), "{error}");
    // One that this host does not know could be a task's.
    fs::remove_dir_all(records).unwrap();
    let inside = fixture.root().join("job.bundle").display().to_string();
    fs::copy(&elsewhere, &inside).unwrap();
    let error = apply(&fixture, &result, &["--bundle", &inside]).await.unwrap_err();
    assert!(error.contains("could have written"), "{error}");
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o646)).unwrap();
    let error = apply(&fixture, &result, &["--bundle", &elsewhere]).await.unwrap_err();
    assert!(error.contains("could have written"), "{error}");
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(apply(&fixture, &result, &["--bundle", &elsewhere]).await, Ok(()), "the control");
}

#[tokio::test]
async fn link_of_the_host_is_not_followed() {
    let fixture = Fixture::new();
    fixture.created();
    let result = write(&fixture, (&[("src/main.c", "int Main;"), ("src/x.log", "x")], &[]));
    let outside = fixture.home().join("src");
    fs::rename(fixture.root().join("src"), &outside).unwrap();
    symlink(&outside, fixture.root().join("src")).unwrap();
    let error = apply(&fixture, &result, &[]).await.unwrap_err();
    assert!(error.contains("src"), "{error}");
    let _ = apply(&fixture, &result, &["--force"]).await;
    assert_eq!(fs::read_to_string(outside.join("main.c")).unwrap(), "int main;");
    assert!(!outside.join("x.log").exists());
}

#[tokio::test]
async fn result_that_somebody_else_can_change_is_refused() {
    let fixture = Fixture::new();
    fixture.created();
    let result = write(&fixture, (&[("src/main.c", "int Main;")], &[]));
    fs::set_permissions(&result, fs::Permissions::from_mode(0o777)).unwrap();
    let error = apply(&fixture, &result, &[]).await.unwrap_err();
    assert!(error.contains("could have written"), "{error}");
    fs::set_permissions(&result, fs::Permissions::from_mode(0o755)).unwrap();
    let inside = fixture.root().join("result");
    fs::rename(&result, &inside).unwrap();
    let error = apply(&fixture, &inside, &[]).await.unwrap_err();
    assert!(error.contains("a task or another user"), "{error}");
    fs::rename(&inside, &result).unwrap();
    assert_eq!(apply(&fixture, &result, &[]).await, Ok(()), "the control");
}

#[tokio::test]
async fn ignored_link_of_the_host_is_a_conflict_and_not_a_failure_of_git() {
    let fixture = Fixture::new();
    fixture.created();
    let elsewhere = fixture.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, fixture.root().join("target")).unwrap();
    let result = write(&fixture, (&[("src/main.c", "int Main;"), ("target/x", "x")], &[]));
    let error = apply(&fixture, &result, &[]).await.unwrap_err();
    assert!(error.contains("`target`") && error.contains("--force"), "{error}");
    assert!(!elsewhere.join("x").exists());
}
