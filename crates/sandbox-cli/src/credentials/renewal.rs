//! Renews values while a task runs, and sends them to its proxy. The task keeps its surrogates.
//!
//! A value is read again shortly before it expires, and when a service refuses it: with status 401,
//! to a request that contained it.

use std::time::{Duration, SystemTime};

use allowlist::{HostName, HostPattern};
use sandbox::SandboxError;
use sandbox::credentials::{PreparedSecrets, SecretReplacements, SecretValue};
use sandbox::host_path::Resolver;
use sandbox::network::LogEntry;
use sandbox::network_event::{Event, RequestOutcome};
use sandbox_logins::{LoginError, MARGIN, Tokens};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::login::AgentLogin;
use crate::config::{CredentialsFile, Environment, Renewable};
use crate::control::Controlled;
use crate::failure::with_causes;
use crate::printer::Printer;

/// The maximum time before its expiry at which a value is read again.
const MOST_BEFORE: Duration = Duration::from_mins(5);
/// The minimum and maximum delay before a retry.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// The minimum time between two reads of a refused value: a task can provoke any number of
/// refusals.
const AFTER_REFUSAL: Duration = Duration::from_secs(30);
/// The number of pending refusals; older ones are dropped.
const REFUSALS: usize = 16;

/// The renewable values of a run, and all of its surrogates.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    secrets: PreparedSecrets,
    values: Vec<Value>,
    environment: Environment,
    resolver: Resolver,
    /// The hosts that refused a credential.
    refusals: broadcast::Sender<String>,
}

/// A value, and the time of its next read.
#[derive(Debug, Clone)]
pub(super) struct Value {
    source: Source,
    /// `None`: only when it is refused.
    at: Option<Instant>,
    /// The time of the last read because of a refusal.
    refused: Option<Instant>,
}

/// The source of a value.
#[derive(Debug, Clone)]
enum Source {
    Kept(Renewable),
    Login(Box<HeldLogin>),
}

/// A login, and its tokens in the proxy.
#[derive(Debug, Clone)]
struct HeldLogin {
    login: AgentLogin,
    access: SecretValue,
    /// Whether it was refreshed because it was refused. A repetition would not help, and uses the
    /// login up.
    forced: bool,
}

/// The reason for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Time,
    Refused,
}

/// The result of a read.
enum Read {
    /// The values for the variables, and the time of the next read.
    Values(Vec<(String, SecretValue)>, Option<Instant>),
    Failed(String, Option<Instant>),
}

/// The renewable values of `credentials`, read at `read_at` or later, and the login with its
/// tokens.
pub(super) fn values(
    credentials: &CredentialsFile,
    login: Option<(Tokens, AgentLogin)>,
    read_at: Instant,
) -> Vec<Value> {
    let kept = credentials.renewables().into_iter().map(|value| Value {
        at: value.ttl.map(|ttl| after(read_at, good_for(ttl))),
        source: Source::Kept(value),
        refused: None,
    });
    let login = login.map(|(tokens, login)| {
        // Tokens with less time left could not be refreshed yet.
        let pending = tokens.good_for(SystemTime::now()).is_some_and(|left| left <= MARGIN);
        let at = if pending { Some(after(Instant::now(), RETRY[0])) } else { next_refresh(&tokens) };
        let access = tokens.access().clone();
        Value {
            at,
            source: Source::Login(Box::new(HeldLogin { login, access, forced: false })),
            refused: None,
        }
    });
    kept.chain(login).collect()
}

impl Renewal {
    /// The renewal of `secrets`; `None` if nothing is renewable.
    pub(super) fn new(
        values: Vec<Value>,
        secrets: PreparedSecrets,
        environment: &Environment,
        resolver: &Resolver,
    ) -> Option<Self> {
        (!values.is_empty()).then(|| Self {
            secrets,
            values,
            environment: environment.clone(),
            resolver: resolver.clone(),
            refusals: broadcast::Sender::new(REFUSALS),
        })
    }

    /// The callback for each entry of the network log.
    pub(crate) fn observer(&self) -> impl Fn(&LogEntry, &str) + Send + Sync + 'static {
        let refusals = self.refusals.clone();
        move |entry, _| {
            if let Event::Request(request) = &entry.event
                && request.decision == RequestOutcome::Allowed
                && request.status == Some(401)
                && request.masked > 0
            {
                // There is no receiver after the renewal ended.
                let _ = refusals.send(request.host.clone());
            }
        }
    }

    /// Renews the values of `controlled` until the returned guard is dropped.
    pub(crate) fn begin(renewal: Option<&Self>, controlled: Controlled, printer: Printer) -> JoinSet<()> {
        let mut renewing = JoinSet::new();
        if let Some(renewal) = renewal.cloned() {
            // Before anything can be refused.
            let refusals = renewal.refusals.subscribe();
            renewing.spawn(async move {
                let hand_over = move |replacements| {
                    let controlled = controlled.clone();
                    async move { controlled.set_replacements(replacements).await }
                };
                renewal.run(hand_over, refusals, printer).await;
            });
        }
        renewing
    }

    /// Never ends by itself.
    async fn run<F: Future<Output = Result<(), SandboxError>>>(
        mut self,
        hand_over: impl Fn(SecretReplacements) -> F,
        mut refusals: broadcast::Receiver<String>,
        printer: Printer,
    ) {
        let mut handed_over = self.secrets.replacements().clone();
        let mut values = std::mem::take(&mut self.values);
        loop {
            let host = tokio::select! {
                () = until(values.iter().filter_map(|value| value.at).min()) => None,
                host = refusals.recv() => match host {
                    Ok(host) => Some(host),
                    // Some were missed; the next one is as good.
                    Err(_) => continue,
                },
            };
            let now = Instant::now();
            for value in &mut values {
                let why = match &host {
                    None => value.at.is_some_and(|at| at <= now).then_some(Why::Time),
                    Some(host) => value.is_to_be_read(host, now).then_some(Why::Refused),
                };
                if let Some(why) = why {
                    self.read(value, why, printer).await;
                }
            }
            let mut warned = false;
            while handed_over != *self.secrets.replacements() {
                let replacements = self.secrets.replacements().clone();
                let wait = match hand_over(replacements.clone()).await {
                    Ok(()) => {
                        handed_over = replacements;
                        continue;
                    }
                    // The proxy is not ready yet, or has ended; then this ends too.
                    Err(SandboxError::NotRunning) => RETRY[0],
                    Err(error) => {
                        if !std::mem::replace(&mut warned, true) {
                            printer.warning(format_args!(
                                "failed to send renewed credentials to the proxy, which keeps the previous ones: {error}"
                            ));
                        }
                        RETRY[1]
                    }
                };
                // tidy: sleep: no event reports when a proxy accepts them
                sleep_until(after(Instant::now(), wait)).await;
            }
        }
    }

    async fn read(&mut self, value: &mut Value, why: Why, printer: Printer) {
        let name = value.name();
        let read = match &mut value.source {
            Source::Kept(kept) => self.read_kept(kept, why, value.at).await,
            Source::Login(held) => held.read(why, value.at).await,
        };
        let renewed = match read {
            Read::Values(values, next) => {
                value.at = next;
                self.renewed(values)
            }
            Read::Failed(problem, next) => {
                value.at = next;
                Err(problem)
            }
        };
        match renewed {
            Ok(secrets) => {
                let changed = secrets.replacements() != self.secrets.replacements();
                self.secrets = secrets;
                match why {
                    Why::Time => printer.note(format_args!("renewed `{name}`")),
                    Why::Refused if changed => {
                        printer.note(format_args!("renewed `{name}`, which was refused"));
                    }
                    Why::Refused => {
                        printer.note(format_args!("`{name}` was refused, and its source has the same value"));
                    }
                }
            }
            Err(problem) => {
                let next = match value.at {
                    Some(at) => {
                        format!(
                            "next attempt in {} s",
                            at.saturating_duration_since(Instant::now()).as_secs()
                        )
                    }
                    None => "no further attempt".to_owned(),
                };
                printer.warning(format_args!(
                    "failed to renew `{name}`; the previous value remains in use; {next}: {problem}"
                ));
            }
        }
    }

    async fn read_kept(&self, kept: &Renewable, why: Why, at: Option<Instant>) -> Read {
        let began = Instant::now();
        match kept.read(&self.environment, &self.resolver).await {
            Ok(values) => Read::Values(values, kept.ttl.map(|ttl| after(began, good_for(ttl)))),
            Err(problem) => {
                let wait = kept.ttl.map(|ttl| before(ttl).div_f32(4.0).clamp(RETRY[0], RETRY[1]));
                let retry = wait.map(|wait| after(Instant::now(), wait));
                Read::Failed(problem.to_string(), if why == Why::Time { retry } else { at })
            }
        }
    }

    /// The secrets with new values for these variables.
    fn renewed(&self, values: Vec<(String, SecretValue)>) -> Result<PreparedSecrets, String> {
        let mut secrets = self.secrets.clone();
        for (variable, value) in values {
            secrets.renew(&variable, value).map_err(|error| error.to_string())?;
        }
        Ok(secrets)
    }
}

impl Value {
    fn name(&self) -> String {
        match &self.source {
            Source::Kept(kept) => kept.name(),
            Source::Login(held) => held.login.name().to_owned(),
        }
    }

    /// Whether a refusal by `host` is a reason to read it. If so, the read is recorded.
    fn is_to_be_read(&mut self, host: &str, now: Instant) -> bool {
        let scopes: &[HostPattern] = match &self.source {
            Source::Kept(kept) => &kept.scopes,
            Source::Login(held) => &held.login.injection().scopes,
        };
        let is_its_own = HostName::from_wire(host.as_bytes())
            .is_ok_and(|host| scopes.iter().any(|scope| scope.matches(&host)));
        let was_read = self.refused.is_some_and(|at| now < after(at, AFTER_REFUSAL));
        let is_to_be_read = is_its_own && !was_read;
        if is_to_be_read {
            self.refused = Some(now);
        }
        is_to_be_read
    }
}

impl HeldLogin {
    async fn read(&mut self, why: Why, at: Option<Instant>) -> Read {
        let fresh = match why {
            Why::Time => self.login.fresh(None).await,
            Why::Refused if self.forced => self.login.read(),
            Why::Refused => {
                self.forced = true;
                let refused = self.access.clone();
                self.login.fresh(Some(&refused)).await
            }
        };
        match fresh {
            Ok(tokens) => {
                self.access = tokens.access().clone();
                self.forced &= why == Why::Refused;
                let values = vec![(self.login.name().to_owned(), self.access.clone())];
                Read::Values(values, next_refresh(&tokens))
            }
            Err(error) => {
                // The vendor was not asked, or did not answer.
                self.forced &= !error.may_pass();
                let next = retry(&error, why, at);
                Read::Failed(with_causes(&error), next)
            }
        }
    }
}

/// The time of a login's next attempt. A refusal by the vendor or the host is final.
fn retry(error: &LoginError, why: Why, at: Option<Instant>) -> Option<Instant> {
    match why {
        _ if !error.may_pass() => None,
        Why::Time => Some(after(Instant::now(), RETRY[1])),
        Why::Refused => at,
    }
}

/// The time at which valid tokens are refreshed.
fn next_refresh(tokens: &Tokens) -> Option<Instant> {
    let left = tokens.good_for(SystemTime::now())?;
    // A vendor with shorter-lived tokens is not asked all the time.
    let wait = if left > MARGIN { left.saturating_sub(MARGIN) } else { left / 2 };
    Some(after(Instant::now(), wait.max(RETRY[0])))
}

/// Waits until `at`; forever for `None`.
async fn until(at: Option<Instant>) {
    match at {
        // tidy: sleep: the end of a time that the user or a vendor chose
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// How long before the end of `ttl` a value is read again, so that slow or repeated reads finish in
/// time.
fn before(ttl: Duration) -> Duration {
    (ttl / 5).min(MOST_BEFORE)
}

/// The time until a value is read again.
fn good_for(ttl: Duration) -> Duration {
    ttl.saturating_sub(before(ttl))
}

fn after(from: Instant, wait: Duration) -> Instant {
    from.checked_add(wait).unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sandbox_logins::LoginKind;

    use super::*;

    /// Each new value, with the second at which it arrived.
    #[tokio::test(start_paused = true)]
    async fn value_is_renewed_in_time_and_failures_are_retried() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("token");
        let yaml = format!(
            "masked_secrets: {{T: {{value: !file {}, ttl: 100s, scopes: [a.example], headers: [x]}}}}",
            path.display()
        );
        let credentials = CredentialsFile::of_text(&yaml);
        let (environment, resolver) = (Environment::default(), Resolver::default());
        fs::write(&path, "first-value-0123456789\n").unwrap();
        let prepared = super::super::prepare(&credentials, None, &environment, &resolver).await.unwrap();
        let surrogates = prepared.secrets.env_vars().clone();
        let renewal = prepared.renewal.unwrap();
        let began = Instant::now();
        fs::remove_file(&path).unwrap();
        let seen = RefCell::new(Vec::new());
        let hand_over = |replacements: SecretReplacements| {
            let seconds = began.elapsed().as_secs();
            let text = ["second-value-0123456789", "third-value-0123456789"]
                .into_iter()
                .find(|text| replacements.surrogate_of(text) == surrogates.get("T").map(String::as_str));
            seen.borrow_mut().push((seconds, text));
            let count = seen.borrow().len();
            std::future::ready(match count {
                // The proxy is not ready yet.
                1 => Err(SandboxError::NotRunning),
                2 => {
                    fs::write(&path, "third-value-0123456789").unwrap();
                    Ok(())
                }
                _ => Err(SandboxError::NoEngine),
            })
        };
        let refusals = renewal.refusals.subscribe();
        let running = renewal.run(hand_over, refusals, Printer::new(0, true));
        let writing = async {
            sleep_until(began + Duration::from_secs(82)).await;
            fs::write(&path, "second-value-0123456789").unwrap();
        };
        let running = tokio::time::timeout(Duration::from_secs(170), running);
        let (ended, ()) = tokio::join!(running, writing);
        assert!(ended.is_err(), "it continues until it is dropped");
        let second = Some("second-value-0123456789");
        // Fails at 80 s, succeeds at 85 s; then again 80 s after that.
        assert_eq!(seen.into_inner(), [(85, second), (86, second), (165, Some("third-value-0123456789"))]);
    }

    /// An entry of the network log: a request to `host` with one credential replaced, and its
    /// answer.
    fn answered(host: &str, status: u16, masked: u32) -> LogEntry {
        let entry = format!(
            r#"{{"v":1,"time":"t","event":"request","decision":"allowed","method":"GET","scheme":"https","host":"{host}","target":"/","status":{status},"rule":null,"reason":null,"error":null,"masked":{masked},"bytes_up":0,"bytes_down":0,"first_byte_ms":0,"duration_ms":0}}"#
        );
        LogEntry::parse(&entry).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn refused_value_is_renewed_at_a_limited_rate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("token");
        let yaml = format!(
            "masked_secrets: {{T: {{value: !file {}, scopes: ['*.example'], headers: [x]}}}}",
            path.display()
        );
        let value = |number: u64| format!("value-{number:04}-0123456789");
        fs::write(&path, value(0)).unwrap();
        let (environment, resolver) = (Environment::default(), Resolver::default());
        let credentials = CredentialsFile::of_text(&yaml);
        let prepared = super::super::prepare(&credentials, None, &environment, &resolver).await.unwrap();
        let renewal = prepared.renewal.unwrap();
        let (refusals, observe) = (renewal.refusals.subscribe(), renewal.observer());
        let began = Instant::now();
        let seen = RefCell::new(Vec::new());
        let hand_over = |replacements: SecretReplacements| {
            let second = (0..100).find(|number| replacements.surrogate_of(&value(*number)).is_some());
            seen.borrow_mut().push((began.elapsed().as_secs(), second));
            std::future::ready(Ok(()))
        };
        let running = renewal.run(hand_over, refusals, Printer::new(0, true));
        let task = async {
            for (second, host, status, masked) in [
                (1, "a.example", 200, 1),
                (2, "a.example", 401, 0),
                (3, "other.test", 401, 1),
                (10, "a.example", 401, 1),
                (20, "a.example", 401, 1),
                (39, "a.example", 401, 1),
                (41, "b.example", 401, 1),
            ] {
                sleep_until(began + Duration::from_secs(second)).await;
                fs::write(&path, value(second)).unwrap();
                observe(&answered(host, status, masked), "");
            }
        };
        let running = tokio::time::timeout(Duration::from_mins(1), running);
        let (ended, ()) = tokio::join!(running, task);
        assert!(ended.is_err(), "it continues until it is dropped");
        assert_eq!(seen.into_inner(), [(10, Some(10)), (41, Some(41))]);
    }

    /// An endpoint that issues a new pair of tokens on every request: its address, and the number
    /// of requests.
    fn endpoint() -> (String, Arc<AtomicUsize>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                let _ = stream.read(&mut [0; 4096]);
                let body = format!(
                    r#"{{"access_token":"access-{number}-0123456789","refresh_token":"refresh-{number}-0123456789","expires_in":3600}}"#
                );
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
        (url, asked)
    }

    #[tokio::test]
    async fn login_that_remains_refused_is_refreshed_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (url, asked) = endpoint();
        let write = |access: &str| {
            let login = format!(
                r#"{{"claudeAiOauth":{{"accessToken":"{access}","refreshToken":"refresh-0-0123456789","expiresAt":9999999999999}}}}"#
            );
            fs::write(folder.join("login"), login).unwrap();
        };
        write("access-0-0123456789");
        let yaml =
            format!("logins: {{claude: {{file: {}, token_url: '{url}'}}}}", folder.join("login").display());
        let credentials = CredentialsFile::of_text(&yaml);
        let (environment, resolver) = (Environment::default(), Resolver::default());
        let state = folder.join("state");
        let login =
            AgentLogin::of(&credentials, LoginKind::Claude, &environment, state, &resolver).unwrap().unwrap();
        let access = login.tokens().await.unwrap().access().clone();
        let mut held = HeldLogin { login, access, forced: false };
        for (why, expected, times) in [
            (Why::Time, "access-0-0123456789", 0),
            (Why::Refused, "access-1-0123456789", 1),
            (Why::Refused, "access-1-0123456789", 1),
        ] {
            assert!(matches!(held.read(why, None).await, Read::Values(_, Some(_))));
            assert_eq!((held.access.expose(), asked.load(Ordering::SeqCst)), (expected, times), "{why:?}");
        }
        // A login written by the user or another program is used.
        write("access-9-0123456789");
        held.read(Why::Refused, None).await;
        assert_eq!((held.access.expose(), asked.load(Ordering::SeqCst)), ("access-9-0123456789", 1));
        // It is tried again at the next regular time.
        held.read(Why::Time, None).await;
        held.read(Why::Refused, None).await;
        assert_eq!((held.access.expose(), asked.load(Ordering::SeqCst)), ("access-2-0123456789", 2));
        // A missing login is not retried.
        fs::remove_file(folder.join("login")).unwrap();
        assert!(matches!(held.read(Why::Time, None).await, Read::Failed(_, None)));
    }

    #[test]
    fn value_is_renewed_before_its_expiry() {
        for (ttl, left_alone) in [(5, 4), (100, 80), (3600, 3300), (86_400, 86_100)] {
            assert_eq!(good_for(Duration::from_secs(ttl)).as_secs(), left_alone, "{ttl}");
        }
    }
}
