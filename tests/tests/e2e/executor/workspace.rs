//! Writes to folders of the host: checked for tampering at the end of the container. Copies: used
//! by only one container.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use e2e_tests::engine;
use e2e_tests::fixture::Fixture;
use sandbox::diagnostics::VerifySpec;
use sandbox::executor::{ExecOptions, ExecutorConfig, ExecutorMode, Workspace};
use sandbox::workspace::{Protection, TamperedPath, WorkspaceCopy, WorkspaceError};
use sandbox::{Mount, SandboxError};

use super::fixture::{config, executor, marker, output, run, until_processes};

const PLANT: &str =
    "echo evil > .envrc; mkdir -p deep/.vscode; echo evil > deep/.vscode/tasks.json; echo fine > fine";
const TAMPERED: [&str; 2] = [".envrc", "deep/.vscode/tasks.json"];

/// A folder that user 1000 can write.
fn work_tree(fixture: &Fixture) -> PathBuf {
    let folder = fixture.folder().join("tree");
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("our own folder");
    folder
}

fn protected(fixture: &Fixture, folder: &Path) -> ExecutorConfig {
    config(fixture).workspace(Workspace::ReadWrite(folder.to_owned())).protection(Protection::default())
}

/// The reported paths, each of which was moved away.
fn reported<'a>(tampered: &'a [TamperedPath], folder: &Path) -> Vec<&'a str> {
    for thing in tampered {
        let moved = thing.moved_to.as_ref().expect("moved away");
        assert_eq!(fs::read_to_string(moved).expect("a file"), "evil\n");
    }
    let paths = tampered.iter().map(|thing| thing.path_in(folder).to_str().expect("a plain name"));
    let mut paths: Vec<&str> = paths.collect();
    // They are ordered newest first, some with equal times.
    paths.sort_unstable();
    paths
}

fn is_there(folder: &Path) -> [bool; 3] {
    [".envrc", "deep/.vscode/tasks.json", "fine"].map(|path| folder.join(path).exists())
}

#[tokio::test(flavor = "multi_thread")]
async fn fresh_container_is_checked_for_tampering_before_its_result() {
    let fixture = Fixture::new().await;
    let folder = work_tree(&fixture);
    let fresh = executor(&fixture, protected(&fixture, &folder).mode(ExecutorMode::Fresh));
    let result = run(&fresh, PLANT).await;
    assert_eq!(reported(&result.tampered, &folder), TAMPERED);
    assert_eq!(is_there(&folder), [false, false, true]);
    let next = run(&fresh, "true").await;
    assert!(next.tampered.is_empty(), "reported once: {next:?}");
    fs::write(folder.join(".envrc"), "of the host\n").expect("a file");
    let refused = run(&fresh, "echo evil > .envrc").await;
    assert!(refused.stderr_text().contains("Read-only file system"), "{refused:?}");
    // If nobody waits for the result, tampering is reported by the cleanup.
    let mark = marker(50);
    let line = format!("echo evil > .mcp.json; sleep {mark}");
    {
        let dropped = fresh.execute(line, ExecOptions::default());
        tokio::select! {
            result = dropped => panic!("{result:?}"),
            () = until_processes(&mark, 1) => {}
        }
    }
    let tampered = fresh.cleanup().await.expect("it is removed").tampered;
    assert_eq!(reported(&tampered, &folder), [".mcp.json"]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reused_container_is_checked_for_tampering_at_its_end() {
    let fixture = Fixture::new().await;
    let folder = work_tree(&fixture);
    let reused = executor(&fixture, protected(&fixture, &folder));
    let result = run(&reused, PLANT).await;
    assert!(result.is_success() && result.tampered.is_empty(), "{result:?}");
    let tampered = reused.cleanup().await.expect("it is removed").tampered;
    assert_eq!(reported(&tampered, &folder), TAMPERED);
    assert_eq!(is_there(&folder), [false, false, true]);
    assert!(reused.cleanup().await.expect("nothing is there").is_empty());

    // Tampering in a container that ended by itself is reported with the next command's result.
    run(&reused, PLANT).await;
    let name = fixture.container(sandbox::diagnostics::Role::Task).await;
    engine::call("POST", &format!("/containers/{name}/kill?signal=KILL"), None).await;
    let lost = reused.execute("true", ExecOptions::default()).await;
    let next = match lost {
        Ok(next) => next,
        // The container was killed after the supervisor had received the command.
        Err(_) => run(&reused, "true").await,
    };
    assert_eq!(reported(&next.tampered, &folder), TAMPERED);

    // A dropped executor is checked by the shutdown of the sandbox.
    run(&reused, PLANT).await;
    drop(reused);
    fixture.sandbox.shutdown().await.expect("nothing is left");
    assert_eq!(is_there(&folder), [false, false, true]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_without_protection_is_not_checked() {
    let fixture = Fixture::new().await;
    let folder = work_tree(&fixture);
    for protection in [None, Some(Protection::none())] {
        let plain = config(&fixture).workspace(Workspace::ReadWrite(folder.clone()));
        let plain = match protection {
            Some(protection) => plain.protection(protection),
            None => plain,
        };
        let plain = executor(&fixture, plain);
        run(&plain, PLANT).await;
        assert!(plain.cleanup().await.expect("it is removed").is_empty());
        assert_eq!(is_there(&folder), [true; 3], "the control");
    }
    fixture.close().await;
}

fn busy<T: std::fmt::Debug>(result: &Result<T, SandboxError>) -> bool {
    matches!(result, Err(SandboxError::Workspace(WorkspaceError::Busy { .. })))
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_is_locked_while_its_container_exists() {
    let fixture = Fixture::new().await;
    let folder = work_tree(&fixture);
    let copy_dir = fixture.folder().join("copy");
    let mount = || Mount::copy_on_write(&folder, "/workspace", &copy_dir);
    let copied = || config(&fixture).mount(mount()).working_dir("/workspace");
    let copy = || WorkspaceCopy::open(&copy_dir).expect("a copy").expect("a copy");
    let (first, second) = (executor(&fixture, copied()), executor(&fixture, copied()));
    assert_eq!(output(&first, "echo one > a; cat a").await, "one\n");
    let discarded = copy().discard();
    assert!(matches!(discarded, Err(WorkspaceError::Busy { .. })), "{discarded:?}");
    let other = second.execute("true", ExecOptions::default()).await;
    assert!(busy(&other), "{other:?}");
    assert_eq!(output(&first, "cat a").await, "one\n", "it is still up");

    // A command during the cleanup waits for it.
    let (cleaned, next) = tokio::join!(first.cleanup(), async {
        tokio::task::yield_now().await;
        output(&first, "cat a").await
    });
    assert!(cleaned.expect("it is removed").is_empty());
    assert_eq!(next, "one\n");
    first.cleanup().await.expect("it is removed");
    assert_eq!(output(&second, "cat a").await, "one\n", "it is free");
    second.cleanup().await.expect("it is removed");
    let changes = copy().changes(&Protection::default()).expect("changes");
    assert_eq!(changes.len(), 1, "{changes:?}");
    copy().discard().expect("it is free");
    assert!(!folder.join("a").exists());

    let refused = fixture.sandbox.create_executor(copied().mode(ExecutorMode::Fresh));
    let refused = refused.expect_err("several containers").to_string();
    assert!(refused.contains("only one container can use"), "{refused}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_refuses_mounts_that_need_a_guard() {
    let fixture = Fixture::new().await;
    let folder = work_tree(&fixture);
    let guarded = [
        Mount::read_write(&folder, "/workspace").protected(Protection::default()),
        Mount::copy_on_write(&folder, "/workspace", fixture.folder().join("copy")),
    ];
    for mount in guarded {
        let spec = VerifySpec::new(
            fixture.image.clone(),
            sandbox::Isolation::untrusted(),
            sandbox::ResourceLimits::untrusted(),
        );
        let refused = fixture.sandbox.verify(spec.mount(mount)).await;
        let refused = refused.expect_err("it is refused").to_string();
        assert!(refused.contains("a verification does not support"), "{refused}");
    }
    fixture.close().await;
}
