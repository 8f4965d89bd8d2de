//! Tests of refreshes against a vendor whose refresh tokens can be used once.

use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::time::UNIX_EPOCH;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::*;
use crate::{Answer, LoginKind};

/// Refresh tokens are `rt-N`, each usable once; a second use revokes all.
#[derive(Clone, Default)]
struct Vendor {
    state: Arc<StdMutex<State>>,
    /// If set, an answer waits for it after the token was used.
    holds: Option<Arc<Notify>>,
}

#[derive(Default)]
struct State {
    asked: u64,
    issued: u64,
    is_revoked: bool,
    /// Lost answers, and whether the token was already used.
    lost: Vec<bool>,
    bodies: Vec<Value>,
}

impl Endpoint for Vendor {
    async fn ask(&self, request: TokenRequest) -> Result<Answer, Unanswered> {
        let answer = self.state.lock().unwrap().answer(request.body());
        if let Some(hold) = &self.holds {
            hold.notified().await;
        }
        answer
    }

    fn name(&self) -> String {
        "https://vendor.example/token".to_owned()
    }
}

impl State {
    fn answer(&mut self, body: &[u8]) -> Result<Answer, Unanswered> {
        let body: Value = serde_json::from_slice(body).unwrap();
        self.asked += 1;
        let lost = self.lost.pop();
        if lost == Some(false) {
            return Err(Unanswered::Unavailable("connection refused".to_owned()));
        }
        let is_current = body["refresh_token"] == format!("rt-{}-0123456789abcdef", self.issued);
        self.bodies.push(body);
        if !is_current || self.is_revoked {
            self.is_revoked = true;
            return Err(Unanswered::Refused("invalid_grant".to_owned()));
        }
        self.issued += 1;
        if lost.is_some() {
            return Err(Unanswered::Unavailable("no answer within 30 s".to_owned()));
        }
        let answer = json!({
            "access_token": format!("at-{}-0123456789abcdef", self.issued),
            "refresh_token": format!("rt-{}-0123456789abcdef", self.issued),
            "expires_in": 3600,
        });
        Answer::read(200, answer.to_string().as_bytes())
    }
}

/// A login of claude in its own folder, whose access token expires 1000 s after the Unix epoch.
struct Host {
    folder: tempfile::TempDir,
    vendor: Vendor,
}

impl Host {
    fn new() -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap(), vendor: Vendor::default() };
        host.write(&json!({
            "claudeAiOauth": {
                "accessToken": "at-0-0123456789abcdef", "refreshToken": "rt-0-0123456789abcdef",
                "expiresAt": 1_000_000, "scopes": ["user:inference", "user:x"], "subscriptionType": "max",
            },
            "mcpOAuth": {"other": "stays"},
        }));
        host
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(".credentials.json")
    }

    fn write(&self, document: &Value) {
        fs::write(self.file(), document.to_string()).unwrap();
    }

    fn document(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file()).unwrap()).unwrap()
    }

    fn login(&self) -> Login {
        let state = self.folder.path().join("state/logins");
        Login::new(LoginKind::Claude, self.file(), state, Resolver::default())
    }

    async fn fresh(&self, seconds: u64, refused: Option<&str>) -> Result<String, LoginError> {
        let refused = refused.map(SecretValue::new);
        let fresh = self.login().fresh(&self.vendor, at(seconds), refused.as_ref()).await;
        fresh.map(|tokens| tokens.access().expose().to_owned())
    }

    fn asked(&self) -> u64 {
        self.vendor.state.lock().unwrap().asked
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[tokio::test]
async fn token_is_refreshed_in_time_and_other_fields_are_kept() {
    let host = Host::new();
    assert_eq!(host.fresh(699, None).await.unwrap(), "at-0-0123456789abcdef");
    assert_eq!(host.asked(), 0, "it is good for 301 s");
    assert_eq!(host.fresh(700, None).await.unwrap(), "at-1-0123456789abcdef");
    let document = host.document();
    let login = &document["claudeAiOauth"];
    assert_eq!(
        (&login["accessToken"], &login["refreshToken"], &login["expiresAt"]),
        (&json!("at-1-0123456789abcdef"), &json!("rt-1-0123456789abcdef"), &json!(4_300_000))
    );
    assert_eq!(
        (&login["subscriptionType"], &document["mcpOAuth"]["other"]),
        (&json!("max"), &json!("stays"))
    );
    assert_eq!(host.names(), [".credentials.json", "state"], "no probe and no lock is left");
    assert_eq!(fs::metadata(host.file()).unwrap().mode() & 0o777, 0o600);
    let body = host.vendor.state.lock().unwrap().bodies[0].clone();
    assert_eq!(
        (&body["grant_type"], &body["scope"], &body["client_id"]),
        (
            &json!("refresh_token"),
            &json!("user:inference user:x"),
            &json!("9d1c250a-e61b-44d9-88ed-5944d1962f5e")
        )
    );
    assert_eq!(host.fresh(1000, None).await.unwrap(), "at-1-0123456789abcdef");
    assert_eq!(host.asked(), 1);
}

#[tokio::test]
async fn concurrent_refreshes_share_one_result() {
    let host = Host::new();
    let mut all = JoinSet::new();
    for _ in 0..10 {
        let (login, vendor) = (host.login(), host.vendor.clone());
        all.spawn(async move { login.fresh(&vendor, at(900), None).await });
    }
    for fresh in all.join_all().await {
        assert_eq!(fresh.unwrap().access().expose(), "at-1-0123456789abcdef");
    }
    assert_eq!(host.asked(), 1);
    // Control: without waiting for its turn, each process asks the vendor, and the second revokes
    // all.
    let tokens = host.login().read().unwrap();
    let request = || host.login().request(&tokens, tokens.refresh_token().unwrap());
    assert!(host.vendor.ask(request()).await.is_ok());
    assert_eq!(
        host.vendor.ask(request()).await.unwrap_err(),
        Unanswered::Refused("invalid_grant".to_owned())
    );
}

#[tokio::test]
async fn refused_token_is_refreshed_unless_the_file_has_another() {
    let host = Host::new();
    let first = Some("at-0-0123456789abcdef");
    assert_eq!(host.fresh(0, first).await.unwrap(), "at-1-0123456789abcdef");
    assert_eq!(host.fresh(0, first).await.unwrap(), "at-1-0123456789abcdef", "the file has another");
    assert_eq!(host.asked(), 1);
}

#[tokio::test]
async fn refusal_is_final_until_a_new_login() {
    let host = Host::new();
    host.vendor.state.lock().unwrap().is_revoked = true;
    for _ in 0..3 {
        let error = host.fresh(900, None).await.unwrap_err();
        assert!(!error.may_pass());
        let text = error.to_string();
        assert!(text.contains("(invalid_grant): log in again with `claude`"), "{text}");
        assert!(!text.contains("0123456789abcdef"), "{text}");
    }
    assert_eq!(host.asked(), 1, "it is not sent again");
    host.write(&json!({"claudeAiOauth": {"accessToken": "at-9-0123456789abcdef", "refreshToken": "rt-9-0123456789abcdef", "expiresAt": 9_000_000}}));
    assert_eq!(host.fresh(900, None).await.unwrap(), "at-9-0123456789abcdef");
}

#[tokio::test]
async fn temporary_error_is_retried_and_a_lost_answer_is_recognised() {
    let host = Host::new();
    host.vendor.state.lock().unwrap().lost = vec![false];
    let error = host.fresh(900, None).await.unwrap_err();
    assert!(error.may_pass() && error.to_string().contains("connection refused"), "{error}");
    assert_eq!(host.fresh(900, None).await.unwrap(), "at-1-0123456789abcdef");
    // As after a kill: the token was used, and its result is lost.
    host.vendor.state.lock().unwrap().lost = vec![true];
    assert!(host.fresh(5000, None).await.unwrap_err().may_pass());
    let error = host.fresh(5000, None).await.unwrap_err();
    assert!(!error.may_pass());
    let text = error.to_string();
    assert!(text.contains("cut off before its answer was stored") && text.contains("log in again"), "{text}");
    assert_eq!(host.fresh(5000, None).await.unwrap_err().to_string(), text, "it stays known");
}

#[tokio::test]
async fn result_is_stored_although_its_caller_stopped_waiting() {
    let mut host = Host::new();
    let hold = Arc::new(Notify::new());
    host.vendor.holds = Some(Arc::clone(&hold));
    {
        let mut fresh = std::pin::pin!(host.fresh(900, None));
        while host.asked() == 0 {
            let waited = tokio::time::timeout(Duration::from_millis(1), &mut fresh).await;
            assert!(waited.is_err(), "it waits for its answer");
        }
    }
    hold.notify_one();
    Login::settled().await;
    assert_eq!(host.document()["claudeAiOauth"]["accessToken"], "at-1-0123456789abcdef");
}

#[tokio::test]
async fn unusable_login_is_an_error_without_a_request() {
    let host = Host::new();
    for (document, expected) in [
        (json!({}), "contains no login (it has no access token): log in with `claude`"),
        (json!([1]), "contains no login"),
        (
            json!({"claudeAiOauth": {"accessToken": "at", "expiresAt": 1}}),
            "has no refresh token: log in with `claude`",
        ),
    ] {
        host.write(&document);
        let text = host.fresh(900, None).await.unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    // A token that does not expire needs no refresh.
    host.write(&json!({"claudeAiOauth": {"accessToken": "at"}}));
    assert_eq!(host.fresh(900, None).await.unwrap(), "at");
    let tasks = Resolver::new([host.folder.path()]);
    let within_reach = Login { resolver: tasks, ..host.login() };
    let error = within_reach.fresh(&host.vendor, at(0), None).await.unwrap_err();
    assert!(matches!(error, LoginError::Untrusted { .. }), "{error}");
    fs::remove_file(host.file()).unwrap();
    let text = host.fresh(900, None).await.unwrap_err().to_string();
    assert!(text.contains("log in with `claude`, or name another file"), "{text}");
    assert_eq!(host.asked(), 0);
}
