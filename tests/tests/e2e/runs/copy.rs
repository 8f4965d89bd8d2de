//! Copies into runs: copied content reaches neither files nor folders of the host.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use e2e_tests::fixture::Fixture;
use sandbox::SandboxError;
use sandbox::runs::{LifecycleHooks, RunError, VolumeSpec};

use super::fixture::{all_lines, chain, exists, lines, name, spec, stop};

#[tokio::test(flavor = "multi_thread")]
async fn links_are_copied_without_their_targets() {
    let fixture = Fixture::new().await;
    let (secret, source) = (fixture.folder().join("secret"), fixture.folder().join("source"));
    fs::create_dir(&secret).expect("a folder");
    fs::write(secret.join("key"), "hunter2\n").expect("a file");
    fs::create_dir(&source).expect("a folder");
    symlink(&secret, source.join("folder")).expect("a link");
    symlink(secret.join("key"), source.join("file")).expect("a link");
    fs::write(source.join("tool"), "#!/bin/sh\n").expect("a file");
    fs::set_permissions(source.join("tool"), fs::Permissions::from_mode(0o4750)).expect("its rights");
    let script = "cat /w/file /w/folder/key 2>/dev/null; grep -rs hunter2 /w; stat -c '%F' /w/file /w/folder; stat -c '%u %a' /w/tool";
    let run = |run: &str| spec(&fixture, run, script);

    let runs = fixture.sandbox.runs();
    runs.create(run("links"), LifecycleHooks::default()).await.expect("a good run");
    runs.copy_to(&name("links"), &source, "/w").await.expect("a copy");
    runs.start(&name("links")).await.expect("a good run");
    assert_eq!(all_lines(&fixture, &name("links")).await, ["symbolic link", "symbolic link", "0 750"]);
    stop(&fixture, "links").await;

    // The control: the result of a copy that follows links.
    for link in ["file", "folder"] {
        fs::remove_file(source.join(link)).expect("the link");
    }
    fs::copy(secret.join("key"), source.join("file")).expect("a copy");
    fs::create_dir(source.join("folder")).expect("a folder");
    let followed = lines(&fixture, run("followed").volume(VolumeSpec::new(&source, "/w")).sealed()).await;
    assert!(followed.contains(&"hunter2".to_owned()), "{followed:?}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn link_in_a_copy_does_not_redirect_the_next_copy_to_the_host() {
    let fixture = Fixture::new().await;
    let (work, live) = (fixture.folder().join("work"), fixture.folder().join("live"));
    for folder in [&work, &live] {
        fs::create_dir(folder).expect("a folder");
    }
    fs::write(fixture.folder().join("planted"), "planted\n").expect("a file");
    let run = |run: &str| {
        spec(&fixture, run, "cat /w/sub/planted")
            .volume(VolumeSpec::new(&work, "/w"))
            .volume(VolumeSpec::new(&live, "/live").live())
            .volume(VolumeSpec::new(fixture.folder().join("planted"), "/w/sub/planted"))
            .sealed()
    };
    symlink("/live", work.join("sub")).expect("a link");
    let runs = fixture.sandbox.runs();
    let error = runs.run(run("led"), LifecycleHooks::default()).await.expect_err("it is refused");
    assert!(matches!(error, SandboxError::Run(RunError::Target { .. })), "{error}");
    assert!(chain(&error).contains("`/live` is not part of the image"), "{error}");
    assert!(!exists("led").await && !live.join("planted").exists());
    // The control: a link to another folder of the container is followed.
    fs::remove_file(work.join("sub")).expect("the link");
    symlink("/opt", work.join("sub")).expect("a link");
    assert_eq!(lines(&fixture, run("not-led")).await, ["planted"]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_into_a_mount_is_refused_and_into_a_running_run_succeeds() {
    let fixture = Fixture::new().await;
    let (mounted, file) = (fixture.folder().join("mounted"), fixture.folder().join("file"));
    fs::create_dir(&mounted).expect("a folder");
    fs::write(&file, "copied\n").expect("a file");
    let special = fixture.folder().join("special");
    fs::create_dir(&special).expect("a folder");
    let _socket = UnixListener::bind(special.join("s")).expect("a socket");
    let script = "until [ -e /new/folder/go ]; do sleep 0.1; done; cat /new/folder/go /srv/file";
    let run = spec(&fixture, "target", script).volume(VolumeSpec::new(&mounted, "/mounted"));
    let (runs, run_name) = (fixture.sandbox.runs(), run.name().clone());
    runs.run(run, LifecycleHooks::default()).await.expect("a good run");
    for (source, target, expected) in [
        (&file, "/mounted/file", "`/mounted` is not part of the image"),
        (&file, "/etc/hosts", "`/etc/hosts` is not part of the image"),
        (&file, "/proc/self/comm", "/proc"),
        (&file, "/etc", "a folder exists there"),
        (&mounted, "/etc/passwd", "a file exists there"),
        (&file, "/etc/passwd/x", "`/etc/passwd` is a file"),
        (&file, "/srv/../etc/x", "without `..`"),
        (&file, "srv/x", "absolute"),
        (&special, "/srv/special", "sockets, pipes and devices"),
        (&fixture.folder().join("missing"), "/srv/x", "failed to copy"),
    ] {
        let error = runs.copy_to(&run_name, source, target).await.expect_err(target);
        assert!(chain(&error).contains(expected), "{target}: {}", chain(&error));
    }
    let hosts = fs::read_dir(e2e_tests::fixture::state_dir().join("identity"))
        .expect("the folder of the hosts files")
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok())
        .collect::<String>();
    assert!(hosts.contains("localhost"), "the control: the hosts files exist: {hosts}");
    assert!(!hosts.contains("copied") && !mounted.join("file").exists());
    runs.copy_to(&run_name, &file, "/srv/file").await.expect("a copy");
    runs.copy_to(&run_name, &file, "/new/folder/go").await.expect("a copy");
    assert_eq!(all_lines(&fixture, &run_name).await, ["copied", "copied"]);
    stop(&fixture, "target").await;
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_tree_arrives_whole() {
    let fixture = Fixture::new().await;
    let source = fixture.folder().join("large");
    let deep = source.join("a".repeat(120)).join("b".repeat(120));
    fs::create_dir_all(&deep).expect("a folder");
    for number in 0..300 {
        fs::write(deep.join(format!("file-{number}")), format!("{number}\n")).expect("a file");
    }
    fs::write(source.join("big"), vec![7_u8; 9 << 20]).expect("a file");
    let script = "find /w -type f -name 'file-*' | wc -l; stat -c %s /w/big; cat /w/*/*/file-299";
    let run = spec(&fixture, "large", script).volume(VolumeSpec::new(&source, "/w")).sealed();
    assert_eq!(lines(&fixture, run).await, ["300", "9437184", "299"]);
    fixture.close().await;
}
