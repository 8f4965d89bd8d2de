//! Options of a run: the engine applies them, or they are refused with an error.

use e2e_tests::engine;
use e2e_tests::fixture::Fixture;
use sandbox::isolation::Runtime;
use sandbox::runs::{AnnotationKey, LifecycleHooks, RunSpec};
use sandbox::{ByteSize, ContainerEnv, ContainerError, Cpus, Isolation, ResourceLimits, SandboxError};
use serde_json::Value;

use super::fixture::{LONG, all_lines, chain, container, exists, lines, name, spec, stop};

/// The unsupported field and the whole message. Nothing is left.
async fn refusal(fixture: &Fixture, spec: RunSpec) -> (&'static str, String) {
    let run = spec.name().clone();
    let launched = fixture.sandbox.runs().run(spec, LifecycleHooks::default()).await;
    let error = launched.expect_err("this engine cannot do it");
    assert!(!exists(run.as_str()).await);
    let text = chain(&error);
    match error {
        SandboxError::Container(ContainerError::Unsupported { field, .. }) => (field, text),
        other => panic!("{other:?}"),
    }
}

async fn inspected(run: &str, pointer: &str) -> Value {
    let all = engine::json("GET", &format!("/containers/{}/json", container(run)), None).await;
    all.pointer(pointer).cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn annotation_reaches_the_container() {
    let fixture = Fixture::new().await;
    let annotations = [
        (AnnotationKey::DossierMetaPath, "/srv/a,b=c"),
        (AnnotationKey::KrunCpus, "2"),
        (AnnotationKey::TerokSidecar, "/srv/side car.json"),
    ];
    for (key, value) in annotations {
        let annotated = spec(&fixture, "annotated", "true").annotation(key, value);
        let launched = fixture.sandbox.runs().run(annotated, LifecycleHooks::default()).await;
        launched.expect("a good run");
        let there = inspected("annotated", "/Config/Annotations").await;
        assert_eq!(there[key.as_str()], value);
        // The control: other annotations are absent.
        for (other, _) in annotations.iter().filter(|(other, _)| *other != key) {
            assert!(there.get(other.as_str()).is_none(), "{there}");
        }
        stop(&fixture, "annotated").await;
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_other_than_the_engines_is_refused() {
    let fixture = Fixture::new().await;
    let run = |run: &str, runtime| {
        spec(&fixture, run, "echo ran").isolation(Isolation { runtime: Some(runtime), ..Isolation::agent() })
    };
    assert_eq!(lines(&fixture, run("crun", Runtime::Crun)).await, ["ran"]);
    let (field, text) = refusal(&fixture, run("krun", Runtime::Krun)).await;
    assert_eq!(field, "isolation.runtime");
    assert!(text.contains("podman --runtime krun system service"), "{text}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_gpu_is_refused_with_the_fix() {
    let fixture = Fixture::new().await;
    let run = spec(&fixture, "gpu", "true").gpus("nvidia:0".parse().expect("a good request"));
    let (field, text) = refusal(&fixture, run).await;
    assert_eq!(field, "gpus");
    assert!(text.contains("nvidia.com/gpu=0") && text.contains("nvidia-ctk cdi generate"), "{text}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_is_confined_by_default() {
    let fixture = Fixture::new().await;
    let script = "grep NoNewPrivs /proc/self/status | tr -d '[:space:]'; echo; hostname; ls /sys/class/net";
    let seven = Isolation { hostname: "seven".to_owned(), ..Isolation::agent() };
    let plain = spec(&fixture, "confined", script).isolation(seven);
    assert_eq!(lines(&fixture, plain).await, ["NoNewPrivs:1", "seven", "lo"]);
    let open = Isolation { no_new_privileges: false, ..Isolation::agent() };
    let open = spec(&fixture, "open", script).isolation(open);
    assert_eq!(lines(&fixture, open).await, ["NoNewPrivs:0", "sandbox", "lo"]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_set_on_the_container() {
    let fixture = Fixture::new().await;
    let cpus: Cpus = "0.5".parse().expect("a number");
    let limits = ResourceLimits::default().memory(ByteSize::mib(64)).cpus(cpus).pids(50);
    let run = spec(&fixture, "limited", "sleep 300").limits(limits);
    let launched = fixture.sandbox.runs().run(run, LifecycleHooks::default()).await;
    launched.expect("a good run");
    for (field, expected) in
        [("Memory", 64 << 20), ("MemorySwap", 64 << 20), ("NanoCpus", 500_000_000), ("PidsLimit", 50)]
    {
        assert_eq!(inspected("limited", &format!("/HostConfig/{field}")).await, expected, "{field}");
    }
    stop(&fixture, "limited").await;
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_output_does_not_fill_the_hosts_disk() {
    let fixture = Fixture::new().await;
    let script = "seq 1 400000; echo the end";
    let runs = fixture.sandbox.runs();
    for (run, limit) in [("chatty", ByteSize::kib(64)), ("kept", ByteSize::mib(64))] {
        let spec = spec(&fixture, run, script).log_limit(limit);
        runs.run(spec, LifecycleHooks::default()).await.expect("a good run");
        let exit = runs.wait_for_exit(&name(run), LONG).await.expect("an end");
        assert_eq!(exit.code, 0);
        let path = inspected(run, "/HostConfig/LogConfig/Path").await;
        let size = std::fs::metadata(path.as_str().expect("a path")).expect("a log").len();
        let lines = all_lines(&fixture, &name(run)).await;
        assert_eq!(lines.last().map(String::as_str), Some("the end"));
        // The control: the same output far exceeds the small bound.
        if run == "chatty" {
            assert!(size <= limit.bytes(), "{size}");
        } else {
            assert!(size > 2 << 20 && lines.len() == 400_001, "{size} {}", lines.len());
        }
        stop(&fixture, run).await;
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rendering_and_errors_hide_values_of_variables() {
    let fixture = Fixture::new().await;
    let secret = "hunter2-hunter2";
    let env = ContainerEnv::default().with("TOKEN", secret);
    let run = RunSpec::new(name("hidden"), fixture.image.clone(), ["bash", "-c", "echo $TOKEN; exit 0"])
        .env(env.clone());
    let missing = RunSpec::new(name("hidden-missing"), fixture.image.clone(), [secret, secret])
        .env(env)
        .working_dir("/proc/no/such");
    let rendered = [run.to_string(), missing.to_string()].join("\n");
    assert!(!rendered.contains("hunter2") && rendered.contains("--env=TOKEN=<hidden>"), "{rendered}");
    let launched = fixture.sandbox.runs().run(missing, LifecycleHooks::default()).await;
    let error = launched.expect_err("there is no such folder");
    assert!(!chain(&error).contains("TOKEN=hunter2"), "{}", chain(&error));
    // The control: the container has the value.
    assert_eq!(lines(&fixture, run).await, [secret]);
    fixture.close().await;
}
