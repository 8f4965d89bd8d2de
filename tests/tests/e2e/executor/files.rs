//! Files in and out.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use e2e_tests::fixture::Fixture;
use sandbox::executor::{ExecutorMode, Workspace};

use super::fixture::{config, executor, output, run};

#[tokio::test(flavor = "multi_thread")]
async fn arbitrary_bytes_pass_in_and_out() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let path = "/tmp/new/folder/it's $(touch x)";
    executor.write_file(path, bytes.clone()).await.expect("it is written");
    let read = executor.read_file(path, bytes.len()).await.expect("it is read");
    assert!(read == bytes, "{} bytes", read.len());
    let error = executor.read_file(path, bytes.len() - 1).await.expect_err("it is larger");
    assert!(error.to_string().contains("larger than 2999999 bytes"), "{error}");
    executor.write_file(path, "short").await.expect("it is replaced");
    assert_eq!(output(&executor, "cat /tmp/new/folder/*").await, "short");
    assert_eq!(output(&executor, "stat -c %u /tmp/new/folder/*").await, "1000\n");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_transfer_has_only_the_rights_of_a_command() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    run(&executor, "mkfifo /tmp/pipe; mkdir /tmp/folder; ln -s /dev/zero /tmp/zero").await;
    for (path, expected) in
        [("/etc/x", "Read-only"), ("/tmp/folder", "directory"), ("/tmp/pipe", "failed to write `/tmp/pipe`")]
    {
        let error = executor.write_file(path, "x").await.expect_err(path);
        assert!(error.to_string().contains(expected), "{error}");
    }
    for (path, expected) in [
        ("/etc/shadow", "ermission denied"),
        ("/no/such/file", "o such file"),
        ("/tmp/pipe", "not a regular file"),
        ("/tmp/zero", "not a regular file"),
        ("/tmp/folder", "not a regular file"),
        ("/tmp/../etc/passwd", "without `..`"),
        ("tmp", "not an absolute path"),
    ] {
        let error = executor.read_file(path, 100).await.expect_err(path);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(executor.read_file("/etc/passwd", 1 << 20).await.is_ok(), "the control");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_resolve_inside_the_container_only() {
    let fixture = Fixture::new().await;
    let work = fixture.folder().join("work");
    fs::create_dir(&work).expect("a folder");
    fs::set_permissions(&work, fs::Permissions::from_mode(0o777)).expect("our own folder");
    let secret = fixture.folder().join("secret");
    fs::write(&secret, "secret").expect("a file");
    let executor = executor(&fixture, config(&fixture).workspace(Workspace::ReadWrite(work.clone())));
    let secret_path = secret.to_str().expect("a plain path");
    output(
        &executor,
        &format!(
            "ln -s {secret_path} /workspace/out; ln -s ../secret /workspace/up; ln -s {secret_path} /tmp/out"
        ),
    )
    .await;
    assert_eq!(
        fs::read_to_string(work.join("out")).expect("a link"),
        "secret",
        "the control: on the host the links resolve"
    );
    for path in ["/workspace/out", "/workspace/up", "/tmp/out"] {
        assert!(executor.read_file(path, 100).await.is_err(), "{path}");
        assert!(executor.write_file(path, "forged").await.is_err(), "{path}");
    }
    assert_eq!(fs::read_to_string(&secret).expect("a file"), "secret");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_workspace_persists_across_fresh_containers() {
    let fixture = Fixture::new().await;
    let work = fixture.folder().join("work");
    fs::create_dir(&work).expect("a folder");
    fs::set_permissions(&work, fs::Permissions::from_mode(0o777)).expect("our own folder");
    let executor =
        executor(&fixture, config(&fixture).workspace(Workspace::ReadWrite(work)).mode(ExecutorMode::Fresh));
    executor.write_file("/workspace/x", "lasts").await.expect("it is written");
    assert_eq!(output(&executor, "cat x").await, "lasts");
    let error = executor.write_file("/tmp/x", "goes").await.expect_err("it would be lost");
    assert!(error.to_string().contains("write below /workspace"), "{error}");
    fixture.close().await;
}
