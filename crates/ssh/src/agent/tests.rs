//! Hostile clients, each with a control whose signature is made; and OpenSSH's own client.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use ssh_key::{HashAlg, PublicKey, Signature, SshSig};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::connection::MAX_MESSAGE;
use super::*;
use crate::{KeyKind, Passphrase, SshScope, Unlock};

const FAILED: &[u8] = &[5];

/// An agent and its reports.
struct Agent {
    dir: TempDir,
    socket: PathBuf,
    public: PublicKey,
    events: Arc<Mutex<Vec<SignEvent>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Agent {
    async fn start(allowed: Allowed) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let unlock = Unlock::Passphrase(Passphrase::new("p").unwrap());
        let scope = SshScope::open(&dir.path().join("keys"), "s".parse().unwrap(), unlock);
        let key = scope.init(KeyKind::Ed25519, None).await.unwrap();
        let events = Arc::<Mutex<Vec<SignEvent>>>::default();
        let seen = Arc::clone(&events);
        let report = move |event: &SignEvent| seen.lock().unwrap().push(event.clone());
        let signer = Signer::new(scope.keys().await.unwrap(), allowed, report);
        let socket = dir.path().join("agent.sock");
        let task = tokio::spawn(signer.serve(UnixListener::bind(&socket).unwrap()));
        let public = PublicKey::from_openssh(&key.public_line).unwrap();
        Self { dir, socket, public, events, task }
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).await.unwrap()
    }

    fn blob(&self) -> Vec<u8> {
        self.public.to_bytes().unwrap()
    }

    /// The control: a valid request is signed, and the signature is valid.
    async fn signs(&self, client: &mut UnixStream) {
        let data = sshsig("git", b"", "sha512", &[7; 64]);
        let answer = ask(client, &sign(&self.blob(), &data, 0)).await;
        assert_eq!(answer[0], 14, "{answer:?}");
        let signature = Signature::try_from(&answer[5..]).unwrap();
        let key = self.public.key_data().clone();
        let whole = SshSig::new(key, "git", HashAlg::Sha512, signature).unwrap();
        self.public.verify_prehash("git", &[7; 64], &whole).unwrap();
    }
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn sshsig(namespace: &str, reserved: &[u8], algorithm: &str, hash: &[u8]) -> Vec<u8> {
    let parts = [string(namespace.as_bytes()), string(reserved), string(algorithm.as_bytes()), string(hash)];
    [b"SSHSIG".as_slice(), &parts.concat()].concat()
}

fn sign(key: &[u8], data: &[u8], flags: u32) -> Vec<u8> {
    [&[13], string(key).as_slice(), &string(data), &flags.to_be_bytes()].concat()
}

/// The data that a login signs.
fn userauth(key: &[u8], session: &[u8]) -> Vec<u8> {
    let names = ["git", "ssh-connection", "publickey"].map(|name| string(name.as_bytes())).concat();
    [string(session), vec![50], names, vec![1], string(b"ssh-ed25519"), string(key)].concat()
}

async fn ask(client: &mut UnixStream, message: &[u8]) -> Vec<u8> {
    client.write_all(&string(message)).await.unwrap();
    let length = client.read_u32().await.unwrap();
    let mut answer = vec![0; usize::try_from(length).unwrap()];
    client.read_exact(&mut answer).await.unwrap();
    answer
}

/// Complete requests that are refused, with the reasons.
fn refused(key: &[u8]) -> Vec<(&'static str, Vec<u8>, Refusal)> {
    let good = sshsig("git", b"", "sha512", &[7; 64]);
    let mut other = key.to_vec();
    *other.last_mut().unwrap() ^= 1;
    let request = |data: &[u8]| sign(key, data, 0);
    let extra = |bytes: &[u8]| [bytes, b"\0"].concat();
    let typed = |kind: u8| [&[kind], string(key).as_slice(), &string(b"x")].concat();
    vec![
        ("another key", sign(&other, &good, 0), Refusal::UnknownKey),
        ("no key", sign(b"", &good, 0), Refusal::UnknownKey),
        ("a key and more", sign(&extra(key), &good, 0), Refusal::UnknownKey),
        ("the namespace of files", request(&sshsig("file", b"", "sha512", &[7; 64])), Refusal::Namespace),
        ("git in capitals", request(&sshsig("GIT", b"", "sha512", &[7; 64])), Refusal::Namespace),
        ("git and a NUL", request(&sshsig("git\0", b"", "sha512", &[7; 64])), Refusal::Namespace),
        ("an empty namespace", request(&sshsig("", b"", "sha512", &[7; 64])), Refusal::NotNamespaced),
        ("something reserved", request(&sshsig("git", b"x", "sha512", &[7; 64])), Refusal::NotNamespaced),
        ("SHA-1", request(&sshsig("git", b"", "sha1", &[7; 20])), Refusal::NotNamespaced),
        (
            "a hash that is too short",
            request(&sshsig("git", b"", "sha512", &[7; 32])),
            Refusal::NotNamespaced,
        ),
        ("bytes after the hash", request(&extra(&good)), Refusal::NotNamespaced),
        ("a structure cut off", request(&good[..good.len() - 1]), Refusal::NotNamespaced),
        ("another magic", request(&[b"SSHSIH", &good[6..]].concat()), Refusal::NotNamespaced),
        ("nothing", request(b""), Refusal::NotNamespaced),
        ("a login", request(&userauth(key, &[9; 32])), Refusal::NotNamespaced),
        ("a login whose session is the structure", request(&userauth(key, &good)), Refusal::NotNamespaced),
        (
            "the structure, then a login",
            request(&[good.as_slice(), &userauth(key, &[9; 32])].concat()),
            Refusal::NotNamespaced,
        ),
        ("a commit in clear", request(b"tree 0\nauthor a\n\nx"), Refusal::NotNamespaced),
        ("a flag of no algorithm", sign(key, &good, 1), Refusal::Flags(1)),
        ("bytes after the request", extra(&request(&good)), Refusal::Malformed),
        ("a request without flags", request(&good)[..request(&good).len() - 4].to_vec(), Refusal::Malformed),
        ("a string longer than the request", [&[13, 255, 255, 255, 255], key].concat(), Refusal::Malformed),
        ("a list with a tail", vec![11, 0], Refusal::Malformed),
        ("the protocol of 1995", vec![1], Refusal::Unsupported(1)),
        ("add", typed(17), Refusal::Unsupported(17)),
        ("add with constraints", typed(25), Refusal::Unsupported(25)),
        ("remove", typed(18), Refusal::Unsupported(18)),
        ("remove all", vec![19], Refusal::Unsupported(19)),
        ("add of a smartcard", typed(20), Refusal::Unsupported(20)),
        ("lock", typed(22), Refusal::Unsupported(22)),
        ("unlock", typed(23), Refusal::Unsupported(23)),
        ("an extension", typed(27), Refusal::Unsupported(27)),
        ("an answer", vec![12, 0, 0, 0, 0], Refusal::Unsupported(12)),
    ]
}

#[tokio::test]
async fn hostile_requests_are_refused_and_the_next_right_one_is_signed() {
    let agent = Agent::start(Allowed::default()).await;
    let mut client = agent.connect().await;
    agent.signs(&mut client).await;
    for (name, request, expected) in refused(&agent.blob()) {
        agent.events.lock().unwrap().clear();
        assert_eq!(ask(&mut client, &request).await, FAILED, "{name}");
        let events = std::mem::take(&mut *agent.events.lock().unwrap());
        assert_eq!(events.len(), 1, "{name}");
        assert_eq!(events[0].outcome, Err(expected), "{name}");
        agent.signs(&mut client).await;
        let signed = agent.events.lock().unwrap()[0].clone();
        assert_eq!((signed.outcome, signed.namespace.as_deref()), (Ok(()), Some("git")));
        assert!(signed.fingerprint.unwrap().starts_with("SHA256:"));
    }
}

#[tokio::test]
async fn message_without_a_clear_end_disconnects_only_its_client() {
    let agent = Agent::start(Allowed::default()).await;
    let mut other = agent.connect().await;
    for (bytes, expected) in [
        (vec![0; 4], Refusal::Length(0)),
        ((MAX_MESSAGE + 1).to_be_bytes().to_vec(), Refusal::Length(MAX_MESSAGE + 1)),
        (vec![255; 4], Refusal::Length(u32::MAX)),
        (vec![0, 0], Refusal::Half),
        (vec![0, 0, 0, 9, 13, 0], Refusal::Half),
    ] {
        let mut client = agent.connect().await;
        agent.signs(&mut client).await;
        client.write_all(&bytes).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, [0, 0, 0, 1, 5], "{bytes:?}");
        assert_eq!(agent.events.lock().unwrap().last().unwrap().outcome, Err(expected));
        agent.signs(&mut other).await;
    }
    // The longest that is read.
    let mut client = agent.connect().await;
    let mut longest = vec![0; usize::try_from(MAX_MESSAGE).unwrap()];
    longest[0] = 27;
    assert_eq!(ask(&mut client, &longest).await, FAILED);
    agent.signs(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn slow_and_silent_clients_make_room_for_others() {
    let agent = Agent::start(Allowed::default()).await;
    let mut clients = Vec::new();
    for number in 0..100 {
        let mut client = agent.connect().await;
        if number % 2 == 0 {
            client.write_all(&[0, 0]).await.unwrap();
        }
        clients.push(client);
    }
    agent.signs(&mut agent.connect().await).await;
}

#[tokio::test]
async fn only_the_scopes_keys_are_listed_and_only_while_it_serves() {
    let agent = Agent::start(Allowed::default()).await;
    let mut client = agent.connect().await;
    let expected = [&[12, 0, 0, 0, 1], string(&agent.blob()).as_slice(), &string(b"sandbox:s")].concat();
    assert_eq!(ask(&mut client, &[11]).await, expected);
    agent.task.abort();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty() && UnixStream::connect(&agent.socket).await.is_err());
}

#[tokio::test]
async fn another_namespace_is_signed_if_allowed() {
    let agent = Agent::start(Allowed::namespaces(["file"])).await;
    let mut client = agent.connect().await;
    for (namespace, expected) in [("file", 14), ("git", 5)] {
        let data = sshsig(namespace, b"", "sha256", &[7; 32]);
        assert_eq!(ask(&mut client, &sign(&agent.blob(), &data, 0)).await[0], expected, "{namespace}");
    }
}

#[tokio::test]
async fn reported_namespace_is_short_and_on_one_line() {
    let agent = Agent::start(Allowed::default()).await;
    let mut client = agent.connect().await;
    let hostile = format!("git\n\u{1b}[2J{}", "x".repeat(1000));
    let data = sshsig(&hostile, b"", "sha512", &[7; 64]);
    assert_eq!(ask(&mut client, &sign(&agent.blob(), &data, 0)).await, FAILED);
    let event = agent.events.lock().unwrap()[0].clone();
    let namespace = event.namespace.unwrap();
    assert!(namespace.len() == 64 && namespace.starts_with(r"git\n\u{1b}[2J"), "{namespace}");
}

#[tokio::test]
async fn openssh_signs_through_it_and_verifies() {
    let agent = Agent::start(Allowed::default()).await;
    let path = |name: &str| agent.dir.path().join(name).into_os_string().into_string().unwrap();
    let line = agent.public.to_openssh().unwrap();
    std::fs::write(path("key.pub"), &line).unwrap();
    std::fs::write(path("signers"), format!("me {line}\n")).unwrap();
    std::fs::write(path("message"), "tree 0").unwrap();
    let keygen = async |arguments: &[&str], input: &str| {
        #[expect(clippy::disallowed_methods, reason = "the program that the protocol is of")]
        let mut keygen = tokio::process::Command::new("ssh-keygen");
        let input = std::fs::File::open(path(input)).unwrap();
        keygen.args(arguments).env("SSH_AUTH_SOCK", &agent.socket).stdin(input).stdout(Stdio::null());
        keygen.status().await.unwrap().success()
    };
    for (namespace, expected) in [("git", true), ("file", false)] {
        let _ = std::fs::remove_file(path("message.sig"));
        let public = path("key.pub");
        let signed =
            keygen(&["-Y", "sign", "-n", namespace, "-f", &public, &path("message")], "message").await;
        assert_eq!(signed, expected, "{namespace}");
    }
    let (signers, signature) = (path("signers"), path("message.sig"));
    let public = path("key.pub");
    assert!(keygen(&["-Y", "sign", "-n", "git", "-f", &public, &path("message")], "message").await);
    let verify = ["-Y", "verify", "-n", "git", "-I", "me", "-f", &signers, "-s", &signature];
    assert!(keygen(&verify, "message").await);
    assert!(!keygen(&verify, "key.pub").await, "the control");
}
