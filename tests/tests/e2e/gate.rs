//! Repositories of the host: real git in the task, and git's own server behind the proxy.

use std::process::Command;

use e2e_tests::assert_held;
use e2e_tests::fixture::{Fixture, Ran};
use sandbox::gate::{Repository, Rewrites};
use sandbox::{Network, NetworkSandboxConfig};

use super::git_rules::{SCRIPT, verdicts};

/// Runs git of the host.
fn git(arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=host", "-c", "user.email=host@example.test"])
        .args(arguments)
        .output()
        .expect("git on the host");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A new name, since all tests of a run share one state folder.
fn new_name() -> String {
    format!("r{:016x}", rand::random::<u64>())
}

/// A mirror with one commit.
async fn mirror(fixture: &Fixture) -> Repository {
    let upstream = fixture.folder().join("upstream");
    let path = upstream.to_str().expect("a plain path");
    git(&["init", "--quiet", "-b", "main", path]);
    git(&["-C", path, "commit", "--quiet", "--allow-empty", "-m", "first"]);
    let repository = fixture.sandbox.gate().init(&new_name(), Some(path)).await.expect("a repository");
    let report = repository.sync(Rewrites::Keep).await.expect("the upstream exists");
    assert_eq!(report.applied.len(), 1, "{report:?}");
    repository
}

/// Runs `script` with the URL of `repository` as `URL`, and with `rule` as its policy entry.
async fn run(fixture: &Fixture, repository: &Repository, rule: &str, script: &str) -> Ran {
    let name = repository.name();
    let policy = format!("url_prefixes: [{{host: gate, path: /{name}.git, {rule}}}]");
    let allowlist = allowlist::Allowlist::from_yaml(&policy, "test.yaml").expect("a good allowlist");
    let network = NetworkSandboxConfig::new(allowlist).gate([repository.clone()]);
    let script = format!("URL=http://gate/{name}.git\n{script}");
    fixture
        .run_spec(fixture.command(&policy, &["bash", "-c", &script]).network(Network::Sandboxed(network)))
        .await
}

fn refs(repository: &Repository, prefix: &str) -> String {
    let path = repository.path().to_str().expect("a plain path");
    git(&["--git-dir", path, "for-each-ref", "--format=%(refname)", prefix])
}

#[tokio::test(flavor = "multi_thread")]
async fn only_permitted_pushes_reach_a_repository_of_the_host() {
    let fixture = Fixture::new().await;
    let repository = mirror(&fixture).await;
    let rule = "git: {push: ['refs/heads/agent/*', 'refs/tags/agent-*']}";
    let ran = run(&fixture, &repository, rule, SCRIPT).await;
    let allowed = "clone create forward tag annotated umlaut bytes version0 version2 merge big shallow";
    let heads = refs(&repository, "refs/heads");
    for absent in ["mixed", "atomic", "signed", "agentx"] {
        assert_held!(!heads.contains(absent), "{heads}");
    }
    for name in verdicts(&ran.stdout, "ok") {
        assert_held!(
            allowed.split(' ').any(|allowed| allowed == name),
            "{name}: {}\n{}",
            ran.stdout,
            ran.log
        );
    }
    assert_eq!(verdicts(&ran.stdout, "ok").join(" "), allowed, "{}\n{}\n{}", ran.stdout, ran.stderr, ran.log);
    assert!(heads.contains("refs/heads/agent/x") && heads.contains("refs/heads/agent/gone"), "{heads}");
    assert_eq!(refs(&repository, "refs/sandbox/backup"), "");
    // The host merges the pushed commits with its own git.
    let (upstream, path) =
        (fixture.folder().join("upstream"), repository.path().to_str().expect("a plain path"));
    git(&["-C", upstream.to_str().expect("a plain path"), "fetch", "--quiet", path, "agent/x"]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_removed_by_a_permitted_push_are_kept() {
    let fixture = Fixture::new().await;
    let repository = mirror(&fixture).await;
    let rule = "git: {push: ['refs/heads/*'], force: true, delete: true}";
    let ran = run(&fixture, &repository, rule, SCRIPT).await;
    for done in ["main", "mixed", "atomic", "delete", "forced", "rewound"] {
        assert!(
            verdicts(&ran.stdout, "ok").contains(&done.to_owned()),
            "{done}: {}\n{}",
            ran.stdout,
            ran.stderr
        );
    }
    let backups = refs(&repository, "refs/sandbox/backup");
    for removed in ["backup/heads/agent/gone/", "backup/heads/agent/x/"] {
        assert_held!(backups.contains(removed), "{removed} is lost: {backups}");
    }
    // There are none in the container.
    let ran = run(&fixture, &repository, rule, "git ls-remote $URL").await;
    assert_held!(!ran.stdout.contains("backup"), "{}", ran.stdout);
    assert!(ran.stdout.contains("refs/heads/agent/x"), "{}", ran.stdout);
    let before = refs(&repository, "refs/heads");
    let report = repository.sync(Rewrites::Apply).await.expect("the upstream exists");
    assert!(report.applied.is_empty() && refs(&repository, "refs/heads") == before, "{report:?}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_opens_only_its_repositories_and_no_later_execution() {
    let fixture = Fixture::new().await;
    let repository = mirror(&fixture).await;
    let other = fixture.sandbox.gate().init(&new_name(), None).await.expect("a repository");
    let ask = "echo $SANDBOX_GATE_TOKEN; for token in $SANDBOX_GATE_TOKEN $OTHER x; do \
               curl -s -o /dev/null -w '%{http_code} ' -u any:$token $URL/info/refs?service=git-upload-pack; done";
    let first = run(&fixture, &repository, "git: {}", ask).await;
    let (token, codes) = first.stdout.split_once('\n').expect("two lines");
    assert_eq!(codes, "200 401 ", "{}\n{}", first.stderr, first.log);
    let second = run(&fixture, &repository, "git: {}", &format!("OTHER={token}\n{ask}")).await;
    assert_held!(!second.stdout.contains(" 200"), "{}", second.stdout);
    assert!(second.stdout.ends_with("\n200 401 401 "), "{}", second.stdout);
    // A repository that was not given is absent, even if the policy permits it.
    let script = format!("git ls-remote http://gate/{}.git; git ls-remote $URL", other.name());
    let ran = run(&fixture, &repository, "git: {}}, {host: gate, path: '/*', git: {}", &script).await;
    assert!(
        ran.stderr.contains("not found") && ran.stdout.contains("refs/heads/main"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    // A task without repositories cannot reach the gate.
    let ran =
        fixture.run("domains: [gate]", &format!("git ls-remote http://gate/{}.git", repository.name())).await;
    assert_held!(ran.code != 0, "{}", ran.stdout);
    fixture.close().await;
}
