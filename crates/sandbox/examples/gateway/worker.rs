//! The worker: claims messages, has Claude Code answer them, and stores the answers.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use allowlist::Allowlist;
use futures_util::StreamExt as _;
use sandbox::credentials::{MaskedSecret, Preset, SecretValue, prepare_secrets};
use sandbox::{
    ContainerEnv, ExecutionResult, ImageTag, Network, NetworkSandboxConfig, Prompt, ResourceLimits, Sandbox,
    Task, TaskSpec,
};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use crate::folders::Folders;
use crate::queue::{Claim, Controls, Error, LEASE, Queue};

/// The number of messages that a worker answers at once.
const AT_ONCE: usize = 2;
/// The time that running executions have to end after SIGTERM.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);
/// The longest wait for a message: a query also finds out whether the database is still there.
const IDLE: Duration = Duration::from_mins(1);

pub(crate) struct Worker {
    pub(crate) queue: Arc<Queue>,
    pub(crate) sandbox: Sandbox,
    pub(crate) image: ImageTag,
    pub(crate) claude: PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) key: String,
}

/// The end of an attempt to answer a message.
enum End {
    Answered(Box<ExecutionResult>),
    /// An error, which is the answer.
    Failed(String),
    LeaseLost,
    Drained,
}

impl Worker {
    /// Answers messages until `drain`. An error of the database ends it: others claim its messages
    /// when their leases are over.
    pub(crate) async fn work(self: Arc<Self>, mut drain: watch::Receiver<bool>) -> Result<(), Error> {
        let mut work = self.queue.work.clone();
        let mut attempts = JoinSet::new();
        while !*drain.borrow() {
            work.mark_unchanged();
            let mut wait = IDLE;
            if attempts.len() < AT_ONCE {
                if let Some(claim) = self.queue.claim().await? {
                    attempts.spawn(Arc::clone(&self).answer(claim, drain.clone()));
                    continue;
                }
                wait = self.queue.next_end().await?.unwrap_or(IDLE);
            }
            tokio::select! {
                _ = drain.changed() => {}
                changed = work.changed() => changed?,
                Some(ended) = attempts.join_next() => ended??,
                () = sleep(wait) => {}
            }
        }
        while let Some(ended) = attempts.join_next().await {
            ended??;
        }
        Ok(())
    }

    async fn answer(self: Arc<Self>, claim: Claim, drain: watch::Receiver<bool>) -> Result<(), Error> {
        let folders = Folders::new(&self.dir, &claim.conversation);
        let events = AtomicI64::new(0);
        let end = match &claim.controls {
            Controls { stop: true, .. } => End::Failed("it was stopped".to_owned()),
            // The worker that cut its execution off is dead.
            Controls { quarantine: true, .. } => End::Failed("it is quarantined".to_owned()),
            // The database counts from 1 again if it is a new one.
            _ if folders.session(claim.epoch).exists() => {
                End::Failed("the folder of its epoch exists: SHARED_DIR is of another database".to_owned())
            }
            _ => match self.task(&claim, &folders) {
                Ok(task) => self.attempt(&claim, &task, &folders, &events, drain).await?,
                Err(error) => End::Failed(error.to_string()),
            },
        };
        let events = events.into_inner();
        let (answer, session) = match end {
            End::Answered(mut result) => {
                // `context.json` has the events.
                result.events.clear();
                result.stdout.clear();
                (json!({"result": result, "error": null}), Some(claim.epoch))
            }
            End::Failed(error) => (json!({"result": null, "error": error}), claim.session),
            End::LeaseLost => {
                abandon(&claim, &folders).await;
                return Ok(());
            }
            End::Drained => {
                self.queue.release(&claim).await?;
                folders.remove(claim.epoch).await;
                return Ok(());
            }
        };
        if self.queue.store(&claim, &answer.to_string(), events, session).await? {
            folders.remove_old(claim.epoch, session).await;
        } else {
            abandon(&claim, &folders).await;
        }
        Ok(())
    }

    fn task(&self, claim: &Claim, folders: &Folders) -> Result<Task, Error> {
        let policy = Allowlist::from_yaml(&claim.controls.allowlist, "allowlist")?;
        // The container gets a surrogate; its proxy puts the key into requests to the API.
        let preset: Preset = "anthropic".parse()?;
        let key = SecretValue::new(self.key.clone());
        let masked = [MaskedSecret::new("ANTHROPIC_API_KEY", key, preset.injection())];
        let secrets = prepare_secrets(&masked, &[])?;
        let env = ContainerEnv::default().merge(secrets.env_vars());
        let network = NetworkSandboxConfig::new(policy).replacements(secrets.into_replacements());
        let spec = TaskSpec::new(&claim.conversation, self.image.clone(), folders.session(claim.epoch))
            .claude_binary(&self.claude)
            .env(env)
            .network(Network::Sandboxed(network))
            .network_log_dir(folders.log())
            .limits(ResourceLimits::default().timeout(Duration::from_secs(claim.timeout_s.try_into()?)));
        Ok(self.sandbox.create_task(spec)?)
    }

    /// Runs the agent in a copy of the conversation's session, and stops it when the lease is lost.
    async fn attempt(
        &self,
        claim: &Claim,
        task: &Task,
        folders: &Folders,
        events: &AtomicI64,
        drain: watch::Receiver<bool>,
    ) -> Result<End, Error> {
        let running = async {
            folders.copy(claim).await?;
            let session = task.session_store().session_id_for_resume()?;
            let mut execution = task.execute(Prompt::new(&claim.prompt).resume(session));
            while execution.next().await.is_some() {
                events.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, Error>(execution.await?)
        };
        let end = tokio::select! {
            result = running => {
                return Ok(match result {
                    Ok(result) => End::Answered(Box::new(result)),
                    Err(error) => End::Failed(error.to_string()),
                });
            }
            end = self.tend(claim, task, events) => end?,
            () = over(drain) => End::Drained,
        };
        // The execution was dropped: this waits for its end.
        task.stop().await;
        Ok(end)
    }

    /// Extends the lease and applies controls, until the lease is lost.
    async fn tend(&self, claim: &Claim, task: &Task, events: &AtomicI64) -> Result<End, Error> {
        let (mut controls, mut tick) = (self.queue.controls.clone(), interval(LEASE / 3));
        let (mut applied, mut is_started) = (Controls { count: 0, ..claim.controls.clone() }, false);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                changed = controls.changed() => changed?,
                () = task.started(), if !is_started => is_started = true,
            }
            let Some(newest) = self.queue.extend(claim, events.load(Ordering::Relaxed)).await? else {
                return Ok(End::LeaseLost);
            };
            // The lease does not wait for it, and the next tick tries what failed again.
            if newest.count > applied.count
                && let Ok(true) = timeout(LEASE / 3, apply(task, &newest, &applied)).await
            {
                self.queue.report_applied(claim, newest.count).await?;
                applied = newest;
            }
        }
    }
}

/// Returns whether all controls are in force.
async fn apply(task: &Task, newest: &Controls, applied: &Controls) -> bool {
    if newest.stop {
        let task = task.clone();
        // The execution is stopped even if this takes longer than a tick.
        tokio::spawn(async move { task.stop().await });
        return false;
    }
    if newest.quarantine {
        return applied.quarantine || task.quarantine().await.is_ok();
    }
    if newest.allowlist == applied.allowlist {
        return true;
    }
    match Allowlist::from_yaml(&newest.allowlist, "allowlist") {
        Ok(policy) => task.set_policy(policy).await.is_ok(),
        Err(_) => false,
    }
}

/// Throws the work of a lost lease away.
async fn abandon(claim: &Claim, folders: &Folders) {
    let Claim { message, epoch, conversation, .. } = claim;
    say(&format!(
        "{conversation}: lost the lease of message {message}; the answer of epoch {epoch} is not stored"
    ));
    folders.remove(*epoch).await;
}

async fn over(mut drain: watch::Receiver<bool>) {
    // Without a sender the process ends.
    let _ = drain.wait_for(|drain| *drain).await;
    sleep(DRAIN).await;
}

/// Reports to the operator.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
