//! Reads values again while a task runs, and hands them to its proxy. The task keeps its surrogates, and notices nothing.

use std::time::Duration;

use sandbox::SandboxError;
use sandbox::credentials::{PreparedSecrets, SecretReplacements};
use sandbox::host_path::Resolver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::config::{CredentialsFile, Environment, Renewable};
use crate::control::Controlled;
use crate::printer::Printer;

/// The longest that a value is read again before its time is over.
const MOST_BEFORE: Duration = Duration::from_mins(5);
/// How long it takes at least, and at most, until what failed is tried again.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// The values of a run that are read again, and all of its surrogates.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    secrets: PreparedSecrets,
    values: Vec<Renewable>,
    /// When they were read.
    read_at: Instant,
    environment: Environment,
    resolver: Resolver,
}

/// A value, and when it is read next.
struct Due {
    value: Renewable,
    at: Instant,
}

impl Renewal {
    /// For `secrets`, which were read from `read_at` on; `None` where nothing has a time to live.
    pub(crate) fn new(
        credentials: &CredentialsFile,
        secrets: PreparedSecrets,
        read_at: Instant,
        environment: &Environment,
        resolver: &Resolver,
    ) -> Option<Self> {
        let values = credentials.renewables();
        (!values.is_empty()).then(|| Self {
            secrets,
            values,
            read_at,
            environment: environment.clone(),
            resolver: resolver.clone(),
        })
    }

    /// Renews what `controlled` has, until what this returns is dropped.
    pub(crate) fn begin(renewal: Option<&Self>, controlled: Controlled, printer: Printer) -> JoinSet<()> {
        let mut renewing = JoinSet::new();
        if let Some(renewal) = renewal.cloned() {
            renewing.spawn(async move {
                let hand_over = move |replacements| {
                    let controlled = controlled.clone();
                    async move { controlled.set_replacements(replacements).await }
                };
                renewal.run(hand_over, printer).await;
            });
        }
        renewing
    }

    /// Ends when nothing is left to be read again, which is never.
    async fn run<F: Future<Output = Result<(), SandboxError>>>(
        mut self,
        hand_over: impl Fn(SecretReplacements) -> F,
        printer: Printer,
    ) {
        let mut handed_over = self.secrets.replacements().clone();
        let first = self.read_at;
        let mut due: Vec<Due> =
            self.values.drain(..).map(|value| Due { at: after(first, good_for(value.ttl)), value }).collect();
        while let Some(next) = due.iter().map(|due| due.at).min() {
            // tidy: sleep: the end of a time that the user chose
            sleep_until(next).await;
            let (now, mut later): (Vec<_>, Vec<_>) = due.into_iter().partition(|due| due.at <= next);
            for mut value in now {
                self.read(&mut value, printer).await;
                later.push(value);
            }
            due = later;
            let mut warned = false;
            while handed_over != *self.secrets.replacements() {
                let replacements = self.secrets.replacements().clone();
                let wait = match hand_over(replacements.clone()).await {
                    Ok(()) => {
                        handed_over = replacements;
                        continue;
                    }
                    // It is not there yet, or not any more: then this ends with it.
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
                // tidy: sleep: nothing says when a proxy takes them
                sleep_until(after(Instant::now(), wait)).await;
            }
        }
    }

    async fn read(&mut self, due: &mut Due, printer: Printer) {
        let (name, ttl, began) = (due.value.name(), due.value.ttl, Instant::now());
        match self.renewed(&due.value).await {
            Ok(secrets) => {
                self.secrets = secrets;
                printer.note(format_args!("renewed `{name}`"));
                due.at = after(began, good_for(ttl));
            }
            Err(fault) => {
                let wait = before(ttl).div_f32(4.0).clamp(RETRY[0], RETRY[1]);
                printer.warning(format_args!(
                    "failed to renew `{name}`, so the previous value stays; next attempt in {} s: {fault}",
                    wait.as_secs()
                ));
                due.at = after(Instant::now(), wait);
            }
        }
    }

    /// The secrets with all parts of `value` as they are now.
    async fn renewed(&self, value: &Renewable) -> Result<PreparedSecrets, String> {
        let mut secrets = self.secrets.clone();
        let parts = value.read(&self.environment, &self.resolver).await.map_err(|fault| fault.to_string())?;
        for (variable, value) in parts {
            secrets.renew(&variable, value).map_err(|error| error.to_string())?;
        }
        Ok(secrets)
    }
}

/// How long before the end of `ttl` a value is read again: what takes its time, or fails at first, is there in time.
fn before(ttl: Duration) -> Duration {
    (ttl / 5).min(MOST_BEFORE)
}

/// How long a value is left alone.
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

    use super::*;

    /// Each hand-over: the second at which it came, and the value it had.
    #[tokio::test(start_paused = true)]
    async fn a_value_is_read_again_in_time_and_what_fails_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("token");
        let yaml = format!(
            "masked_secrets: {{T: {{value: !file {}, ttl: 100s, scopes: [a.example], headers: [x]}}}}",
            path.display()
        );
        let credentials = CredentialsFile::of_text(&yaml);
        let (environment, resolver) = (Environment::default(), Resolver::default());
        fs::write(&path, "first-value-0123456789\n").unwrap();
        let secrets = super::super::prepare(&credentials, &environment, &resolver).await.unwrap();
        let surrogates = secrets.env_vars().clone();
        let renewal = Renewal::new(&credentials, secrets, Instant::now(), &environment, &resolver).unwrap();
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
                // The proxy is not there yet.
                1 => Err(SandboxError::NotRunning),
                2 => {
                    fs::write(&path, "third-value-0123456789").unwrap();
                    Ok(())
                }
                _ => Err(SandboxError::NoEngine),
            })
        };
        let running = renewal.run(hand_over, Printer::new(0, true));
        let writing = async {
            sleep_until(began + Duration::from_secs(82)).await;
            fs::write(&path, "second-value-0123456789").unwrap();
        };
        let running = tokio::time::timeout(Duration::from_secs(170), running);
        let (ended, ()) = tokio::join!(running, writing);
        assert!(ended.is_err(), "it goes on until it is dropped");
        let second = Some("second-value-0123456789");
        // Missing at 80 s, there at 85 s; then again 80 s after it was read.
        assert_eq!(seen.into_inner(), [(85, second), (86, second), (165, Some("third-value-0123456789"))]);
    }

    #[test]
    fn a_value_is_read_before_its_time_is_over() {
        for (ttl, left_alone) in [(5, 4), (100, 80), (3600, 3300), (86_400, 86_100)] {
            assert_eq!(good_for(Duration::from_secs(ttl)).as_secs(), left_alone, "{ttl}");
        }
    }
}
