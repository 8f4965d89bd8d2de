//! Clients that hold a surrogate, against servers that accept only the real token.

use std::fs;
use std::path::PathBuf;

use e2e_tests::assert_held;
use e2e_tests::fixture::{Fixture, Ran, network, network_with, state_dir};
use e2e_tests::secret::{Secrets, injection, unique};
use e2e_tests::setting::Setting;
use e2e_tests::world::{Lock, World};
use sandbox::credentials::{Injection, PreparedSecrets, Preset};
use sandbox::{CommandSpec, ContainerEnv, Mount, Outcome, Prompt};

use super::search::Needles;

/// A client: it has the surrogate in `TOKEN` and must print `expected`.
struct Client {
    host: &'static str,
    header: &'static str,
    lock: fn(String) -> Lock,
    token: String,
    script: &'static str,
    expected: &'static str,
}

impl Client {
    fn policy(&self) -> String {
        format!("domains: [{}]", self.host)
    }

    fn command(&self, fixture: &Fixture, secrets: &PreparedSecrets) -> CommandSpec {
        fixture
            .command_with(secrets, &self.policy(), &["bash", "-c", self.script])
            .mount(Mount::read_only_at(&Setting::of_this_run().npm, "/npm"))
    }

    /// The controls: the server accepts a client with the real token, and no other.
    async fn check_lock(&self, fixture: &Fixture) {
        for (token, opens) in [(self.token.as_str(), true), ("not-the-token", false)] {
            let env = ContainerEnv::default().with("TOKEN", token);
            let unmasked = self.command(fixture, &Secrets::default().prepare()).env(env);
            let ran = fixture.run_spec(unmasked).await;
            assert_eq!(ran.stdout.contains(self.expected), opens, "{ran:?}");
            assert!(
                opens || !ran.log_lines("-> 401").is_empty(),
                "the request must reach the server: {}",
                ran.log
            );
        }
    }

    /// Runs the client with the surrogate, with the real token in the proxy.
    async fn check(&self) -> Ran {
        let fixture = Fixture::new().await;
        World::shared().lock(self.host, (self.lock)(self.token.clone()));
        self.check_lock(&fixture).await;
        World::shared().forget(self.host);
        let secrets = Secrets::default()
            .masked("TOKEN", &self.token, injection(&[self.host], &[self.header]))
            .prepare();
        let ran = fixture.run_spec(self.command(&fixture, &secrets)).await;
        let facts = format!("{}\n{}\n{}", ran.stdout, ran.stderr, ran.log);
        assert_held!(!facts.contains(&self.token), "the real token was returned: {facts}");
        assert_eq!(ran.code, 0, "{facts}");
        assert!(ran.stdout.contains(self.expected), "{facts}");
        assert!(!ran.log_lines("[masked: 1]").is_empty(), "{facts}");
        for surrogate in secrets.env_vars().values() {
            let seen = format!("{:?}", World::shared().seen(self.host));
            assert!(!seen.contains(surrogate), "the surrogate was sent: {seen}");
        }
        let without = self.command(&fixture, &secrets).network(network(&self.policy()));
        let refused = fixture.run_spec(without).await;
        assert!(!refused.stdout.contains(self.expected), "{refused:?}");
        assert!(
            !refused.log_lines("-> 401").is_empty(),
            "the request must reach the server: {}",
            refused.log
        );
        fixture.close().await;
        ran
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn git_clones_and_pushes_with_a_token_in_the_address() {
    let ran = Client {
        host: "address.git.test",
        header: "authorization",
        lock: Lock::Password,
        token: unique("ghp_", 36),
        script: "set -e; cd /tmp; export GIT_TERMINAL_PROMPT=0
git clone -q https://x-access-token:$TOKEN@address.git.test/demo.git; cd demo; cat greeting.txt
date > date.txt; git add .; git -c user.name=e2e -c user.email=e2e@example.test commit -q -m second
git push -q origin +HEAD:refs/heads/from-the-address
git ls-remote origin refs/heads/from-the-address | grep -q $(git rev-parse HEAD); echo pushed",
        expected: "hello\npushed",
    }
    .check()
    .await;
    assert!(
        !ran.log_lines("allowed POST https://address.git.test/demo.git/git-receive-pack -> 200").is_empty(),
        "{}",
        ran.log
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn git_clones_and_pushes_with_a_custom_header() {
    Client {
        host: "header.git.test",
        header: "authorization",
        lock: Lock::Password,
        token: unique("ghs_", 36),
        script: "set -e; cd /tmp; export GIT_TERMINAL_PROMPT=0
git config --global http.extraHeader \"Authorization: basic $(printf x-access-token:$TOKEN | base64 -w0)\"
git clone -q https://header.git.test/demo.git; cd demo; cat greeting.txt
git push -q origin +HEAD:refs/heads/from-a-header; echo pushed",
        expected: "hello\npushed",
    }
    .check()
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_authenticates_with_a_bearer_token() {
    Client {
        host: "bearer.curl.test",
        header: "authorization",
        lock: Lock::Bearer,
        token: unique("sk-proj-", 48),
        script: "curl -sS --fail -H \"Authorization: Bearer $TOKEN\" https://bearer.curl.test/",
        expected: "hello from bearer.curl.test",
    }
    .check()
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_over_http_1_authenticates_with_a_user() {
    Client {
        host: "user.curl.test",
        header: "authorization",
        lock: Lock::Password,
        token: unique("", 40),
        script: "curl -sS --fail --http1.1 -u \"someone:$TOKEN\" https://user.curl.test/",
        expected: "hello from user.curl.test",
    }
    .check()
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_authenticates_with_an_api_key() {
    Client {
        host: "key.python.test",
        header: "x-api-key",
        lock: |token| Lock::Header("x-api-key".into(), token),
        token: unique("sk-ant-api03-", 90),
        script: "python3 -c \"
import os, requests, httpx
headers = {'x-api-key': os.environ['TOKEN']}
print(requests.get('https://key.python.test/', headers=headers).text, end='')
print(httpx.get('https://key.python.test/', headers=headers).text, end='')\"",
        expected: "hello from key.python.test\nhello from key.python.test\n",
    }
    .check()
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_authenticates_with_a_private_token() {
    Client {
        host: "private.node.test",
        header: "private-token",
        lock: |token| Lock::Header("private-token".into(), token),
        token: unique("glpat-", 20),
        script: "node -e \"
const headers = {'PRIVATE-TOKEN': process.env.TOKEN};
fetch('https://private.node.test/', {headers}).then(r => r.text()).then(console.log);
\"",
        expected: "hello from private.node.test",
    }
    .check()
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn npm_authenticates_with_a_token_in_its_settings() {
    Client {
        host: "token.npm.test",
        header: "authorization",
        lock: Lock::Bearer,
        token: unique("npm_", 36),
        script: "set -e; mkdir /tmp/project; cd /tmp/project
printf 'registry=https://token.npm.test/\\n//token.npm.test/:_authToken=${TOKEN}\\n' > .npmrc
node /npm/bin/npm-cli.js install demo > /dev/null; node -e \"console.log(require('demo'))\"",
        expected: "demo from npm",
    }
    .check()
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pip_authenticates_with_a_token_in_the_address() {
    Client {
        host: "token.pypi.test",
        header: "authorization",
        lock: Lock::Password,
        token: unique("pypi-", 120),
        script: "set -e; export PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1
pip install -q --break-system-packages --index-url https://__token__:$TOKEN@token.pypi.test/simple --target /tmp/site demo
PYTHONPATH=/tmp/site python3 -c 'import demo; print(demo.GREETING)'",
        expected: "demo from pip",
    }
    .check()
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_authenticates_with_a_masked_api_key() {
    let key = unique("sk-ant-api03-", 95);
    let lock = Lock::Header("x-api-key".into(), key.clone());
    claude_code_with("api.anthropic.test", "ANTHROPIC_API_KEY", &key, lock).await;
}

/// The kind of token that `claude setup-token` creates.
#[tokio::test(flavor = "multi_thread")]
async fn claude_code_authenticates_with_a_masked_subscription_token() {
    let token = unique("sk-ant-oat01-", 95);
    claude_code_with("oauth.anthropic.test", "CLAUDE_CODE_OAUTH_TOKEN", &token, Lock::Bearer(token.clone()))
        .await;
}

/// Claude Code works with a surrogate in `variable` against an API that accepts only the real
/// `value`, which must not be left anywhere.
async fn claude_code_with(host: &'static str, variable: &str, value: &str, lock: Lock) {
    let policy = format!("domains: [{host}]");
    let fixture = Fixture::new().await;
    World::shared().lock(host, lock);
    let anthropic = Injection { scopes: injection(&[host], &[]).scopes, ..Preset::Anthropic.injection() };
    let secrets = Secrets::default().masked(variable, value, anthropic).prepare();
    let env = ContainerEnv::default()
        .with("ANTHROPIC_BASE_URL", format!("https://{host}"))
        .with("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .with("CLAUDE_CODE_MAX_RETRIES", "1")
        .merge(secrets.env_vars());
    for (network, expected) in [
        (network_with(&policy, &secrets), Outcome::Success),
        // The control: without the real value in the proxy.
        (network(&policy), Outcome::AuthenticationFailed),
    ] {
        let task = fixture
            .sandbox
            .create_task(fixture.agent().env(env.clone()).network(network))
            .expect("a good task");
        let result = task.execute(Prompt::new("say hello")).await.expect("the sandbox works");
        let facts = format!("{:?} {}", result.error_summary, String::from_utf8_lossy(&result.stdout));
        assert_held!(!facts.contains(value), "{facts}");
        assert_eq!(result.outcome, expected, "{facts}");
    }
    // The session, the network log, and the state of all fixtures.
    let folders = [fixture.folder().to_owned(), state_dir()];
    let found = |value: &str| {
        let mut needles = Needles::new(&[value.to_owned()]);
        needles.look_into_files("host", folders.iter().map(PathBuf::as_path));
        needles.found().clone()
    };
    assert_held!(found(value).is_empty(), "{:?}", found(value));
    fs::write(fixture.folder().join("control"), value).expect("a file");
    assert_eq!(found(value).len(), 1, "the control");
    fixture.close().await;
}
