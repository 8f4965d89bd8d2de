//! The callback that decides on requests that no rule permits.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use allowlist::Allowlist;
use e2e_tests::fixture::Fixture;
use e2e_tests::secret::{Secrets, injection, unique};
use e2e_tests::world::World;
use sandbox::network::{Answer, Question, Verdict};
use sandbox::{Mount, Network, NetworkSandboxConfig};

/// Requests each URL in its arguments and prints the statuses.
const SCRIPT: &str = "for url; do curl -s -o /dev/null -w '%{http_code} ' \"$url\"; done";

/// The URLs that the callback was asked about.
type Asked = Arc<Mutex<Vec<String>>>;

fn asking<A: Future<Output: Into<Answer>> + Send + 'static>(
    answer: impl Fn(Question) -> A + Send + Sync + 'static,
) -> (NetworkSandboxConfig, Asked) {
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    let network = NetworkSandboxConfig::new(Allowlist::default()).ask(move |question: Question| {
        seen.lock().expect("no panic").push(question.url.clone());
        answer(question)
    });
    // The machine may be busy.
    let network = network.ask_timeout(Duration::from_mins(10));
    (network, asked)
}

fn command(fixture: &Fixture, network: NetworkSandboxConfig, urls: &[&str]) -> sandbox::CommandSpec {
    let arguments = [&["bash", "-c", SCRIPT, "bash"], urls].concat();
    fixture.command("domains: []", &arguments).network(Network::Sandboxed(network))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_once_run_always_and_no_are_applied() {
    let fixture = Fixture::new().await;
    let (network, asked) = asking(async |question: Question| match question.url.as_str() {
        url if url.contains("//once.") => Answer::new(Verdict::Once, "a person"),
        url if url.contains("//run.") && url.ends_with("/x") => Answer::new(Verdict::Run, "a person"),
        url if url.contains("//always.") && url.ends_with("/x") => {
            assert_eq!(question.rule.to_yaml(), "{host: always.ask.test, path: /x, methods: [GET]}");
            Verdict::Always.into()
        }
        url if url.contains("//panic.") => panic!("the callback panics"),
        _ => Verdict::No.into(),
    });
    let urls = [
        "https://once.ask.test/",
        "https://once.ask.test/",
        "https://run.ask.test/x",
        "https://run.ask.test/x",
        "https://run.ask.test/y",
        "https://always.ask.test/x",
        "https://always.ask.test/x",
        "https://always.ask.test/y",
        "https://no.ask.test/",
        "https://no.ask.test/",
        "https://panic.ask.test/",
        "http://private.test/",
        "http://169.254.169.254/",
        "http://10.0.0.1/",
        "http://metadata.google.internal/",
        "http://localhost/",
    ];
    let ran = fixture.run_spec(command(&fixture, network, &urls)).await;
    assert_eq!(
        ran.stdout.trim_end(),
        "200 200 200 200 403 200 200 403 403 403 403 403 000 000 403 000",
        "{}",
        ran.log
    );
    let asked = asked.lock().expect("no panic").clone();
    assert_eq!(
        asked,
        [
            "https://once.ask.test/",
            "https://once.ask.test/",
            "https://run.ask.test/x",
            "https://run.ask.test/y",
            "https://always.ask.test/x",
            "https://always.ask.test/y",
            "https://no.ask.test/",
            "https://panic.ask.test/",
            "http://private.test/",
        ]
    );
    for line in [
        "ASKED GET https://once.ask.test/ -> question 1\n",
        "ANSWERED question 1 -> once [by: a person]\n",
        "allowed GET https://once.ask.test/ -> 200 [question: 1]\n",
        "ANSWERED question 3 -> run [by: a person]\n",
        "ANSWERED question 5 -> always [by: callback]\n",
        "ANSWERED question 7 -> no [by: callback]\n",
        "BLOCKED GET https://no.ask.test/ -> 403 [question: 7] [reason: host]\n",
        "BLOCKED GET https://no.ask.test/ -> 403 [reason: host]\n",
        "ANSWERED question 8 -> no [by: a panic of the callback]\n",
    ] {
        assert!(ran.log.contains(line), "{line} is not in {}", ran.log);
    }
    assert!(World::shared().seen("no.ask.test").is_empty());
    assert!(!World::shared().seen("once.ask.test").is_empty(), "the control");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_opens_no_private_address_and_reveals_no_secret() {
    let fixture = Fixture::new().await;
    let real = unique("ghp_", 36);
    let secrets = Secrets::default()
        .masked("TOKEN", &real, injection(&["named.ask.test"], &["authorization"]))
        .prepare();
    let (network, asked) = asking(async |_| Verdict::Once);
    let network = network.replacements(secrets.replacements().clone());
    let script =
        "for url; do curl -s -o /dev/null -w '%{http_code} ' -H \"Authorization: Bearer $TOKEN\" $url; done";
    let urls = ["https://named.ask.test/", "https://other.ask.test/", "http://private.test/"];
    let spec =
        fixture.command_with(&secrets, "domains: []", &[&["bash", "-c", script, "bash"], &urls[..]].concat());
    let ran = fixture.run_spec(spec.network(Network::Sandboxed(network))).await;
    assert_eq!(ran.stdout.trim_end(), "200 200 403", "{}", ran.log);
    assert_eq!(asked.lock().expect("no panic").len(), 3);
    let seen = |host| format!("{:?}", World::shared().seen(host));
    assert!(seen("named.ask.test").contains(&real), "the control: the host is in scope");
    assert!(!seen("other.ask.test").contains(&real));
    assert!(ran.log.contains("[question: 3] [reason: address]"), "{}", ran.log);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_answer_and_departed_client_are_refused() {
    let fixture = Fixture::new().await;
    let signals = tempfile::tempdir().expect("a folder");
    let is_asked = signals.path().join("asked");
    let (network, asked) = asking(move |_| {
        std::fs::write(&is_asked, "").expect("our own folder");
        std::future::pending::<Verdict>()
    });
    // The client disconnects while its request waits.
    let script =
        "curl -s https://gone.ask.test/ & until [ -e /signals/asked ]; do sleep 0.1; done; kill $!; wait";
    let spec = fixture.command("domains: []", &["bash", "-c", script]).network(Network::Sandboxed(network));
    let ran = fixture.run_spec(spec.mount(Mount::read_only_at(signals.path(), "/signals"))).await;
    assert_eq!(asked.lock().expect("no panic").len(), 1);
    assert!(ran.log.contains("ANSWERED question 1 -> - [by: client]\n"), "{}", ran.log);

    let (network, asked) = asking(|_| std::future::pending::<Verdict>());
    let network = network.ask_timeout(Duration::from_secs(3));
    let ran = fixture.run_spec(command(&fixture, network, &["https://late.ask.test/"])).await;
    assert_eq!(ran.stdout.trim_end(), "403", "{}", ran.log);
    assert_eq!(asked.lock().expect("no panic").len(), 1);
    assert!(ran.log.contains("ANSWERED question 1 -> no [by: time]\n"), "{}", ran.log);
    fixture.close().await;
}

/// Of a thousand requests, the callback is asked about a few.
#[tokio::test(flavor = "multi_thread")]
async fn flood_of_requests_is_refused_with_few_questions() {
    let fixture = Fixture::new().await;
    // Without answers, more requests wait at once than may, however fast the task is.
    let (network, asked) = asking(|_| std::future::pending::<Verdict>());
    let network = network.ask_timeout(Duration::from_secs(10));
    let script = "seq 1000 | sed 's|.*|url=https://flood.ask.test/&\\noutput=/dev/null|' > /tmp/urls; \
                  curl -s --parallel --parallel-max 50 -w '%{http_code}\\n' -K /tmp/urls | sort | uniq -c";
    let spec = fixture.command("domains: []", &["bash", "-c", script]).network(Network::Sandboxed(network));
    let ran = fixture.run_spec(spec).await;
    assert_eq!(ran.stdout.trim(), "1000 403", "{}", ran.stderr);
    let asked = asked.lock().expect("no panic").len();
    // On a busy machine they may take more than a minute.
    assert!((1..=100).contains(&asked), "{asked}");
    // Counted over a second. If the task was faster, the record is written when its proxy ends.
    let deadline = Instant::now() + Duration::from_secs(90);
    while !fixture.log().contains("LIMIT questions -> reached ") {
        assert!(Instant::now() < deadline, "{}", fixture.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    fixture.close().await;
}
