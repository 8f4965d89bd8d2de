//! Hooks, and failing steps of a launch, which leave nothing.

use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use e2e_tests::fixture::{self, Fixture};
use sandbox::SandboxError;
use sandbox::runs::{LifecycleHooks, RunError, RunSpec, VolumeSpec};

use super::fixture::{LONG, chain, exists, name, networks, spec, stop};

/// The hooks that were called, in order.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<&'static str>>>);

impl Calls {
    /// Hooks that record their calls; `failing` fails after that.
    fn hooks(&self, failing: &'static str) -> LifecycleHooks {
        let hook = |called: &'static str| {
            let calls = self.clone();
            move |_| {
                let calls = calls.clone();
                async move {
                    calls.0.lock().expect("no panic").push(called);
                    if called == failing {
                        return Err("the hook says no".into());
                    }
                    Ok(())
                }
            }
        };
        LifecycleHooks::default()
            .pre_start(hook("pre_start"))
            .post_start(hook("post_start"))
            .post_ready(hook("post_ready"))
            .post_stop(hook("post_stop"))
    }

    fn recorded(&self) -> Vec<&'static str> {
        self.0.lock().expect("no panic").clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_are_called_once_in_order() {
    let fixture = Fixture::new().await;
    let (runs, run, calls) = (fixture.sandbox.runs(), name("hooked"), Calls::default());
    let spec = spec(&fixture, "hooked", "echo '>> init complete'; exit 0");
    runs.create(spec, calls.hooks("")).await.expect("a good run");
    assert_eq!(calls.recorded(), ["pre_start"]);
    runs.start(&run).await.expect("a good run");
    assert_eq!(calls.recorded(), ["pre_start", "post_start"]);
    for _ in 0..2 {
        assert!(runs.wait_until_ready(&run, LONG).await.expect("logs").is_ready());
    }
    assert_eq!(calls.recorded(), ["pre_start", "post_start", "post_ready"]);
    runs.wait_for_exit(&run, LONG).await.expect("an end");
    stop(&fixture, "hooked").await;
    assert_eq!(calls.recorded(), ["pre_start", "post_start", "post_ready", "post_stop"]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_hook_after_the_launch_is_reported_without_a_rollback() {
    let fixture = Fixture::new().await;
    let (runs, run, calls) = (fixture.sandbox.runs(), name("complains"), Calls::default());
    let spec = spec(&fixture, "complains", "echo '>> init complete'; sleep 300");
    runs.run(spec, calls.hooks("post_ready")).await.expect("a good run");
    let error = runs.wait_until_ready(&run, LONG).await.expect_err("the hook fails");
    let expected = format!("post_ready hook of run `{run}` failed: the hook says no");
    assert!(chain(&error).contains(&expected), "{}", chain(&error));
    assert!(exists("complains").await);
    stop(&fixture, "complains").await;
    assert_eq!(calls.recorded(), ["pre_start", "post_start", "post_ready", "post_stop"]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_cannot_be_stopped_during_its_launch() {
    let fixture = Fixture::new().await;
    let (runs, seen) = (fixture.sandbox.runs(), Arc::new(Mutex::new(Vec::new())));
    let stopping = || {
        let (runs, seen) = (runs.clone(), Arc::clone(&seen));
        move |name| {
            let (runs, seen) = (runs.clone(), Arc::clone(&seen));
            async move {
                let results = runs.stop(&[name]).await;
                seen.lock().expect("no panic").extend(results);
                Ok(())
            }
        }
    };
    let hooks = LifecycleHooks::default().pre_start(stopping()).post_start(stopping());
    runs.run(spec(&fixture, "busy", "sleep 300"), hooks).await.expect("a good run");
    let seen = std::mem::take(&mut *seen.lock().expect("no panic"));
    assert_eq!(seen.len(), 2);
    for result in seen {
        let error = result.error.expect("it is busy");
        assert!(!result.removed, "{error}");
        assert!(matches!(error, SandboxError::Run(RunError::Busy(_))), "{error}");
    }
    assert!(exists("busy").await);
    stop(&fixture, "busy").await;
    fixture.close().await;
}

/// Launches a run that must fail, with `failing` among its hooks or for another reason. Nothing may
/// be left, and its name is available.
async fn assert_launch_fails(
    fixture: &Fixture,
    spec: RunSpec,
    failing: &'static str,
    expected: &str,
    called: &[&str],
) {
    let (runs, run, calls) = (fixture.sandbox.runs(), spec.name().clone(), Calls::default());
    let spec = spec.network(fixture::network("domains: [open.test]"));
    let error = runs.run(spec.clone(), calls.hooks(failing)).await.expect_err("it fails");
    let text = chain(&error);
    assert!(text.contains(expected), "{text}");
    assert_eq!(calls.recorded(), called, "{text}");
    assert!(!exists(run.as_str()).await, "{text}");
    assert_eq!(networks(run.as_str()).await, [""; 0], "{text}");
    assert!(!runs.task_state_dir(&run).exists(), "{text}");
    // A second attempt fails for the same reason, not because of the first one.
    let again = runs.run(spec, LifecycleHooks::default()).await;
    match (failing, again) {
        ("", again) => {
            let again = chain(&again.expect_err("as before"));
            assert!(again.contains(expected), "{again}");
        }
        (_, again) => {
            again.expect("only the hook was at fault");
            stop(fixture, run.as_str()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_of_any_step_leaves_nothing_and_calls_post_stop() {
    let fixture = Fixture::new().await;
    let with_socket = fixture.folder().join("with-socket");
    std::fs::create_dir(&with_socket).expect("a folder");
    let _socket = UnixListener::bind(with_socket.join("s")).expect("a socket");
    let plain = |run: &str| spec(&fixture, run, "sleep 300");
    let nobody_listens = ["pre_start", "post_stop"];

    assert_launch_fails(&fixture, plain("rb-pre"), "pre_start", "the pre_start hook", &["pre_start"]).await;
    let copying = plain("rb-copy").volume(VolumeSpec::new(&with_socket, "/w")).sealed();
    assert_launch_fails(&fixture, copying, "", "sockets, pipes and devices are not copied", &nobody_listens)
        .await;
    // The missing folder is found only after the copy and the creation of the container.
    let program = RunSpec::new(name("rb-program"), fixture.image.clone(), ["sleep", "300"])
        .working_dir("/proc/no/such");
    assert_launch_fails(&fixture, program, "", "`/proc/no/such`: No such file", &nobody_listens).await;
    assert_launch_fails(
        &fixture,
        plain("rb-post"),
        "post_start",
        "the post_start hook",
        &["pre_start", "post_start", "post_stop"],
    )
    .await;
    fixture.close().await;
}
