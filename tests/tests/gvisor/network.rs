//! The network sandbox, whose packets pass through the host's kernel.

use e2e_tests::fixture::{self, Fixture};
use sandbox::Input;

use super::fixture::{in_gvisor, spec};
use super::hook;

#[tokio::test(flavor = "multi_thread")]
async fn allowed_and_blocked_requests_are_decided_and_logged() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let script = "for url in https://open.test/hello https://evil.test/steal; do curl -sS --max-time 20 -w '\\n%{http_code}\\n' $url; done; \
                  cat /proc/net/if_inet6; curl --max-time 5 -sS http://203.0.113.1/ 2>/dev/null || echo no way";
    let spec = fixture
        .command("domains: [open.test]", &["bash", "-c", script])
        .isolation(in_gvisor(sandbox::Isolation::agent()));
    let ran = fixture.run_spec(spec).await;
    assert!(ran.stdout.starts_with("hello from open.test\n\n200\n"), "{} {}", ran.stdout, ran.stderr);
    // Without IPv6, nothing is printed between these lines.
    assert!(ran.stdout.ends_with("\n403\nno way\n"), "{}", ran.stdout);
    for line in [
        "allowed GET https://open.test/hello -> 200",
        "BLOCKED GET https://evil.test/steal -> 403 [reason: host]",
    ] {
        assert_eq!(ran.log_lines(line).len(), 1, "{line} in\n{}", ran.log);
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn network_on_an_engine_without_the_hook_is_refused() {
    let fixture = Fixture::new().await;
    let _removed = hook::Removed::new();
    // A private network needs no hook.
    let alone = fixture.run_spec(spec(&fixture, "echo ran")).await;
    assert_eq!(alone.stdout, "ran\n");
    let spec = spec(&fixture, "echo ran").network(fixture::network("domains: [open.test]"));
    let command = fixture.sandbox.create_command(spec).expect("a good command");
    let error =
        command.execute(Input::Empty).await.expect_err("the container and its proxy deviate from the plan");
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    for part in ["IPv6 addresses: planned false, is true", "sandbox doctor"] {
        assert!(text.contains(part), "{text}");
    }
    fixture.close().await;
}
