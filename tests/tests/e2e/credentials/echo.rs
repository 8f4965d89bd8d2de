//! A host in scope that echoes the real value in a header, a cookie, an error page, a body,
//! compressed, or live.

use e2e_tests::assert_held;
use e2e_tests::fixture::{Fixture, read_until};
use e2e_tests::secret::{AwsKey, Secrets, injection, unique};
use e2e_tests::world::World;
use sandbox::Input;
use sandbox::credentials::{Injection, PreparedSecrets};

const POLICY: &str = "domains: ['*.mirror.test']";

/// The real value, the surrogate, and the pair as prepared for the proxy.
fn secret(strict: bool) -> (String, String, PreparedSecrets) {
    let real = unique("ghp_", 36);
    let injection = Injection { allow_echo: !strict, ..injection(&["*.mirror.test"], &["authorization"]) };
    let secrets = Secrets::default().masked("TOKEN", &real, injection).prepare();
    let surrogate = secrets.env_vars().get("TOKEN").expect("a surrogate").clone();
    (real, surrogate, secrets)
}

/// Checks that `script`, which prints the echoed value, prints the surrogate `times` times. The
/// control, whose proxy lets the real value in, must print that.
async fn check(script: &str, times: usize) {
    let script = format!("ask() {{ curl -sS -H \"Authorization: Bearer $TOKEN\" \"$@\"; }}\n{script}");
    let fixture = Fixture::new().await;
    for strict in [true, false] {
        let (real, surrogate, secrets) = secret(strict);
        let ran = fixture.run_with(&secrets, POLICY, &script).await;
        let facts = format!("strict {strict}\n{:.2000}\n{}\n{}", ran.stdout, ran.stderr, ran.log);
        assert_held!(!strict || !ran.stdout.contains(&real), "{facts}");
        assert_eq!(ran.code, 0, "{facts}");
        let (expected, unwanted) = if strict { (&surrogate, &real) } else { (&real, &surrogate) };
        assert_eq!(ran.stdout.matches(expected.as_str()).count(), times, "{facts}");
        assert!(!ran.stdout.contains(unwanted.as_str()), "{facts}");
        assert_eq!(ran.log_lines("[scrubbed: ").is_empty(), !strict, "{facts}");
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn value_in_headers_cookies_redirects_and_error_pages_is_masked() {
    check(
        "ask -D - -o /dev/null https://head.mirror.test/mirror/header
ask -D - -o /dev/null https://head.mirror.test/mirror/cookie
ask -D - -o /dev/null https://head.mirror.test/mirror/redirect/head.mirror.test/x
ask https://head.mirror.test/mirror/error
ask --http1.1 -D - -o /dev/null https://head.mirror.test/mirror/header",
        5,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn value_in_plain_compressed_and_base64_bodies_is_masked() {
    check(
        "ask https://body.mirror.test/mirror/body/ | python3 -c '
import base64, sys
lines = sys.stdin.read().split(\"\\n\")
print(lines[1]); print(base64.b64decode(lines[2]).decode())'
for encoding in gzip br zstd; do
    ask --compressed https://body.mirror.test/mirror/body/$encoding | sed -n 2p
    ask --http1.1 --compressed https://body.mirror.test/mirror/body/$encoding | sed -n 3p | base64 -d; echo
done",
        8,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn value_in_an_event_is_masked_while_the_stream_is_open() {
    let fixture = Fixture::new().await;
    for strict in [true, false] {
        let (real, surrogate, secrets) = secret(strict);
        let name = unique("stream", 12);
        let script = format!(
            "curl -sSN -H \"Authorization: Bearer $TOKEN\" https://live.mirror.test/mirror/sse/{name}"
        );
        let spec = fixture.command_with(&secrets, POLICY, &["bash", "-c", &script]);
        let command = fixture.sandbox.create_command(spec).expect("a good command");
        let mut execution = command.execute(Input::Empty);
        // The second event is sent only after the first has arrived whole: withholding it would
        // time out here.
        read_until(&mut execution, |output| output.ends_with("\n\n")).await;
        World::shared().release(&name);
        let result = execution.await.expect("the sandbox works");
        assert!(!result.timed_out);
        let output = String::from_utf8_lossy(&result.stdout);
        assert_held!(!strict || !output.contains(&real), "{output}");
        let expected = if strict { surrogate } else { real };
        assert_eq!(output, format!("data: {expected}\n\ndata: second\n\n"), "strict {strict}");
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_part_of_a_signing_key_is_echoed() {
    const HOST: &str = "echo.ap-south-1.amazonaws.com";
    let fixture = Fixture::new().await;
    let key = AwsKey::generate(true);
    let secrets = Secrets::default().aws(&key, "*.amazonaws.com").prepare();
    // The server quotes all headers: key id, token and signature.
    let script = format!(
        "export AWS_DEFAULT_REGION=ap-south-1; python3 -c \"
import boto3, requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
request = AWSRequest('GET', 'https://{HOST}/headers')
SigV4Auth(boto3.session.Session().get_credentials(), 'execute-api', 'ap-south-1').add_auth(request)
print(requests.get(request.url, headers=dict(request.headers)).text)\""
    );
    let policy = format!("domains: [{HOST}]");
    let ran = fixture.run_with(&secrets, &policy, &script).await;
    let facts = format!("{}\n{}\n{}", ran.stdout, ran.stderr, ran.log);
    let token = key.token.as_deref().expect("a token");
    for real in [key.id.as_str(), token] {
        assert_held!(!ran.stdout.contains(real), "{facts}");
    }
    for (variable, real) in [("AWS_ACCESS_KEY_ID", key.id.as_str()), ("AWS_SESSION_TOKEN", token)] {
        let surrogate = secrets.env_vars().get(variable).expect("a surrogate");
        // The body keeps its length, so a longer surrogate is cut.
        let fitting: String = surrogate.chars().take(real.len()).collect();
        assert!(ran.stdout.contains(&fitting), "{variable}: {facts}");
    }
    // The control: the real values arrived.
    let seen = format!("{:?}", World::shared().seen(HOST));
    assert!(seen.contains(&key.id) && seen.contains(token), "{seen}");
    fixture.close().await;
}
