//! The disk: the root file system, in-memory folders, and the engine's records of a container.

use std::path::PathBuf;

use e2e_tests::engine;
use e2e_tests::fixture::{Fixture, read_until};
use e2e_tests::setting::Setting;
use sandbox::diagnostics::Role;
use sandbox::isolation::{Ulimit, UlimitKind};
use sandbox::{ByteSize, CommandSpec, Input, Isolation, ResourceLimits};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::hostile::{hostile, run, still_usable};

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_command_fills_its_tmpfs_and_nothing_else() {
    let fixture = Fixture::new().await;
    let script = "for folder in /tmp /home/sandbox /var/tmp /run /dev/shm; do \
         head -c 256M /dev/zero > $folder/fill; stat -c %s $folder/fill; rm $folder/fill; done 2>&1; \
         for folder in / /etc /usr /opt /srv /var/log /dev /proc /sys; do echo x > $folder/fill; done 2>&1 | grep -c -e Read-only -e denied -e 'No such'";
    let ran = run(&fixture, &["bash", "-c", script]).await;
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let sizes: Vec<u64> = lines.iter().filter_map(|line| line.parse().ok()).collect();
    let [tmp, home, var_tmp, run, shm, refused] = sizes.as_slice() else {
        panic!("{}", ran.stdout);
    };
    for (size, bound) in
        [(tmp, 64 << 20), (home, 64 << 20), (var_tmp, 32 << 20), (run, 16 << 20), (shm, 16 << 20)]
    {
        assert!(*size > 0 && *size <= bound, "{size} of {bound}: {}", ran.stdout);
    }
    assert_eq!(*refused, 9, "{}", ran.stdout);
    assert!(lines.iter().filter(|line| line.contains("No space left")).count() == 5, "{}", ran.stdout);
    still_usable(&fixture).await;
    fixture.close().await;
}

/// The tests in `tests/quota` have an engine that supports quotas.
#[tokio::test(flavor = "multi_thread")]
async fn disk_limit_on_storage_without_quotas_is_refused() {
    let fixture = Fixture::new().await;
    let limits = ResourceLimits::default().disk(ByteSize::gib(1));
    let command = |limits| {
        let spec = CommandSpec::new("disk", fixture.image.clone(), ["true"]).limits(limits);
        fixture.sandbox.create_command(spec).expect("a good command")
    };
    let error = command(limits).execute(Input::Empty).await.expect_err("no quotas");
    let text = error.to_string();
    for part in ["resource_limits.disk: podman ", "its storage is ", "btrfs", "`pquota`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let control = command(ResourceLimits::default()).execute(Input::Empty).await;
    assert_eq!(control.expect("the control").exit_code, 0);
    fixture.close().await;
}

/// On storage without quotas, only the optional limit on file sizes bounds an agent. Its files are
/// removed with its container.
#[tokio::test(flavor = "multi_thread")]
async fn agent_files_are_bounded_by_the_file_size_limit() {
    let fixture = Fixture::new().await;
    let script = "head -c 64M /dev/zero > /fill; stat -c %s /fill";
    let bounded =
        Isolation { ulimits: vec![Ulimit::fixed(UlimitKind::FileSize, 8 << 20)], ..Isolation::agent() };
    let command = ["bash", "-c", script];
    let ran = fixture.run_spec(hostile(&fixture, &command).isolation(bounded)).await;
    assert_eq!(ran.stdout, "8388608\n", "{}", ran.stderr);
    let control = fixture.run_spec(hostile(&fixture, &command).isolation(Isolation::agent())).await;
    assert_eq!(control.stdout, "67108864\n", "the control");
    fixture.close().await;
}

/// Runs a container without the sandbox that prints 4 MiB, and returns the size of the engine's
/// record of it.
async fn recorded(driver: &str) -> u64 {
    let spec = json!({
        "image": Setting::of_this_run().clients_image,
        "command": ["head", "-c", "4194304", "/dev/zero"],
        "entrypoint": [],
        "netns": {"nsmode": "none"},
        "log_configuration": {"driver": driver},
    });
    let created = engine::json("POST", "/containers/create", Some(&spec)).await;
    let id = created.get("Id").and_then(Value::as_str).expect("an id").to_owned();
    engine::call("POST", &format!("/containers/{id}/start"), None).await;
    engine::call("POST", &format!("/containers/{id}/wait?condition=exited&condition=stopped"), None).await;
    let size = log_size(&facts(&id).await);
    engine::call("DELETE", &format!("/containers/{id}?force=true&timeout=0"), None).await;
    size
}

/// The engine's inspection of a container.
async fn facts(container: &str) -> Value {
    engine::json("GET", &format!("/containers/{container}/json"), None).await
}

/// The size of the engine's record of a container's output.
fn log_size(facts: &Value) -> u64 {
    let path = facts.pointer("/HostConfig/LogConfig/Path").and_then(Value::as_str);
    path.map(PathBuf::from).and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn stdout_does_not_reach_the_disk() {
    let fixture = Fixture::new().await;
    let script = "head -c 4194304 /dev/zero; echo; echo written; read end";
    let command =
        fixture.sandbox.create_command(hostile(&fixture, &["bash", "-c", script])).expect("a good command");
    let (mut writer, reader) = tokio::io::duplex(64);
    let mut execution = command.execute(Input::Reader(Box::new(reader)));
    let written = read_until(&mut execution, |output| output.ends_with("written\n")).await;
    assert!(written.ends_with("written\n"), "the whole output is written");
    let facts = facts(&fixture.container(Role::Task).await).await;
    writer.write_all(b"end\n").await.expect("the command reads");
    assert_eq!(execution.await.expect("the sandbox works").exit_code, 0);
    let of_log = |field: &str| facts.pointer(&format!("/HostConfig/LogConfig/{field}")).cloned();
    assert_eq!(of_log("Type"), Some(json!("none")), "{facts}");
    assert_eq!(log_size(&facts), 0, "{:?}", of_log("Path"));
    assert_eq!(recorded("none").await, 0, "the same without the sandbox");
    assert!(recorded("k8s-file").await >= 4 << 20, "the control");
    fixture.close().await;
}
