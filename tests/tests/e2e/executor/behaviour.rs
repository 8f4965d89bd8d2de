//! Results of commands, and their rights.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use e2e_tests::DEADLINE;
use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use e2e_tests::setting::Setting;
use sandbox::executor::{ExecOptions, ExecutorMode, Workspace};
use sandbox::{ContainerEnv, ImageSource, Input, Isolation, Mount};

use super::fixture::{config, executor, image_config, output, run, timed_out_once_begun, weak, within};

const MODES: [ExecutorMode; 2] = [ExecutorMode::Reuse, ExecutorMode::Fresh];

#[tokio::test(flavor = "multi_thread")]
async fn output_and_exit_codes_are_the_commands_own() {
    let fixture = Fixture::new().await;
    for mode in MODES {
        let executor = executor(&fixture, config(&fixture).mode(mode));
        for (line, code, stdout, stderr) in [
            ("echo hello", 0, "hello\n", ""),
            ("exit 42", 42, "", ""),
            ("echo out; echo err >&2; false", 1, "out\n", "err\n"),
            ("kill -9 $$", 137, "", ""),
            ("echo $BASH_VERSION | wc -l", 0, "1\n", ""),
            ("printf 'a\\nb\\n\\xc3\\xbc'", 0, "a\nb\nü", ""),
        ] {
            let result = run(&executor, line).await;
            let got = (result.exit_code, &*result.stdout_text(), &*result.stderr_text());
            assert_eq!(got, (code, stdout, stderr), "{line} {mode:?}");
            assert!(!result.timed_out && !result.is_truncated());
        }
        let words = run(&executor, ["printf", "%s|", "a b", "$HOME", "*"]).await;
        assert_eq!(words.stdout_text(), "a b|$HOME|*|", "a list is taken as it is");
        executor.cleanup().await.expect("it is removed");
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn command_is_ended_at_its_time_limit() {
    let fixture = Fixture::new().await;
    for mode in MODES {
        let executor = executor(&fixture, config(&fixture).mode(mode));
        let result = timed_out_once_begun(&executor, "echo begun; sleep 600").await;
        assert_eq!((result.exit_code, result.is_success()), (124, false), "{result:?}");
        assert!(result.duration < DEADLINE, "{result:?}");
        // The control: a command within the limit.
        let slow = executor.execute("echo before; sleep 4.5", within(DEADLINE)).await.expect("a result");
        assert!(slow.is_success(), "{slow:?}");
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn root_is_read_only_and_commands_cannot_become_root() {
    let fixture = Fixture::new().await;
    let (hard, soft) = (executor(&fixture, config(&fixture)), executor(&fixture, weak(&fixture)));
    for line in [
        "rm -rf /* 2>&1",
        "rm -rf --no-preserve-root / 2>&1",
        "touch /etc/x 2>&1",
        "touch /usr/x 2>&1",
        "touch /bin/x 2>&1",
    ] {
        let result = run(&hard, line).await;
        assert_held!(result.exit_code != 0, "{line}: {result:?}");
        assert!(result.stdout_text().contains("Read-only file system"), "{result:?}");
    }
    // `rm` itself refuses the first in every container.
    for line in ["rm -rf /", "su -c whoami", "ls /root", "test $(id -u) = 0"] {
        let result = run(&hard, line).await;
        assert_held!(result.exit_code != 0, "{line}: {result:?}");
    }
    let look = "id -u; id -g; grep -E '^(CapBnd|CapEff|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t' ' '; ulimit -Hc";
    let rights = output(&hard, look).await;
    assert_held!(!rights.starts_with("0\n") && !rights.contains("NoNewPrivs: 0"), "{rights}");
    let expected =
        "1000\n1000\nCapEff: 0000000000000000\nCapBnd: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n0\n";
    assert_eq!(rights, expected);
    // The control: a container that allows all of it.
    let rights = output(&soft, look).await;
    assert!(rights.starts_with("0\n0\n") && rights.contains("NoNewPrivs: 0\n"), "{rights}");
    output(&soft, "touch /etc/x /usr/x /bin/x && ls /root && su -c whoami").await;
    let emptied = "rm -rf /* 2>/dev/null; [ -e /usr/bin/rm ] || [ -e /etc/passwd ] || echo gone";
    assert_eq!(run(&soft, emptied).await.stdout_text(), "gone\n");
    let still = "[ -e /usr/bin/rm ] && [ -e /etc/passwd ] && echo there";
    assert_eq!(output(&hard, still).await, "there\n");
    fixture.close().await;
}

/// Our images have no `sudo`; this one has a program of that name that makes its caller root
/// without a password.
#[tokio::test(flavor = "multi_thread")]
async fn sudo_grants_nothing() {
    let fixture = Fixture::new().await;
    let dockerfile = format!(
        "FROM {}\nRUN cp /usr/bin/env /usr/bin/sudo && chmod 4755 /usr/bin/sudo\n",
        Setting::of_this_run().image
    );
    let source = ImageSource::build(dockerfile, BTreeMap::new());
    let image = fixture.sandbox.ensure_image(&source).await.expect("an image");
    let config = || image_config(image.clone());
    let hard = executor(&fixture, config());
    let user = output(&hard, "sudo id -u").await;
    assert_held!(user != "0\n", "sudo makes root");
    assert_eq!(user, "1000\n");
    let touched = run(&hard, "sudo touch /root/x").await;
    assert_held!(touched.exit_code != 0, "{touched:?}");
    let soft = executor(
        &fixture,
        config().isolation(Isolation { no_new_privileges: false, ..Isolation::untrusted() }),
    );
    assert_eq!(output(&soft, "sudo id -u; sudo whoami").await, "0\nroot\n", "the control");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scratch_space_is_writable_and_the_network_is_absent() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    let script = "cd && echo x > home && cat home; echo y > /tmp/y && cat /tmp/y; python3 -c 'print(2+2)'; ls /sys/class/net; \
         test -e /workspace || echo none";
    assert_eq!(output(&executor, script).await, "x\ny\n4\nlo\nnone\n");
    assert_eq!(output(&executor, "cat ~/home").await, "x\n", "one container for all commands");
    let fresh = super::fixture::executor(&fixture, config(&fixture).mode(ExecutorMode::Fresh));
    assert_eq!(output(&fresh, "echo x > ~/home; cat ~/home").await, "x\n");
    assert_ne!(run(&fresh, "cat ~/home").await.exit_code, 0, "one container for each");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_is_read_only_or_writable_as_configured() {
    let fixture = Fixture::new().await;
    let folder = fixture.folder().join("work");
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("our own folder");
    fs::write(folder.join("given"), "given\n").expect("a file");
    let reading = executor(&fixture, config(&fixture).workspace(Workspace::ReadOnly(folder.clone())));
    assert_eq!(output(&reading, "pwd; cat given").await, "/workspace\ngiven\n");
    let refused = run(&reading, "touch made").await;
    assert_held!(!folder.join("made").exists(), "the read-only workspace was written: {refused:?}");
    assert!(refused.stderr_text().contains("Read-only file system"), "{refused:?}");
    let writing = executor(
        &fixture,
        config(&fixture).workspace(Workspace::ReadWrite(folder.clone())).mode(ExecutorMode::Fresh),
    );
    output(&writing, "touch made").await;
    assert!(folder.join("made").exists(), "the control");
    assert_eq!(output(&writing, "ls").await, "given\nmade\n");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_input_and_folder_apply_to_one_command() {
    let fixture = Fixture::new().await;
    let env = ContainerEnv::default().with("KEPT", "kept").with("CHANGED", "before");
    let executor = executor(&fixture, config(&fixture).env(env));
    let script = "echo $KEPT $CHANGED $OWN ${PATH:+path} $HOME; cat; pwd";
    let options = ExecOptions {
        env: ContainerEnv::default().with("CHANGED", "after").with("OWN", "own"),
        stdin: Input::Bytes(b"read\n".to_vec()),
        working_dir: Some("/usr".to_owned()),
        ..ExecOptions::default()
    };
    let result = executor.execute(script, options).await.expect("a result");
    assert_eq!(result.stdout_text(), "kept after own path /home/sandbox\nread\n/usr\n");
    let next = output(&executor, script).await;
    assert!(
        next.starts_with("kept before path /home/sandbox\n"),
        "variables of one command must not reach the next: {next}"
    );
    // Long input to a command that reads it, and to one that does not.
    let input = |bytes| ExecOptions { stdin: Input::Bytes(bytes), ..ExecOptions::default() };
    let much = vec![b'x'; 5_000_000];
    let counted = executor.execute("wc -c", input(much.clone())).await;
    assert_eq!(counted.expect("a result").stdout_text(), "5000000\n");
    let unread = executor.execute("exec <&-; sleep 0.2; echo done", input(much)).await;
    assert_eq!(unread.expect("a result").stdout_text(), "done\n");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executor_needs_nothing_in_the_image() {
    let fixture = Fixture::new().await;
    let files = [("x".to_owned(), b"x".to_vec())].into();
    let empty = ImageSource::build("FROM scratch\nCOPY x /x\n", files);
    let image = fixture.sandbox.ensure_image(&empty).await.expect("an image");
    let probe = Mount::read_only_at(&Setting::of_this_run().probe, "/probe");
    let executor = executor(&fixture, image_config(image).mount(probe));
    let result = run(&executor, ["/probe", "addresses"]).await;
    assert!(result.is_success() && result.stdout_text().contains("outcome"), "{result:?}");
    let error = executor.execute("echo hello", ExecOptions::default()).await.expect_err("there is no shell");
    assert_eq!(error.to_string(), "no program `/bin/sh` in the image");
    assert_eq!(executor.read_file("/x", 10).await.expect("a file"), b"x");
    fixture.close().await;
}
