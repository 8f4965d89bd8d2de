//! The end of an execution: what it tampered with is looked for, and what it did in repositories
//! imported, when nothing of it lives any more.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::container::ProgramControl;
use crate::context::Shared;
use crate::egress::RunningProxy;
use crate::error::SandboxError;
use sandbox_workspace::{FailedImport, Findings, GitChanges, TamperedPath, WorkspaceGuard};

use super::rollback;

/// Removes an execution, and returns what it did in its mounts. Its caller waits for no more than
/// that takes.
pub(super) async fn remove(
    shared: &Shared,
    handle: Arc<dyn ProgramControl>,
    proxy: Option<RunningProxy>,
    hold: WorkspaceGuard,
) -> Findings {
    if hold.is_empty() {
        shared.in_background(rollback::tear_down(handle, proxy));
        return Findings::default();
    }
    let (sender, receiver) = oneshot::channel();
    let unseen = hold.unseen("looking for it failed");
    // Also when the caller gives up meanwhile.
    shared.in_background(async move {
        let removed = async { Ok(handle.remove().await?) };
        let removed = look(removed, hold, sender).await;
        let closed = rollback::close(proxy).await;
        removed.and(closed)
    });
    receiver.await.unwrap_or(unseen)
}

/// Returns `result`. Where it is an error, `findings` go to the log, as there is no result to
/// report them with.
pub(super) fn logged_on_error<T>(
    result: Result<T, SandboxError>,
    findings: &Findings,
) -> Result<T, SandboxError> {
    if result.is_err() {
        log_findings(findings);
    }
    result
}

/// Looks for tampered paths once the container is removed; a process that lives could write them
/// behind our back, or be at work in a copy that another has taken.
async fn look(
    removal: impl Future<Output = Result<(), SandboxError>>,
    hold: WorkspaceGuard,
    sender: oneshot::Sender<Findings>,
) -> Result<(), SandboxError> {
    let removed = removal.await;
    if removed.is_err() {
        tracing::warn!("tampered paths of a task are looked for while its container may still be there");
    }
    if let Err(findings) = sender.send(hold.release(removed.is_ok()).await) {
        log_findings(&findings);
    }
    removed
}

/// For an execution that has no result to report them with.
pub(super) fn log_findings(findings: &Findings) {
    log(&findings.tampered, &findings.git);
}

/// For one whose result nobody has.
pub(super) fn log(tampered: &[TamperedPath], git: &GitChanges) {
    log_git(git);
    for thing in tampered {
        tracing::warn!(
            path = ?thing.path,
            moved_to = ?thing.moved_to,
            problem = ?thing.problem,
            "a task that came to no result wrote what programs of the host follow on their own"
        );
    }
}

/// What came of what a task did in repositories, and what did not.
pub(crate) fn log_git(git: &GitChanges) {
    for FailedImport { path, problem, kept_in, .. } in &git.failed {
        tracing::warn!(repository = ?path, problem, ?kept_in, "what a task did in a repository could not be imported, and is kept");
    }
    for repository in &git.repositories {
        tracing::info!(repository = ?repository.path, refs = repository.report.refs.len(), "imported what a task did");
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Write as _};
    use std::fs;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span;

    use crate::spec::Mount;
    use sandbox_workspace::Protection;

    use super::*;

    #[tokio::test]
    async fn what_is_tampered_with_until_the_container_is_gone_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mount = Mount::read_write(&tree, "/workspace").protected(Protection::default());
        for removed in [Ok(()), Err(SandboxError::Busy)] {
            let failed = removed.is_err();
            let quarantine = folder.path().join("quarantine");
            let (_, hold) = WorkspaceGuard::take(vec![mount.clone()], quarantine, None).await.unwrap();
            assert!(!hold.is_empty());
            let removal = async {
                tokio::task::yield_now().await;
                fs::write(tree.join(".envrc"), "evil").unwrap();
                removed
            };
            let (sender, receiver) = oneshot::channel();
            assert_eq!(look(removal, hold, sender).await.is_err(), failed);
            let tampered = receiver.await.unwrap().tampered;
            assert_eq!(tampered.len(), 1, "{tampered:?}");
            assert!(tampered[0].moved_to.is_some() && !tree.join(".envrc").exists());
        }
        let (_, hold) =
            WorkspaceGuard::take(vec![Mount::read_write(&tree, "/workspace")], tree, None).await.unwrap();
        assert!(hold.is_empty());
    }

    #[test]
    fn an_execution_without_a_result_writes_to_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut findings = Findings::default();
        findings.tampered.push(TamperedPath::unseen(folder.path().join("a\nb"), "no"));
        let said = |result: Result<(), SandboxError>| {
            let log = Log::default();
            tracing::subscriber::with_default(log.clone(), || {
                let _ = logged_on_error(result, &findings);
            });
            log.0.lock().unwrap().clone()
        };
        assert_eq!(said(Ok(())), "");
        let text = said(Err(SandboxError::Busy));
        assert!(text.contains(r"a\nb") && text.contains("came to no result"), "{text}");
    }

    /// Keeps what is said.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<String>>);

    impl tracing::Subscriber for Log {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.target().starts_with("sandbox")
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    impl Visit for Log {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            let _ = write!(self.0.lock().unwrap(), "{field}={value:?} ");
        }
    }
}
