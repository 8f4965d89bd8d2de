//! S3: the AWS CLI, boto3 and a client that signs chunks, against a third-party server that
//! verifies every signature with the real key. The container has only the surrogate.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e_tests::assert_held;
use e2e_tests::fixture::{Fixture, Ran, network};
use e2e_tests::s3::S3;
use e2e_tests::secret::Secrets;
use e2e_tests::world::{Seen, World};
use sandbox::credentials::PreparedSecrets;
use sandbox::{CommandSpec, ContainerEnv, ResourceLimits};

const POLICY: &str = "domains: ['*.amazonaws.com']";
const COMMAND_LINE: &str = include_str!("scripts/aws_cli.sh");
const BOTO3: &str = include_str!("scripts/s3_client.py");
const CHUNKS: &str = include_str!("scripts/signed_chunks.py");
const LARGE: &str = "104857600";
const SMALLER: &str = "20971520";

fn surrogates(server: &S3) -> PreparedSecrets {
    Secrets::default().aws(&server.key, "*.amazonaws.com").prepare()
}

/// The settings that every AWS client needs in addition to its key.
fn settings(server: &S3) -> BTreeMap<String, String> {
    [
        ("AWS_DEFAULT_REGION", server.region()),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_MAX_ATTEMPTS", "1"),
        ("HOME", "/tmp"),
        ("LANG", "C.UTF-8"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// `command` with the surrogates in its environment, and the real key in its proxy.
fn masked(fixture: &Fixture, server: &S3, secrets: &PreparedSecrets, command: &[&str]) -> CommandSpec {
    let env = ContainerEnv::new(settings(server)).merge(secrets.env_vars());
    with_long_timeout(fixture.command_with(secrets, POLICY, command)).env(env)
}

/// The control: `command` with the real key, and a proxy without it.
fn unmasked(fixture: &Fixture, server: &S3, command: &[&str]) -> CommandSpec {
    let key = server.key.variables().into_iter();
    let key: BTreeMap<String, String> = key.map(|(name, value)| (name.to_owned(), value)).collect();
    with_long_timeout(fixture.command(POLICY, command)).env(ContainerEnv::new(settings(server)).merge(&key))
}

/// Each of the many calls of the AWS CLI starts Python.
fn with_long_timeout(command: CommandSpec) -> CommandSpec {
    command.limits(ResourceLimits::default().timeout(Duration::from_mins(8)))
}

fn command_line(bucket: &str, size: &str) -> Vec<String> {
    let script = format!("BUCKET={bucket} BIG={size}\n{COMMAND_LINE}");
    ["bash", "-c", &script].map(str::to_owned).into()
}

fn python(script: &str, arguments: &[&str]) -> Vec<String> {
    let program = ["python3", "-c", script].into_iter();
    program.chain(arguments.iter().copied()).map(str::to_owned).collect()
}

fn as_strs(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

#[track_caller]
fn assert_good(ran: &Ran, steps: usize) {
    let facts = format!("{}\n{}\n{}", ran.stdout, ran.stderr, ran.log);
    assert_eq!(ran.code, 0, "{facts}");
    assert_eq!(ran.stdout.matches("ok: ").count(), steps, "{facts}");
}

/// The requests that the server received, to `bucket` or to none.
fn seen(server: &S3, bucket: &str) -> Vec<Seen> {
    let world = World::shared();
    let mut seen = world.seen(&server.domain());
    seen.extend(world.seen(&format!("{bucket}.{}", server.domain())));
    seen
}

/// Asserts that no surrogate was sent, that every request names the real key, and that the real key
/// was neither returned nor logged.
#[track_caller]
fn assert_only_the_real_key_was_sent(server: &S3, bucket: &str, secrets: &PreparedSecrets, ran: &Ran) {
    for (name, real) in server.key.variables() {
        let text = format!("{}{}{}", ran.stdout, ran.stderr, ran.log);
        assert_held!(!text.contains(&real), "{name} was returned: {text}");
    }
    let seen = seen(server, bucket);
    assert!(!seen.is_empty());
    for request in seen {
        let text = format!("{} {:?}", request.target, request.headers);
        assert!(
            text.contains(&format!("{}/", server.key.id)) || text.contains(&format!("{}%2F", server.key.id)),
            "{text}"
        );
        for (name, surrogate) in secrets.env_vars() {
            assert!(!text.contains(surrogate), "{name} was sent: {text}");
        }
    }
}

/// Runs `command` with surrogates against a server with a permanent key.
async fn with_surrogates(region: &'static str, command: &[String], steps: usize) {
    let (fixture, server) = (Fixture::new().await, S3::start(region, false));
    let secrets = surrogates(&server);
    let ran = fixture.run_spec(masked(&fixture, &server, &secrets, &as_strs(command))).await;
    assert_only_the_real_key_was_sent(&server, "bucket", &secrets, &ran);
    assert_good(&ran, steps);
    let signed = format!("[region: {region}]");
    let unsigned: Vec<&str> =
        ran.log.lines().filter(|line| line.starts_with("allowed ") && !line.contains(&signed)).collect();
    assert!(unsigned.is_empty(), "{unsigned:?}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_cli_works_with_the_surrogate_only() {
    with_surrogates("eu-north-1", &command_line("bucket", LARGE), 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn boto3_works_with_the_surrogate_only() {
    with_surrogates("eu-south-1", &python(BOTO3, &["bucket", LARGE]), 18).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_signing_chunks_and_trailers_works_with_the_surrogate_only() {
    let fixture = Fixture::new().await;
    let server = S3::start("eu-central-1", false);
    let secrets = surrogates(&server);
    for (bucket, sizes) in [
        ("one-chunk", ["1024", "65536"]),
        ("odd-chunks", ["1000000", "70001"]),
        ("bucket", ["104857600", "1048576"]),
    ] {
        let script = format!("import boto3; boto3.client('s3').create_bucket(Bucket='{bucket}')\n{CHUNKS}");
        let command = python(&script, &[bucket, sizes[0], sizes[1]]);
        let ran = fixture.run_spec(masked(&fixture, &server, &secrets, &as_strs(&command))).await;
        assert_eq!(ran.code, 0, "{sizes:?}: {}\n{}\n{}", ran.stdout, ran.stderr, ran.log);
        assert_only_the_real_key_was_sent(&server, bucket, &secrets, &ran);
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_token_of_a_temporary_key_never_enters_the_container() {
    let (fixture, server) = (Fixture::new().await, S3::start("eu-west-1", true));
    let secrets = surrogates(&server);
    assert_eq!(secrets.env_vars().len(), 3);
    for (bucket, command, steps) in
        [("bucket", command_line("bucket", SMALLER), 7), ("python", python(BOTO3, &["python", SMALLER]), 18)]
    {
        let ran = fixture.run_spec(masked(&fixture, &server, &secrets, &as_strs(&command))).await;
        assert_only_the_real_key_was_sent(&server, bucket, &secrets, &ran);
        assert_good(&ran, steps);
    }
    let create = "import boto3; boto3.client('s3').create_bucket(Bucket='chunks')";
    let command = python(&format!("{create}\n{CHUNKS}"), &["chunks", "1000000", "70001"]);
    let ran = fixture.run_spec(masked(&fixture, &server, &secrets, &as_strs(&command))).await;
    assert_eq!(ran.code, 0, "{}\n{}\n{}", ran.stdout, ran.stderr, ran.log);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_real_key_in_the_container_works_without_the_signer() {
    let fixture = Fixture::new().await;
    for (region, temporary, command, steps) in [
        ("eu-west-2", false, command_line("bucket", SMALLER), 7),
        ("eu-west-3", true, python(BOTO3, &["bucket", SMALLER]), 18),
    ] {
        let server = S3::start(region, temporary);
        assert_good(&fixture.run_spec(unmasked(&fixture, &server, &as_strs(&command))).await, steps);
        let command = python(CHUNKS, &["bucket", "1000000", "70001"]);
        let ran = fixture.run_spec(unmasked(&fixture, &server, &as_strs(&command))).await;
        assert_eq!(ran.code, 0, "{}\n{}\n{}", ran.stdout, ran.stderr, ran.log);
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_surrogate_without_the_signer_is_refused() {
    let fixture = Fixture::new().await;
    for (region, temporary) in [("us-west-1", false), ("us-west-2", true)] {
        let server = S3::start(region, temporary);
        let secrets = surrogates(&server);
        let script = "import boto3; boto3.client('s3').list_buckets()";
        let listing = python(script, &[]);
        let without = masked(&fixture, &server, &secrets, &as_strs(&listing)).network(network(POLICY));
        let refused = fixture.run_spec(without).await;
        let named = [
            "InvalidAccessKeyId",
            "NotSignedUp",
            "InvalidToken",
            "SignatureDoesNotMatch",
            "AccessDenied",
            "403",
        ];
        assert_ne!(refused.code, 0, "{}", refused.stdout);
        assert!(named.iter().any(|name| refused.stderr.contains(name)), "{}", refused.stderr);
        assert_eq!(
            refused.log_lines("allowed GET").len(),
            1,
            "the request must reach the server: {}",
            refused.log
        );
    }
    fixture.close().await;
}
