//! Records of every crate at trace level, in a program that uses the library and subscribes to all
//! of them.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::sync::Arc;

use e2e_tests::assert_held;
use e2e_tests::fixture::{Fixture, network};
use e2e_tests::secret::{AwsKey, Secrets, injection, unique};
use e2e_tests::world::World;
use sandbox::credentials::PreparedSecrets;
use sandbox::{CommandSpec, ContainerEnv};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing_log::LogTracer;

use super::needles::Needles;

const POLICY: &str = "domains: [trace.test, '*.amazonaws.com']";
const SCRIPT: &str = r#"
curl -sS -H "Authorization: Bearer $TOKEN" https://trace.test/ > /dev/null
curl -sS --aws-sigv4 aws:amz:us-east-2:s3 --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
    -H "x-amz-security-token: $AWS_SESSION_TOKEN" https://trace.us-east-2.amazonaws.com/ > /dev/null
"#;

/// Collects the records of this thread, including those of crates that use `log`.
struct Trace {
    kept: Arc<File>,
    _guard: DefaultGuard,
}

impl Trace {
    fn begin() -> Self {
        // Another test may have done so: records go to the subscriber of the thread.
        let _ = LogTracer::init();
        let kept = Arc::new(tempfile::tempfile().expect("a file"));
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_ansi(false)
            .with_writer(Arc::clone(&kept))
            .finish();
        Self { kept, _guard: tracing::subscriber::set_default(subscriber) }
    }

    fn end(self) -> Vec<u8> {
        let mut said = Vec::new();
        let mut kept = &*self.kept;
        kept.rewind().expect("a file");
        kept.read_to_end(&mut said).expect("a file");
        said
    }
}

/// The secrets of one run and their uses.
struct Used {
    token: String,
    key: AwsKey,
    needles: Needles,
}

impl Used {
    fn new() -> Self {
        let (token, key) = (unique("ghp_", 36), AwsKey::generate(true));
        let values = [Some(token.clone()), Some(key.secret.clone()), key.token.clone()];
        Self { needles: Needles::new(&values.into_iter().flatten().collect::<Vec<_>>()), token, key }
    }

    fn masked(&self) -> PreparedSecrets {
        Secrets::default()
            .masked("TOKEN", &self.token, injection(&["trace.test"], &["authorization"]))
            .aws(&self.key, "*.amazonaws.com")
            .prepare()
    }

    fn unmasked(&self) -> ContainerEnv {
        let variables = self.key.variables().into_iter().map(|(name, value)| (name.to_owned(), value));
        variables.chain([("TOKEN".to_owned(), self.token.clone())]).collect()
    }

    /// The records while `command` creates and runs a task; nothing else runs in this thread.
    async fn trace(&mut self, command: impl FnOnce(&Self, &Fixture) -> CommandSpec) -> String {
        let trace = Trace::begin();
        let fixture = Fixture::new().await;
        let ran = fixture.run_spec(command(self, &fixture)).await;
        fixture.close().await;
        let said = trace.end();
        let seen = format!("{:?}", World::shared().seen("trace.test"));
        assert!(seen.contains(&self.token), "the real value was used: {}", ran.log);
        self.needles.look("trace", "everything", &said);
        String::from_utf8_lossy(&said).into_owned()
    }
}

#[tokio::test]
async fn no_crate_traces_a_real_value() {
    let mut used = Used::new();
    let said = used
        .trace(|used, fixture| fixture.command_with(&used.masked(), POLICY, &["bash", "-c", SCRIPT]))
        .await;
    assert_held!(used.needles.found().is_empty(), "a real value is traced");
    for name in ["sandbox::", "bollard::", "hyper"] {
        assert!(said.contains(name), "{name} was listened to");
    }
}

/// The name of an execution is traced by us and by bollard, so a value in it would be found.
#[tokio::test]
async fn control_traced_real_value_is_found() {
    let mut used = Used::new();
    let said = used
        .trace(|used, fixture| {
            let script = ["bash", "-c", SCRIPT];
            CommandSpec::new(&used.token, fixture.image.clone(), script)
                .network(network(POLICY))
                .env(used.unmasked())
        })
        .await;
    assert!(!used.needles.found().is_empty(), "{said}");
}
