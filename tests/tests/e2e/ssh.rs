//! Commits signed inside, with keys that stay outside.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use allowlist::HostPattern;
use e2e_tests::DEADLINE;
use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use e2e_tests::secret::{Secrets, unique};
use e2e_tests::setting::Setting;
use e2e_tests::world::{Lock, World};
use sandbox::credentials::{Injection, Preset};
use sandbox::executor::{ExecOptions, ExecutorConfig, Workspace};
use sandbox::ssh::{KeyKind, Passphrase, Refusal, SignEvent, SigningKeys, SshSigner, Unlock};
use sandbox::{CommandSpec, ContainerEnv, Isolation, Mount, Network, ResourceLimits};

/// A client of the agent. `ask` returns the type of the response, or `end`.
const CLIENT: &str = r"
import os, socket, struct
def string(data): return struct.pack('>I', len(data)) + data
def connect():
    client = socket.socket(socket.AF_UNIX)
    client.connect(os.environ['SSH_AUTH_SOCK'])
    return client
def answer(client):
    head = client.recv(4, socket.MSG_WAITALL)
    return client.recv(struct.unpack('>I', head)[0], socket.MSG_WAITALL) if len(head) == 4 else b''
def ask(message, client=None):
    client = client or connect()
    client.sendall(string(message))
    return answer(client)
def kind(message): return message[0] if message else 'end'
listed = ask(b'\x0b')
length = struct.unpack('>I', listed[5:9])[0]
key = listed[9:9 + length]
def structure(namespace, rest=b''):
    return b'SSHSIG' + string(namespace) + string(b'') + string(b'sha512') + string(b'\x07' * 64) + rest
def sign(data, key=key): return b'\x0d' + string(key) + string(data) + struct.pack('>I', 0)
";

/// The keys of a scope of this test, and their public line.
async fn keys(fixture: &Fixture, scope: &str) -> (Arc<SigningKeys>, String) {
    let unlock = Unlock::Passphrase(Passphrase::new("e2e").expect("it is not empty"));
    let scope = fixture.sandbox.init_ssh(scope, unlock).expect("the name of a scope");
    let key = scope.rotate(KeyKind::Ed25519).await.expect("a key");
    (Arc::new(scope.keys().await.expect("its passphrase opens it")), key.public_line)
}

/// A command that runs the bash script `script` in a folder of the host, without egress.
fn script(fixture: &Fixture, signer: Option<SshSigner>, script: &str) -> CommandSpec {
    let env = ContainerEnv::default()
        .with("GIT_CONFIG_COUNT", "2")
        .with("GIT_CONFIG_KEY_0", "user.name")
        .with("GIT_CONFIG_VALUE_0", "an agent")
        .with("GIT_CONFIG_KEY_1", "user.email")
        .with("GIT_CONFIG_VALUE_1", "agent@example.org");
    let spec = fixture
        .command("domains: []", &["bash", "-ec", script])
        .network(Network::Disabled)
        .env(env)
        .mount(Mount::read_write(fixture.folder(), "/work"))
        .working_dir("/work");
    match signer {
        Some(signer) => spec.ssh_signer(signer),
        None => spec,
    }
}

/// Whether the host's git finds a valid signature by the key `line` on `object`.
fn is_verified(folder: &Path, line: &str, verify: &str, object: &str) -> bool {
    let signers = folder.join("allowed_signers");
    std::fs::write(&signers, format!("agent@example.org {line}\n")).expect("a folder of the test's own");
    let output = Command::new("git")
        .arg("-C")
        .arg(folder.join("repo"))
        .args(["-c", "safe.directory=*", "-c", "gpg.format=ssh", "-c"])
        .arg(format!("gpg.ssh.allowedSignersFile={}", signers.display()))
        .args([verify, object])
        .output()
        .expect("git");
    output.status.success()
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_signed_inside_is_verified_outside() {
    let fixture = Fixture::new().await;
    let (keys, line) = keys(&fixture, "commits").await;
    let (_, other) = self::keys(&fixture, "others").await;
    let events = Arc::<Mutex<Vec<SignEvent>>>::default();
    let seen = Arc::clone(&events);
    let signer =
        SshSigner::new(keys).sign_all().on_event(move |event| seen.lock().unwrap().push(event.clone()));
    let commits = "git init -q repo; cd repo; git commit -q --allow-empty -m signed; git branch signed
        git commit -q --no-gpg-sign --allow-empty -m unsigned; git branch unsigned; git tag -m tag v1";
    let ran = fixture.run_spec(script(&fixture, Some(signer), commits)).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let folder = fixture.folder();
    assert!(is_verified(folder, &line, "verify-commit", "signed"));
    assert!(is_verified(folder, &line, "verify-tag", "v1"));
    assert_held!(!is_verified(folder, &line, "verify-commit", "unsigned"), "the commit is unsigned");
    assert_held!(!is_verified(folder, &other, "verify-commit", "signed"), "another key signed it");
    let events = events.lock().unwrap().clone();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events.iter().all(|event| {
        event.outcome == Ok(())
            && event.namespace.as_deref() == Some("git")
            && event.scope.as_str() == "commits"
    }));

    // The control: without a signer, nothing is signed.
    let unsigned = script(&fixture, None, "cd repo; git commit -q -S --allow-empty -m x");
    assert_ne!(fixture.run_spec(unsigned).await.code, 0);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_signs_only_for_git_and_reveals_no_key() {
    let fixture = Fixture::new().await;
    let (keys, _) = keys(&fixture, "hostile").await;
    let events = Arc::<Mutex<Vec<SignEvent>>>::default();
    let seen = Arc::clone(&events);
    let signer = SshSigner::new(keys).on_event(move |event| seen.lock().unwrap().push(event.clone()));
    let program = format!(
        r"python3 - <<'EOF'
{CLIENT}
login = string(b'\x09' * 32) + b'\x32' + string(b'git') + string(b'ssh-connection') + string(b'publickey') + b'\x01' + string(b'ssh-ed25519') + string(key)
print(kind(ask(sign(structure(b'git')))))
for request in [sign(structure(b'file')), sign(structure(b'git', b'x')), sign(login), sign(b'tree 0'), sign(structure(b'git'), b'x'),
    bytes([17]) + string(key), bytes([18]) + string(key), bytes([19]), bytes([22]) + string(b'x'), bytes([27]) + string(b'query')]:
    print(kind(ask(request)))
client = connect()
client.sendall(struct.pack('>I', 1 << 30))
print(kind(answer(client)))
client = connect()
client.sendall(b'\0\0\0\x09\x0d')
client.shutdown(socket.SHUT_WR)
print(kind(answer(client)))
# One that does not end holds up no other.
held = [connect() for _ in range(20)]
print(kind(ask(sign(structure(b'git')))))
EOF
ls -A /run/sandbox/ssh
rm -f /run/sandbox/ssh/agent.sock || echo read-only
grep -rl 'PRIVATE KEY' /run /root /tmp /etc/ssh 2>/dev/null || echo none"
    );
    let ran = fixture.run_spec(script(&fixture, Some(signer), &program)).await;
    let expected = ["14"].into_iter().chain(["5"; 12]).chain(["14", "agent.sock", "read-only", "none"]);
    // 14 is a signature. Only the first and the last request are for git.
    let hostile = ran.stdout.lines().skip(1).take(12);
    assert_held!(hostile.clone().all(|kind| kind == "5" || kind.parse::<u8>().is_err()), "{}", ran.stdout);
    assert_held!(!ran.stdout.contains('/'), "a key is in reach: {}", ran.stdout);
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{}", ran.stderr);
    let events = events.lock().unwrap().clone();
    let refusals: Vec<_> = events.iter().filter_map(|event| event.outcome.err()).collect();
    assert_eq!(refusals.len(), 12, "{refusals:?}");
    assert_eq!(refusals.first(), Some(&Refusal::Namespace));
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_an_executor_sign_without_root() {
    let fixture = Fixture::new().await;
    let (keys, line) = keys(&fixture, "executor").await;
    let tree = fixture.folder().join("repo");
    std::fs::create_dir(&tree).expect("a folder of the test's own");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&tree, all).expect("a folder of the test's own");
    let limits = Setting::of_this_run().possible(ResourceLimits::untrusted().timeout(DEADLINE));
    let config = ExecutorConfig::new("exec", fixture.image.clone())
        .limits(limits)
        .workspace(Workspace::ReadWrite(tree))
        .ssh_signer(SshSigner::new(keys));
    let executor = fixture.sandbox.create_executor(config).expect("a good configuration");
    let commit = "set -e; id -u; export HOME=/tmp; git config --global --add safe.directory '*'; git init -q .; \
        git -c user.name=x -c user.email=agent@example.org commit -q -S --allow-empty -m x";
    let result = executor.execute(commit, ExecOptions::default()).await.expect("the infrastructure works");
    assert!(result.is_success(), "{result:?}");
    assert_ne!(result.stdout_text().trim(), "0");
    executor.cleanup().await.expect("nothing is left");
    assert!(is_verified(fixture.folder(), &line, "verify-commit", "HEAD"));
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_ends_with_its_execution_and_leaves_nothing() {
    let fixture = Fixture::new().await;
    let (keys, _) = keys(&fixture, "ends").await;
    let isolation = Isolation { read_only_root: true, ..Isolation::agent() };
    let look = r#"ssh-add -l | grep -o 'sandbox:ends'; awk '$5 == "/run/sandbox/ssh" { print $4 }' /proc/self/mountinfo"#;
    let spec = script(&fixture, Some(SshSigner::new(keys)), look).isolation(isolation);
    let ran = fixture.run_spec(spec).await;
    let (listed, folder) = ran.stdout.trim().split_once('\n').expect("two lines");
    assert_eq!(listed, "sandbox:ends", "{}", ran.stderr);
    let agents = e2e_tests::fixture::state_dir().join("sockets");
    let folder = agents.join(folder.rsplit('/').next().unwrap_or_default());
    assert_held!(!folder.exists(), "the agent's socket still exists: {}", folder.display());
    assert!(agents.is_dir() && folder != agents, "{}", folder.display());
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ssh_urls_are_rewritten_for_hosts_with_a_masked_token() {
    let (host, other) = ("over-https.git.test", "unmasked.git.test");
    let fixture = Fixture::new().await;
    let token = unique("ghp_", 36);
    for host in [host, other] {
        World::shared().lock(host, Lock::Password(token.clone()));
    }
    let scopes = vec![HostPattern::new(host).expect("a host")];
    let injection = Injection { scopes, ..Preset::Github.injection() };
    let secrets = Secrets::default().masked("TOKEN", &token, injection).prepare();
    let script = |host: &str| {
        format!(
            "set -e; cd /tmp; export GIT_TERMINAL_PROMPT=0
git clone -q git@{host}:demo.git; git clone -q ssh://git@{host}/demo.git again; cat demo/greeting.txt again/greeting.txt
cd demo; date > date.txt; git add .; git commit -q -m second; git push -q origin +HEAD:refs/heads/over-https; echo pushed
git log -1 --format=%an"
        )
    };
    let policy = format!("domains: [{host}, {other}]");
    let run = async |script: &str| {
        let spec = fixture.command_with(&secrets, &policy, &["bash", "-c", script]);
        let mut env = ContainerEnv::new(secrets.env_vars().clone()).with("GIT_CONFIG_COUNT", "2");
        for (number, (key, value)) in
            [("user.name", "an agent"), ("user.email", "agent@example.org")].into_iter().enumerate()
        {
            env = env
                .with(format!("GIT_CONFIG_KEY_{number}"), key)
                .with(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        fixture.run_spec(spec.env(env)).await
    };
    let ran = run(&script(host)).await;
    assert_eq!(ran.stdout, "hello\nhello\npushed\nan agent\n", "{} {}", ran.stderr, ran.log);
    assert!(!ran.log_lines("[masked: 1]").is_empty(), "{}", ran.log);
    // The control: nothing is rewritten for a host without a token.
    let unmasked = run(&script(other)).await;
    assert!(
        unmasked.code != 0 && unmasked.log_lines(&format!("https://{other}")).is_empty(),
        "{} {}",
        unmasked.stderr,
        unmasked.log
    );
    fixture.close().await;
}
