//! Requests that carry the real value, and those that never do.

use e2e_tests::assert_held;
use e2e_tests::fixture::{Fixture, Ran};
use e2e_tests::secret::{Secrets, injection, unique};
use e2e_tests::world::World;
use sandbox::credentials::Injection;

const POLICY: &str = "domains: ['*.scope.test']";

/// A secret in `TOKEN`, its surrogate, and the result of a script that used it.
struct Used {
    real: String,
    surrogate: String,
    ran: Ran,
}

async fn with(injection: Injection, script: &str) -> Used {
    let fixture = Fixture::new().await;
    let real = unique("ghp_", 36);
    let secrets = Secrets::default().masked("TOKEN", &real, injection).prepare();
    let surrogate = secrets.env_vars().get("TOKEN").expect("a surrogate").clone();
    assert_ne!(real, surrogate);
    let ran = fixture.run_with(&secrets, POLICY, script).await;
    fixture.close().await;
    Used { real, surrogate, ran }
}

impl Used {
    /// Asserts that `host` received the surrogate, and never the real value.
    #[track_caller]
    fn assert_surrogate_at(&self, host: &str) {
        let seen = self.seen(host);
        assert_held!(!seen.contains(&self.real), "the real value reached {host}: {seen}");
        assert!(seen.contains(&self.surrogate), "{seen}");
    }

    /// Asserts that `host` received the real value.
    #[track_caller]
    fn assert_real_at(&self, host: &str) {
        let seen = self.seen(host);
        assert!(seen.contains(&self.real), "{seen}\n{}\n{}", self.ran.stderr, self.ran.log);
    }

    #[track_caller]
    fn seen(&self, host: &str) -> String {
        let seen = World::shared().seen(host);
        assert!(!seen.is_empty(), "nothing arrived at {host}: {}", self.ran.log);
        format!("{seen:?}")
    }
}

const BEARER: &str = "-H \"Authorization: Bearer $TOKEN\"";

#[tokio::test(flavor = "multi_thread")]
async fn host_out_of_scope_receives_the_surrogate() {
    let script =
        format!("curl -sS {BEARER} https://in.scope.test/; curl -sS {BEARER} https://out.scope.test/");
    let used = with(injection(&["in.scope.test"], &["authorization"]), &script).await;
    used.assert_surrogate_at("out.scope.test");
    used.assert_real_at("in.scope.test");
    assert_eq!(used.ran.log_lines("-> 200 [masked: 1]").len(), 1, "{}", used.ran.log);
    let script = format!("curl -sS {BEARER} https://control-out.scope.test/");
    let wider = with(injection(&["*.scope.test"], &["authorization"]), &script).await;
    wider.assert_real_at("control-out.scope.test");
}

#[tokio::test(flavor = "multi_thread")]
async fn surrogate_in_path_query_body_and_other_headers_is_not_replaced() {
    let script = format!(
        "curl -sS https://places.scope.test/$TOKEN; curl -sS \"https://places.scope.test/?token=$TOKEN\"
curl -sS -H \"X-Other: $TOKEN\" https://places.scope.test/
curl -sS -d \"token=$TOKEN\" https://places.scope.test/echo
curl -sS {BEARER} https://control-places.scope.test/"
    );
    let hosts = ["places.scope.test", "control-places.scope.test"];
    let used = with(injection(&hosts, &["authorization"]), &script).await;
    used.assert_surrogate_at("places.scope.test");
    assert_eq!(used.seen("places.scope.test").matches(&used.surrogate).count(), 3);
    let body = format!("token={}", used.surrogate);
    assert!(used.ran.stdout.contains(&body), "the echoed body: {}", used.ran.stdout);
    used.assert_real_at("control-places.scope.test");
}

#[tokio::test(flavor = "multi_thread")]
async fn surrogate_split_over_two_header_lines_is_not_replaced() {
    let host = "split.scope.test";
    let script = format!(
        "curl -sS -H \"Authorization: Bearer ${{TOKEN:0:20}}\" -H \"Authorization: ${{TOKEN:20}}\" https://{host}/; curl -sS {BEARER} https://control-{host}/"
    );
    let scopes = [host, "control-split.scope.test"];
    let used = with(injection(&scopes, &["authorization"]), &script).await;
    let seen = used.seen(host);
    assert_held!(!seen.contains(&used.real) && !seen.contains(&used.real[20..]), "{seen}");
    used.assert_real_at("control-split.scope.test");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_quoting_the_real_value_carries_the_surrogate_to_the_next_host() {
    let script = |from: &str, to: &str| {
        format!("curl -sS -L {BEARER} https://{from}.scope.test/mirror/redirect/{to}.scope.test/landing")
    };
    let used = with(injection(&["quotes.scope.test"], &["authorization"]), &script("quotes", "thief")).await;
    used.assert_real_at("quotes.scope.test");
    used.assert_surrogate_at("thief.scope.test");
    assert!(!used.ran.log_lines("[scrubbed: 1]").is_empty(), "{}", used.ran.log);
    let open =
        Injection { allow_echo: true, ..injection(&["control-quotes.scope.test"], &["authorization"]) };
    let lenient = with(open, &script("control-quotes", "control-thief")).await;
    lenient.assert_real_at("control-thief.scope.test");
}
