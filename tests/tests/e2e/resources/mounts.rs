//! Paths that a caller's mounts must not hide, and that a container's must not reach.

use std::fs;

use e2e_tests::fixture::Fixture;
use sandbox::{Mount, SandboxError};

use super::hostile::{hostile, run};

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_the_sandbox_needs_cannot_be_mounted_over() {
    let fixture = Fixture::new().await;
    let folder = fixture.folder();
    let refused = |target: &str| {
        let spec = fixture.agent().mount(Mount::read_only_at(folder, target));
        match fixture.sandbox.create_task(spec) {
            Err(SandboxError::Spec(error)) => assert_eq!(error.field(), "mounts", "{error}"),
            other => panic!("{target}: {other:?}"),
        }
    };
    for target in [
        "/root/.claude",
        "/root",
        "/root/.claude/projects",
        "/run/sandbox",
        "/run/sandbox/trust",
        "/run",
        "/opt/claude",
        "/usr/local/bin/sandbox-entrypoint",
        "/usr/local/bin",
        "/etc/ssl/certs",
        "/etc",
    ] {
        refused(target);
    }
    // The session itself, mounted writable.
    fs::create_dir_all(folder.join("session")).expect("a folder");
    for path in [folder.to_owned(), folder.join("session")] {
        let spec = fixture.agent().mount(Mount::read_write(&path, "/workspace"));
        assert!(
            matches!(fixture.sandbox.create_task(spec), Err(SandboxError::Spec(_))),
            "{}",
            path.display()
        );
    }
    fs::create_dir_all(folder.join("own")).expect("a folder");
    let spec = fixture.agent().mount(Mount::read_write(folder.join("own"), "/workspace"));
    fixture.sandbox.create_task(spec).expect("the control");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_outside_the_mounts() {
    let fixture = Fixture::new().await;
    let (own, other) = (fixture.folder().join("own"), fixture.folder().join("other"));
    for folder in [&own, &other] {
        fs::create_dir_all(folder).expect("a folder");
        fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("our own folder");
    }
    std::os::unix::fs::symlink(&other, own.join("link")).expect("a link");
    let script =
        "echo x > /own/file; echo x > /own/link/file; echo x > /own/../other/file; echo x > /read/file; true";
    let mounted = || {
        hostile(&fixture, &["bash", "-c", script])
            .mount(Mount::read_write(&own, "/own"))
            .mount(Mount::read_only_at(&other, "/read"))
    };
    let ran = fixture.run_spec(mounted()).await;
    assert!(own.join("file").exists(), "the control: {}", ran.stderr);
    assert_eq!(fs::read_dir(&other).expect("a folder").count(), 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("/read/file: Read-only file system"), "{}", ran.stderr);
    // The control: the link resolves once the container has its target.
    let place = other.to_str().expect("a plain path");
    let ran = fixture.run_spec(mounted().mount(Mount::read_write(&other, place))).await;
    assert_eq!(fs::read_to_string(other.join("file")).ok().as_deref(), Some("x\n"), "{}", ran.stderr);
    let ran = run(&fixture, &["ls", "-d", "/own"]).await;
    assert_ne!(ran.code, 0);
    fixture.close().await;
}
